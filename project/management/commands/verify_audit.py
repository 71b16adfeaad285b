"""`manage.py verify_audit`: is the audit log as it was sealed, and has everything that was done its nod?"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project import audited, health
from project.lib.progress import Progress
from triggers import sealing
from triggers.models import Audit


class Command(BaseCommand):
    help = "Walk the sealed chain of the audit log; exit code 1 and its first broken link, what has no nod or no row."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--known", metavar="NUMBER:HASH", help="a head that this command printed earlier")

    def handle(self, *, known: str | None, **_: Any) -> None:
        health.require_migrated()
        noted, until = head_of(known) if known else None, sealing.head().number
        try:
            with Progress(until, "rows", self.stderr) as progress:
                head = sealing.verify(known=noted, tell=progress.at)
        except sealing.BrokenChain as broken:
            raise CommandError(f"the audit log is broken at its first wrong link: {broken}") from broken
        self.stdout.write(f"{head.number} rows are as they were sealed; head {head}")
        if few := audited.bare():
            raise CommandError(few)
        self.stdout.write("everything that was done and needs a nod has one")
        if lacking := audited.untold():
            raise CommandError(lacking)
        self.stdout.write("and the log has everything that became of it")
        waiting = Audit.objects.unsealed().count()
        if waiting:
            self.stdout.write(f"{waiting} row{'s are' if waiting > 1 else ' is'} not sealed yet; the tick does that")


def head_of(text: str) -> sealing.Head:
    number, colon, hash = text.partition(":")
    if not (colon and number.isdecimal() and len(hash) == 64):
        raise CommandError("--known takes what this command printed as the head: NUMBER:HASH")
    return sealing.Head(int(number), hash)
