"""`manage.py tick --once`: one round of the desk, for where nothing may stay resident."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project import desk, health


class Command(BaseCommand):
    help = "One round of the desk: due runs, waits, timeouts, schedules, deliveries."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="required: the resident tick belongs to `up`")

    def handle(self, *, once: bool, **_: Any) -> None:
        if not once:
            raise CommandError("say --once; the resident tick is a part of `manage.py up`")
        health.require_migrated()
        desk.tick()
