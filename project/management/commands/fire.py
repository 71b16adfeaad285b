"""`manage.py fire SLUG`: ring a schedule once, now; what a Kubernetes CronJob calls when nothing may stay resident."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from project import health
from triggers import fire
from triggers.errors import QueueFull
from triggers.models import Source


class Command(BaseCommand):
    help = "Ring a schedule once, now, whatever its plan says; prints the event's number and link."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("slug", help="the schedule source")

    def handle(self, *, slug: str, **_: Any) -> None:
        health.require_migrated()
        source = Source.objects.open().filter(slug=slug, kind="schedule").first()
        if source is None:
            known = ", ".join(Source.objects.open().filter(kind="schedule").values_list("slug", flat=True)) or "none"
            raise CommandError(f"there is no open schedule {slug!r}; open schedules: {known}")
        try:
            event = fire.fire(source)
        except QueueFull as full:
            raise CommandError(full.detail) from full
        self.stdout.write(f"E-{event} {settings.BASE_URL}/events/{event}")
