"""`manage.py replay`: run stored events of a filter or a range of time again with the triggers you name."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from project.management import in_bulk


class Command(BaseCommand):
    help = "Run the handlers of the named triggers again for every stored event that a filter finds."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--trigger", action="append", required=True, metavar="SLUG", help="repeated: each of them")
        for name in ("source", "type", "subject", "status"):
            parser.add_argument(f"--{name}", action="append", default=[], help="repeated means either")
        parser.add_argument("--since", help="received at or after, such as 2026-11-29T03:00:00Z")
        parser.add_argument("--until", help="received before")
        parser.add_argument("--q", default="", help="words in type, subject, id or payload")
        in_bulk.take_pace(parser)

    def handle(self, *, trigger: list[str], since: str, until: str, q: str, **options: Any) -> None:
        texts = {name: options[name] for name in ("source", "type", "subject", "status")}
        texts |= {"since": [since], "until": [until], "q": [q]}
        given = {name: options[name] for name in in_bulk.GIVEN}
        in_bulk.run(self, "run_again", {name: [*filter(None, found)] for name, found in texts.items()}, trigger, given)
