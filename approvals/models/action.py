"""One intended side effect: outbox, approval and idempotency key are this one row."""

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Exists, F, OuterRef, Q, UniqueConstraint

from approvals import hiding
from approvals.models.connection import Connection
from approvals.tiers import Tier
from project.lib import canonical, crypto
from project.lib.states import Moves, Stateful
from project.people import roles
from project.people.models import ApiToken
from triggers.models import Run, Switch
from triggers.models.config import SwitchQuerySet

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from project.people.models import User


UNREADABLE = (ValueError, LookupError, TypeError)  # of a stored text that is no action
EVERYBODY = 0  # in a requester chain: more is behind it than was looked through, so anybody may have asked


class Status(models.TextChoices):
    AWAITING = "awaiting"
    APPROVED = "approved"
    DELIVERING = "delivering"
    UNKNOWN = "unknown"
    DELIVERED = "delivered"
    FAILED = "failed"
    REJECTED = "rejected"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


SETTLED = (
    Status.REJECTED,
    Status.EXPIRED,
    Status.CANCELLED,
    Status.SUPERSEDED,
    Status.DELIVERED,
    Status.FAILED,
)
HOLDS_KEY = (Status.AWAITING, Status.APPROVED, Status.DELIVERING, Status.UNKNOWN, Status.DELIVERED)
HOLDS = (Q(status__in=HOLDS_KEY) | Q(keeps_key=True)) & Q(gave_key_up=False)
LONG = ("canonical", "sealed_arguments", "state_json", "result_json", "evidence", "error")
# The scopes of switches: what switches_over asks of one action, asked of many rows.
HELD_BY = {"kind": "kind", "handler": "run__handler", "source": "run__event__source_slug"}
OF_RUN = ("result_json", "data_json", "error")
DONE_OR_UNDER_WAY = (Status.APPROVED, Status.DELIVERING, Status.UNKNOWN, Status.DELIVERED)


def switches_over(kind: str, run: Run | None) -> SwitchQuerySet:
    """The switches that hold back an action of this kind which `run` asked for, also before it is a row."""
    of_run = {"handler": run.handler, "source": run.event.source_slug} if run else {}
    return Switch.objects.holding(kind=kind, **of_run)


class ActionQuerySet(models.QuerySet["Action"]):
    def awaiting(self) -> "ActionQuerySet":
        return self.filter(status=Status.AWAITING)

    def waiting_for_people(self) -> "ActionQuerySet":
        """Needs a click: a yes or no, or the answer to "did it happen?"."""
        return self.filter(status__in=[Status.AWAITING, Status.UNKNOWN])

    def soonest_first(self) -> "ActionQuerySet":
        return self.order_by("expires_at", "id")

    def settled(self) -> "ActionQuerySet":
        return self.filter(status__in=SETTLED)

    def due(self, now: datetime) -> "ActionQuerySet":
        """Approved and past the take-back window or the pause between tries, and nothing holds it back."""
        return self.open_to_start().filter(status=Status.APPROVED, not_before__lte=now, execute_by__gt=now)

    def unstarted_for(self, now: datetime) -> timedelta:
        """How long the oldest of what is due has been due."""
        first = self.due(now).order_by("not_before").values_list("not_before", flat=True).first()
        return now - first if first else timedelta(0)

    def to_look_at(self, now: datetime) -> "ActionQuerySet":
        """Unknown, and the desk itself can still find out."""
        return self.open_to_start().filter(status=Status.UNKNOWN, not_before__lte=now)

    def open_to_start(self) -> "ActionQuerySet":
        """Not held back by a switch."""
        ways = {scope: OuterRef(way) for scope, way in HELD_BY.items()}
        return self.filter(~Exists(Switch.objects.holding(**ways)))

    def overdue(self, now: datetime) -> "ActionQuerySet":
        """Nobody decided in time, or the desk could not start it in time."""
        return self.filter(
            Q(status=Status.AWAITING, expires_at__lte=now) | Q(status=Status.APPROVED, execute_by__lte=now)
        )

    def holding(self, kind: str, connection: Connection | None, key: str) -> "ActionQuerySet":
        """The action, at most one, for which this key stands now."""
        return self.filter(HOLDS, kind=kind, connection=connection, key=key)

    def lost(self, now: datetime) -> "ActionQuerySet":
        """Delivering, yet nobody reported within the lease."""
        return self.filter(status=Status.DELIVERING, leased_until__lt=now)

    def for_lists(self) -> "ActionQuerySet":
        """Without the texts that only the action's own page shows."""
        return self.select_related("connection", "run", "requested_by", "token").defer(
            *LONG, *(f"run__{name}" for name in OF_RUN)
        )

    def for_tables(self) -> "ActionQuerySet":
        """The same with the arguments."""
        return self.defer(None).select_related("connection", "requested_by", "token").defer(*LONG[1:])

    def for_pages(self) -> "ActionQuerySet":
        near = ("connection", "run", "run__event", "run__trigger", "requested_by", "token", "ended_by")
        return self.select_related(*near)


class Action(Stateful):
    """What somebody wants done to the world, frozen as proposed: what is shown is what runs."""

    MOVES: ClassVar[Moves] = Moves(
        approve=((Status.AWAITING,), Status.APPROVED),
        reject=((Status.AWAITING,), Status.REJECTED),
        edit=((Status.AWAITING,), Status.AWAITING),
        reopen=((Status.APPROVED,), Status.AWAITING),
        expire=((Status.AWAITING, Status.APPROVED), Status.EXPIRED),
        cancel=((Status.AWAITING, Status.APPROVED), Status.CANCELLED),
        supersede=((Status.AWAITING, Status.APPROVED), Status.SUPERSEDED),
        start=((Status.APPROVED,), Status.DELIVERING),
        put_back=((Status.DELIVERING,), Status.APPROVED),
        deliver=((Status.DELIVERING, Status.UNKNOWN, Status.FAILED), Status.DELIVERED),
        fail=((Status.DELIVERING, Status.UNKNOWN), Status.FAILED),
        lose=((Status.DELIVERING,), Status.UNKNOWN),
        send_again=((Status.UNKNOWN,), Status.DELIVERING),
    )

    kind = models.CharField(max_length=64)
    kind_version = models.PositiveIntegerField(default=1)
    tier = models.CharField(max_length=8, choices=Tier)
    status = models.CharField(max_length=12, choices=Status)
    reason_code = models.CharField(max_length=64, blank=True, default="")  # why it ended: asked_enough, execute_by, ...
    cancel_reason = models.TextField(blank=True, default="", db_default="")  # of whoever withdrew it, in their words

    # What it is about; the canonical text is what is shown, digested and delivered
    title = models.CharField(max_length=200)
    canonical = (
        models.TextField()
    )  # RFC 8785 text of {kind, kind_version, connection, connection_version, arguments, preconditions}
    sealed_arguments = models.TextField(blank=True, default="")  # of [[place, value]]: what the text only marks
    digest = models.CharField(max_length=80)
    revision = models.PositiveIntegerField(default=1)
    proposal_digest = models.CharField(max_length=80)  # of revision 1: drift is compared with it
    proposal_connection_version = models.PositiveIntegerField(default=0)
    proposal_preconditions = models.JSONField(default=dict, db_default={})  # of revision 1, for the same reason
    state_json = models.TextField(
        blank=True, default="", db_default=""
    )  # what people were shown of its target as it was
    connection = models.ForeignKey(Connection, models.PROTECT, null=True, related_name="actions")
    connection_version = models.PositiveIntegerField(default=0)
    reason = models.TextField(blank=True, default="")  # the handler's words, never checked
    evidence = models.JSONField(default=list)  # [{text, for: true|false|null, url?}]
    reversible = models.CharField(max_length=200, blank=True, default="")
    blast_radius = models.CharField(max_length=200, blank=True, default="")

    # Its names
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="actions")
    step = models.CharField(max_length=200, blank=True, default="")  # the act's name in its run
    key = models.CharField(max_length=255)  # in business words, or made from origin run, step and generation
    key_is_implicit = models.BooleanField(default=False)
    generation = models.PositiveIntegerField(default=1)
    keeps_key = models.BooleanField(default=False)  # failed, but it may have happened
    gave_key_up = models.BooleanField(default=False)  # a person asked for the effect once more
    origin_run = models.BigIntegerField(null=True)
    compensates = models.ForeignKey(
        "self", models.PROTECT, null=True, related_name="compensated_by", db_index=False
    )  # its effect is what this one undoes

    # People
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    requester_chain = models.JSONField(default=list)  # ids of people who may not nod; EVERYBODY: nobody may
    policy = models.CharField(max_length=100, default="default by tier")
    policy_version = models.BigIntegerField(default=1)
    ruled_by = models.JSONField(default=list, db_default=[])  # [{rule, effect, when, error}] that spoke about it
    groups = models.JSONField(default=list, db_default=[])  # [{reviewers, quorum}]: each needs its own people
    four_eyes = models.BooleanField(default=False, db_default=False)  # who owns the trigger counts as requester too
    allowed_by = models.CharField(max_length=64, blank=True, default="", db_default="")  # the rule that made it low
    needed = models.PositiveSmallIntegerField(default=1)
    given = models.PositiveSmallIntegerField(default=0)  # people who said yes to this revision
    rejections_needed = models.PositiveSmallIntegerField(default=1, db_default=1)  # people whose no ends it
    token = models.ForeignKey(  # the program outside that asked for it
        ApiToken, models.PROTECT, null=True, related_name="actions", db_index=False
    )
    ended_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    take_back_for = models.PositiveSmallIntegerField(default=0)  # seconds

    # Times
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    not_before = models.DateTimeField(null=True)  # of the next try, or of the next look while `unknown`
    execute_by = models.DateTimeField(null=True)
    frozen_until = models.DateTimeField(null=True)  # a freeze holds it back till then, unless it is lifted before
    leased_until = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)  # the program outside that asked took up the yes, once
    used_under = models.CharField(max_length=64, blank=True, default="", db_default="")  # its own name for that

    # Delivery
    tries = models.PositiveIntegerField(default=0)
    looks = models.PositiveIntegerField(default=0)  # how often the desk looked whether it had happened
    not_sent_said = models.BooleanField(default=False)  # a person says that it did not happen: send again
    result_json = models.TextField(null=True)  # noqa: DJ001 -- None: no result yet
    error = models.JSONField(null=True)  # {type, message}
    announced = models.BooleanField(default=False)  # `settled` was ingested; it is said once

    objects = ActionQuerySet.as_manager()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["kind", "connection", "key"],
                condition=HOLDS,
                name="a_key_names_one_effect",
            ),
            UniqueConstraint(
                fields=["kind", "key"],
                condition=Q(connection=None) & HOLDS,
                name="a_key_without_connection_names_one_effect",
            ),
            UniqueConstraint(
                fields=["compensates"],
                condition=Q(compensates__isnull=False) & HOLDS,
                name="an_effect_is_undone_once",
            ),
            CheckConstraint(
                condition=~Q(status__in=SETTLED) | Q(settled_at__isnull=False), name="a_settled_action_says_when"
            ),
            CheckConstraint(
                condition=~Q(status="delivering") | Q(leased_until__isnull=False),
                name="a_delivery_under_way_has_a_lease",
            ),
            CheckConstraint(
                condition=~Q(tier="high", status__in=DONE_OR_UNDER_WAY) | Q(needed__gte=1, given__gte=F("needed")),
                name="high_is_never_done_without_a_person",
            ),
            CheckConstraint(condition=~Q(tier="high") | Q(allowed_by=""), name="no_rule_lets_high_through"),
        ]
        indexes = [
            # With all that the frame and Home count of those that wait: they are not looked at one by one.
            models.Index(fields=["status", "expires_at", "id", "tier", "not_before"], name="actions_by_status"),
            models.Index(fields=["status", "-id"], name="actions_of_a_status"),
            models.Index(fields=["not_before"], condition=Q(status__in=["approved", "unknown"]), name="actions_due"),
            models.Index(fields=["created_at"], name="actions_by_start"),
            models.Index(fields=["decided_at"], condition=Q(decided_at__isnull=False), name="actions_by_decision"),
            models.Index(fields=["settled_at"], condition=Q(settled_at__isnull=False), name="actions_by_end"),
            models.Index(fields=["kind", "key"], name="actions_of_a_key"),
            models.Index(fields=["kind", "-id"], name="actions_of_a_kind"),
            # Partial, or SQLite takes it for the inbox, which asks for three tiers of four.
            models.Index(fields=["tier", "-id"], condition=~Q(tier="medium"), name="actions_of_a_tier"),
            models.Index(fields=["compensates"], condition=Q(compensates__isnull=False), name="actions_that_undo"),
            models.Index(fields=["token", "-id"], condition=Q(token__isnull=False), name="actions_of_a_token"),
            models.Index(fields=["frozen_until"], condition=Q(frozen_until__isnull=False), name="actions_frozen"),
        ]

    def __str__(self) -> str:
        return f"A-{self.pk} {self.kind}"

    @property
    def envelope(self) -> dict[str, Any]:
        """The parsed canonical text."""
        value: dict[str, Any] = json.loads(self.canonical)
        return value

    @property
    def arguments(self) -> dict[str, Any]:
        """The frozen arguments, read from the bytes that will be delivered."""
        arguments: dict[str, Any] = self.envelope["arguments"]
        return arguments

    @property
    def shown_arguments(self) -> dict[str, Any]:
        """The same for pages and lists; none where somebody wrote into the row what is no action: people read the text
        itself, and say no to it."""
        try:
            shown = self.arguments
        except UNREADABLE:
            return {}
        return shown if isinstance(shown, dict) else {}

    @property
    def sent_arguments(self) -> dict[str, Any]:
        """The same with what is hidden in it put back; only a delivery reads them. Raises Unreadable, Refused."""
        return hiding.reveal(self.arguments, crypto.unseal(self.sealed_arguments) or [])

    @property
    def preconditions(self) -> dict[str, Any]:
        """`{target, version, state}` of what it meets, bound by the digest; empty where there is nothing to bind."""
        preconditions: dict[str, Any] = self.envelope["preconditions"]
        return preconditions

    @property
    def is_intact(self) -> bool:
        """Whether the stored text, and the state of its target beside it, still are those that were shown."""
        if canonical.digest_of_text(self.canonical) != self.digest:
            return False
        try:
            bound = self.preconditions.get("state")
        except (*UNREADABLE, AttributeError):  # somebody wrote text and digest by hand
            return False
        return bound is None or bound == canonical.digest_of_text(self.state_json)

    @property
    def result(self) -> Any:
        return json.loads(self.result_json) if self.result_json else None

    @property
    def sent_key(self) -> str:
        """The key the next try sends: a later generation, and an edit after a try, show in it."""
        generation = f".g{self.generation}" if self.generation > 1 else ""
        edited = self.attempts.exclude(revision=self.revision).exists()
        return f"{self.key}{generation}{f'.r{self.revision}' if edited else ''}"

    @property
    def is_settled(self) -> bool:
        return self.status in SETTLED

    @property
    def is_practice(self) -> bool:
        return bool(self.connection and self.connection.practice)

    @property
    def agent(self) -> str:
        """The program outside that asked for it: its service account, or the name of a person's token; else empty."""
        return (self.token.service or self.token.name) if self.token else ""

    @property
    def asker(self) -> str:
        """Who asked, as lists name it."""
        return self.run.handler if self.run else self.agent or str(self.requested_by or "the desk")

    def asked_by(self, user: "User") -> bool:
        """Whether `user` is in the chain of those who asked for it; on high, or with four eyes, also who edited it."""
        return user.pk in self.requester_chain or (self.is_strict and self.edited_by(user))

    def tells_title_to(self, user: "User | AnonymousUser") -> bool:
        """Its headline is made of its arguments: it is for operators, reviewers, members of teams it waits for, and who
        asked. Asks nothing of the database but, once a person, the roles."""
        if roles.can(user, "payloads") or roles.can(user, "decide"):
            return True
        named = {name for group in self.groups for name in group["reviewers"]}
        return bool(roles.groups_of(user) & named) or (user.is_active and user.pk in self.requester_chain)

    def shown_to(self, user: "User | AnonymousUser") -> "Action":
        """Itself, to be drawn and not to be saved: who may not read its headline is shown the kind instead."""
        if not self.tells_title_to(user):
            self.title = self.kind
        return self

    @property
    def is_strict(self) -> bool:
        """Nobody who asked for it, or edited it, has an exception."""
        return self.four_eyes or self.tier == Tier.HIGH

    def edited_by(self, user: "User") -> bool:
        return self.decisions.filter(by=user, verdict="edit").exists()

    @property
    def facts(self) -> dict[str, Any]:
        """What events and refusals say of it: no argument, no secret."""
        return {"action": self.pk, "kind": self.kind, "tier": self.tier, "status": self.status, "key": self.key}
