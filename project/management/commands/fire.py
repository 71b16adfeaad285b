"""`manage.py fire SLUG`: ring a schedule now, whatever its slots say."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project import health, samples
from triggers import fire
from triggers.models import Run, Source


class Command(BaseCommand):
    help = "Ring a schedule source once, now, and print the event's number and link."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug")

    def handle(self, *, slug: str, **_: Any) -> None:
        health.require_migrated()
        source = Source.objects.open().filter(slug=slug, kind="schedule").first()
        if source is None:
            there = ", ".join(Source.objects.open().filter(kind="schedule").values_list("slug", flat=True))
            raise CommandError(f"no schedule {slug!r} is switched on; there are: {there or 'none'}")
        seq = fire.fire(source)
        self.stdout.write(f"E-{seq}  {samples.link_base()}/events/{seq}")
        if not Run.objects.filter(event=seq).exists():
            self.stderr.write("it started no run; the event's page says why")
