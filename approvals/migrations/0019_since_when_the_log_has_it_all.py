"""Whether the log has all that became of an action is asked of those proposed since it tells of their starts: on a
desk that has older ones, this says since when. Without it the log is held against every action there is."""

from typing import Any

from django.db import migrations
from django.utils import timezone


def mark(apps: Any, _: Any) -> None:
    log = apps.get_model("triggers", "Audit").objects
    first = log.filter(kind="action", verb="start").order_by("pk").values_list("at", flat=True).first()
    since = first or timezone.now()
    if apps.get_model("approvals", "Action").objects.filter(created_at__lte=since).exists():
        log.create(at=since, verb="begin", kind="audit", ref="actions", detail={"upgrade": True})


class Migration(migrations.Migration):
    dependencies = [("approvals", "0018_actions_of_a_tier"), ("triggers", "0025_lists_by_trigger_and_rare_states")]

    operations = [migrations.RunPython(mark, migrations.RunPython.noop)]
