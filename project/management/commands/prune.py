"""`manage.py prune`: one round of retention now, or what it would do."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from project import health
from project.lib.progress import Progress
from triggers import retention


class Command(BaseCommand):
    help = "Remove what is past RETENTION_DAYS or whose time is over; what waits, is unresolved or pinned stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only count")

    def handle(self, *, dry_run: bool, **_: Any) -> None:
        health.require_migrated()
        self.stdout.write(f"Payloads are kept {settings.RETENTION_DAYS} days; facts stay.")
        if dry_run:
            self.say(retention.due(), "would go")
            return
        with Progress(len(retention.STAGES), "kinds of rows", self.stderr) as progress:
            finished: list[str] = []

            def tell(name: str, count: int) -> None:
                finished.append(name)
                progress.at(len(finished))

            done = retention.prune(tell)
        self.say(done, "gone")

    def say(self, counts: dict[str, int], verb: str) -> None:
        for name, count in counts.items():
            self.stdout.write(f"{count:>10,}  {name.replace('_', ' ')} {verb}")
