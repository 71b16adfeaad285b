"""The policy: its rules, every version it ever had, and changes that wait for a second admin."""

import json
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Max, Q, UniqueConstraint

from approvals.rules import ALLOW, DENY, EFFECTS, REQUIRE
from approvals.tiers import Tier
from project.lib import clock
from project.lib.states import Moves, Stateful

if TYPE_CHECKING:
    from project.people.models import User

ASKED = (
    "when",
    "plan",
    "effect",
    "tier",
    "reviewers",
    "quorum",
    "rejections",
    "four_eyes",
    "expires",
    "windows",
    "zone",
    "hold",
    "otherwise",
    "escalate_after",
)
NONE = "[]"


class PolicyRuleQuerySet(models.QuerySet["PolicyRule"]):
    def kept(self) -> "PolicyRuleQuerySet":
        return self.filter(archived_at=None)

    def in_order(self) -> "PolicyRuleQuerySet":
        return self.order_by("order", "slug")


class PolicyRule(models.Model):
    """Which actions it means, and what it wants for them. What is asked is its copy in the newest PolicyVersion."""

    slug = models.SlugField(max_length=64, unique=True)
    order = models.PositiveIntegerField(default=100)
    when = models.TextField()  # CEL over action, event, run, time
    plan = models.JSONField(default=dict)  # what `when` reads: made when it is saved
    effect = models.CharField(max_length=8, choices=[(effect, effect) for effect in EFFECTS])
    tier = models.CharField(max_length=8, choices=Tier, blank=True, default="")
    reviewers = models.JSONField(default=list, blank=True)  # names of roles and teams
    quorum = models.PositiveSmallIntegerField(default=0)  # 0: one person
    rejections = models.PositiveSmallIntegerField(default=0, db_default=0)  # people whose no ends it; 0: one
    four_eyes = models.BooleanField(default=False)
    expires = models.PositiveIntegerField(default=0)  # seconds; 0: as whoever asked wants
    windows = models.JSONField(default=list, blank=True)  # [{days, from, to}]
    zone = models.CharField(max_length=64, default="UTC")
    escalate_after = models.PositiveIntegerField(default=0, db_default=0)  # seconds until the next reviewers are told
    hold = models.PositiveIntegerField(default=0, db_default=0)  # seconds in which what it lets through can be undone
    otherwise = models.BooleanField(default=False, db_default=False)  # only where no other rule names reviewers
    version = models.PositiveIntegerField(default=1)
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    changed_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = PolicyRuleQuerySet.as_manager()

    class Meta:
        constraints = [
            CheckConstraint(
                condition=~Q(effect=ALLOW) | (Q(tier__in=["", Tier.LOW], quorum=0, four_eyes=False)),
                name="a_rule_allows_low_and_nothing_else",
            ),
            CheckConstraint(
                condition=~Q(effect=REQUIRE) | Q(tier__in=["", Tier.MEDIUM, Tier.HIGH]), name="a_rule_requires_people"
            ),
            CheckConstraint(condition=~Q(effect=DENY) | Q(tier=""), name="what_is_denied_has_no_tier"),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def stored(self) -> dict[str, Any]:
        """As a version of the policy keeps it, and rules.py reads it."""
        return {name: getattr(self, name) for name in ("slug", "version", "order", *ASKED)}


class PolicyVersion(models.Model):
    """All rules as they stood from this number on; the newest is in force. Written once, never changed."""

    number = models.PositiveIntegerField(primary_key=True)
    rules = models.TextField(default=NONE)  # JSON list of `PolicyRule.stored`, in order
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"policy {self.number}"

    @classmethod
    def in_force(cls) -> tuple[int, str]:
        """Number and rules of the newest; 0 and none on a desk that never had a rule."""
        newest = cls.objects.order_by("-number").values_list("number", "rules").first()
        return newest or (0, NONE)

    @classmethod
    def newest(cls) -> int:
        return cls.objects.aggregate(newest=Max("number"))["newest"] or 0

    @classmethod
    def write(cls, *, by: "User | None") -> "PolicyVersion":
        """The next version, made of the rules as they are now; the caller holds the gate."""
        rules = [row.stored for row in PolicyRule.objects.kept().in_order()]
        text = json.dumps(rules, ensure_ascii=False)
        return cls.objects.create(number=cls.newest() + 1, rules=text, by=by, at=clock.now())


class PolicyChange(Stateful):
    """A change that makes something less than high: it waits for an admin who is not the one that asked for it."""

    MOVES: ClassVar[Moves] = Moves(
        confirm=(("waiting",), "confirmed"),
        withdraw=(("waiting",), "withdrawn"),
        outdate=(("waiting",), "outdated"),
    )

    verb = models.CharField(max_length=8)  # create, change, archive
    slug = models.SlugField(max_length=64)
    fields = models.JSONField(default=dict)  # as `PolicyRule` has them
    rule_version = models.PositiveIntegerField(default=0)  # that was read; 0: a new rule
    reasons = models.JSONField(default=list)  # sentences: what it loosens
    status = models.CharField(max_length=10, default="waiting")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField()
    ended_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["slug"], condition=Q(status="waiting"), name="one_change_of_a_rule_waits"),
            CheckConstraint(
                condition=~Q(status="confirmed") | (Q(ended_by__isnull=False) & ~Q(ended_by=models.F("by"))),
                name="a_second_admin_confirms",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.slug}"
