"""`manage.py restored`: call it after a database was restored from a backup, before the desk starts on it."""

from typing import Any

from django.core.management.base import BaseCommand

from approvals import restoring
from project import health
from triggers import pausing
from triggers.models import Run

REASON = "restored from a backup: look what happened since, then resume"


class Command(BaseCommand):
    help = "Pause everything, and put in doubt what may have been sent after the backup was made."

    def handle(self, **_: Any) -> None:
        health.require_migrated()
        pausing.pause("all", by=None, reason=REASON)
        doubted = restoring.doubt_all()
        live = Run.objects.live().count()
        self.stdout.write("everything is paused: nothing starts and nothing is sent")
        self.stdout.write(f"{doubted} approved actions are in doubt now: each is looked for before it is sent again")
        self.stdout.write(f"{live} runs will go on where the backup has them; cancel those that must not")
        self.stdout.write("when you have looked: manage.py switch --resume")
