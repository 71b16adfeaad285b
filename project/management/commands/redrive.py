"""`manage.py redrive`: run the open dead letters of a filter again, as in the browser."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from project.management import in_bulk


class Command(BaseCommand):
    help = "Run the open dead letters that a filter finds again: one first, then at a pace, with a stop rule."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--fingerprint", action="append", default=[], help="a cause; repeated means either")
        parser.add_argument("--kind", action="append", default=[], choices=["run", "action", "event"])
        parser.add_argument("--since", help="seen last at or after, such as 2026-11-29T03:00:00Z")
        parser.add_argument("--until", help="seen last before")
        in_bulk.take_pace(parser)

    def handle(self, *, fingerprint: list[str], kind: list[str], since: str, until: str, **options: Any) -> None:
        given = {name: options[name] for name in in_bulk.GIVEN}
        texts = {"fingerprint": fingerprint, "kind": kind, "since": [since], "until": [until]}
        in_bulk.run(self, "redrive", {name: [*filter(None, values)] for name, values in texts.items()}, [], given)
