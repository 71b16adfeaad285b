"""What `redrive` and `replay` share: a filter from the command line, a look or a press, and the work itself."""

import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from project import health
from project.lib.problem import Problem
from project.lib.progress import Progress
from triggers import bulk, schemas_bulk
from triggers.models import Bulk, Trigger

REST = 0.2  # seconds between two rounds
GIVEN = ("canary", "rate", "stop_after", "reason", "dry_run")


def take_pace(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--canary", type=int, default=1, metavar="N", help="rows that go first and are watched a minute"
    )
    parser.add_argument("--rate", type=int, default=10, metavar="N", help="rows a second at most")
    parser.add_argument("--stop-after", type=int, default=5, metavar="N", help="failures in a row that stop it")
    parser.add_argument("--reason", default="", help="kept with each")
    parser.add_argument("--dry-run", action="store_true", help="only say what it would take")


def run(command: BaseCommand, verb: str, texts: dict[str, list[str]], slugs: list[str], given: dict[str, Any]) -> None:
    """Look or press, then work it off here; the desk helps when it is up, and goes on when this is cut short."""
    health.require_migrated()
    texts = {name: sorted(values) for name, values in sorted(texts.items()) if values}
    try:
        rows = schemas_bulk.rows_of(verb, texts, payloads=True)
        triggers = Trigger.objects.named(slugs)
        if given.pop("dry_run"):
            tell(command, bulk.look(verb, rows, triggers=max(1, len(triggers))))
            return
        job = bulk.press(verb, rows, by=None, filter=texts, triggers=triggers, **given)
    except Problem as refused:
        raise CommandError(refused.detail) from refused
    command.stdout.write(f"B-{job.pk}  {settings.BASE_URL}/bulk/{job.pk}")
    work_off(command, job)


def tell(command: BaseCommand, seen: dict[str, Any]) -> None:
    numbers = ", ".join(map(str, seen["first"]))
    command.stdout.write(f"{seen['count']:,} would be taken{f', first {numbers}' if numbers else ''}")


def work_off(command: BaseCommand, job: Bulk) -> None:
    try:
        with Progress(job.total, "taken", command.stderr) as progress:
            while job.status == "running":
                bulk.go_on_with(job.pk, until=time.monotonic() + bulk.BUDGET)
                job.refresh_from_db()
                progress.at(job.total - job.items.waiting().count())
                time.sleep(REST)
    except KeyboardInterrupt:
        command.stdout.write(f"B-{job.pk} goes on in the desk; pause it on its page")
        return
    counts = ", ".join(f"{count:,} {name}" for name, count in schemas_bulk.told(job.tally).items() if count)
    command.stdout.write(f"{job.status}: {counts}{f'. {job.said}' if job.said else ''}")
    if job.status == "stopped":
        raise CommandError("it stopped by itself; go on or cancel on its page")
