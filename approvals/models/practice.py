"""What practice connections delivered: a small world inside the desk."""

from typing import TYPE_CHECKING, Any

from django.db import models, transaction
from django.db.models import UniqueConstraint

from approvals.models.connection import Connection
from project.lib import clock
from project.lib.live import changed

if TYPE_CHECKING:
    from approvals.kinds import Kind
    from approvals.models.action import Action


class PracticeItemQuerySet(models.QuerySet["PracticeItem"]):
    def deliver(self, action: "Action", kind: "Kind", typed: Any, key: str) -> dict[str, Any]:
        """Do it here instead of outside, once a key; a repeat gets the first answer."""
        with transaction.atomic():
            item, is_new = self.get_or_create(
                connection=action.connection,
                kind=action.kind,
                key=key,
                defaults={
                    "title": action.title,
                    "arguments": action.arguments,
                    "action_id": action.pk,
                    "at": clock.now(),
                },
            )
            if is_new:
                item.result = {**kind.pretend(typed, item.pk), "practice": True}
                item.save(update_fields=["result"])
                changed("practice", id=item.pk)
        result: dict[str, Any] = item.result
        return result

    def probe(self, action: "Action", keys: list[str]) -> dict[str, Any] | None:
        """What was delivered under one of these keys, or None."""
        item = self.filter(connection=action.connection, kind=action.kind, key__in=keys).first()
        return item.result if item else None


class PracticeItem(models.Model):
    """A comment, pull request, message or call that would have gone out."""

    connection = models.ForeignKey(Connection, models.PROTECT, related_name="practice_items")
    kind = models.CharField(max_length=64)
    key = models.CharField(max_length=300)
    title = models.CharField(max_length=300)
    arguments = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    action_id = models.BigIntegerField(null=True)
    at = models.DateTimeField()

    objects = PracticeItemQuerySet.as_manager()

    class Meta:
        constraints = [UniqueConstraint(fields=["connection", "kind", "key"], name="practice_honours_keys")]

    def __str__(self) -> str:
        return self.title
