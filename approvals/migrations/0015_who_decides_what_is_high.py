"""Desks with people in it get the rule that a first start makes: before it, any reviewer decided what is high."""

import json
from itertools import chain, count
from typing import Any

from django.conf import settings
from django.db import migrations, models
from django.utils import timezone

SLUG = "high-any-reviewer"
RULE: dict[str, Any] = {
    "order": 1000,
    "when": "true",
    "plan": {"text": "true", "clauses": [{"text": "true", "paths": []}], "paths": []},
    "effect": "require",
    "tier": "high",
    "reviewers": ["reviewer"],
    "quorum": 0,
    "rejections": 0,
    "four_eyes": False,
    "expires": 0,
    "windows": [],
    "zone": "UTC",
    "hold": 0,
    "escalate_after": 0,
    "otherwise": True,
}


def name_them(apps: Any, _: Any) -> None:
    people, audit = apps.get_model(settings.AUTH_USER_MODEL), apps.get_model("triggers", "Audit")
    rules, versions = apps.get_model("approvals", "PolicyRule"), apps.get_model("approvals", "PolicyVersion")
    if not people.objects.exists() or rules.objects.filter(archived_at=None, otherwise=True).exists():
        return
    now, slug = timezone.now(), free(rules)
    row = rules.objects.create(slug=slug, changed_at=now, **RULE)
    newest = versions.objects.order_by("-number").first()
    before = json.loads(newest.rules) if newest else []
    own = {"slug": slug, "version": row.version, **RULE}
    after = sorted([*before, own], key=lambda each: (each["order"], each["slug"]))
    number = newest.number + 1 if newest else 1
    versions.objects.create(number=number, rules=json.dumps(after, ensure_ascii=False), at=now)
    told = {name: value for name, value in RULE.items() if name != "plan"}
    detail = {"upgrade": True, "policy": number, **told}
    audit.objects.create(at=now, verb="create", kind="policyrule", ref=slug, detail=detail)


def free(rules: Any) -> str:
    """Somebody may have called a rule of his own so, also one that was archived: this one is made all the same."""
    names = chain([SLUG], (f"{SLUG}-{number}" for number in count(2)))
    return next(name for name in names if not rules.objects.filter(slug=name).exists())


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0014_why_a_request_was_withdrawn"),
        ("triggers", "0005_sealed_rows_stay"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("policyrule", "otherwise", models.BooleanField(db_default=False, default=False)),
        migrations.RunPython(name_them, migrations.RunPython.noop),
    ]
