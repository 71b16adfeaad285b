"""`manage.py ring NAME`: send a real, signed sample delivery to a running desk."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project import health, samples


class Command(BaseCommand):
    help = "Send a real, correctly signed sample delivery to a running desk and print the event's number and link."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", default="github-issue")
        parser.add_argument("--url", default="", help="where the desk is (default: the one on this machine)")
        parser.add_argument("--again", action="store_true", help="repeat the last one byte for byte")
        parser.add_argument("--make", action="store_true", help="make the source it goes to, when there is none")
        parser.add_argument("--list", action="store_true", help="name the samples")

    def handle(self, *, name: str, url: str, again: bool, make: bool, **options: Any) -> None:
        if options["list"]:
            told = {key: sample.about for key, sample in samples.SAMPLES.items()}
            told |= {key: about for key, (_, about, _) in samples.ENTRIES.items()}
            width = max(map(len, told))
            for key, about in told.items():
                self.stdout.write(f"{key:<{width}}  {about}")
            return
        health.require_migrated()
        try:
            sent = samples.send(name, url, again=again, make=make)
        except samples.NotSent as refusal:
            raise CommandError(str(refusal)) from refusal
        number = f"E-{sent.seq}  " if sent.seq else ""
        self.stdout.write(f"{number}{sent.status}  {sent.link}".rstrip())
