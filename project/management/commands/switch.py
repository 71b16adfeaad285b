"""`manage.py switch`: hold everything back, or one handler, kind or source, and let it go on; with no desk running."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project import health
from triggers import pausing
from triggers.errors import NotValid
from triggers.models import Switch


class Command(BaseCommand):
    help = "Pause or resume all, or one handler, kind or source. Without --pause or --resume: what is paused now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("scope", nargs="?", default="all", choices=Switch.SCOPES)
        parser.add_argument("name", nargs="?", default="", help="of the handler, kind or source")
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--pause", dest="verb", action="store_const", const=pausing.pause)
        what.add_argument("--resume", dest="verb", action="store_const", const=pausing.resume)
        parser.add_argument("--reason", default="", help="what people read on every page")

    def handle(self, *, scope: str, name: str, verb: Any, reason: str, **_: Any) -> None:
        health.require_migrated()
        if verb is not None:
            try:
                verb(scope, name, by=None, reason=reason)
            except NotValid as refused:
                raise CommandError(refused.detail) from refused
        held = Switch.objects.off().order_by("scope", "name")
        for row in held:
            self.stdout.write(f"paused: {row}{', ' if row.reason else ''}{row.reason}")
        if not held:
            self.stdout.write("nothing is paused")
