"""`manage.py tick --once`: one round of the desk, for where nothing may stay resident."""

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from project import desk, health
from triggers import dispatch
from triggers.execute import execute


class Command(BaseCommand):
    help = "One round of the desk: due runs, waits, timeouts, schedules, deliveries. Exit code 1 when a stage failed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="required: the resident tick belongs to `up`")
        parser.add_argument(
            "--work",
            type=float,
            default=0,
            metavar="SECONDS",
            help="then work on due runs here, for where no worker is resident; begins none after so many seconds",
        )

    def handle(self, *, once: bool, work: float, **_: Any) -> None:
        if not once:
            raise CommandError("say --once; the resident tick is a part of `manage.py up`")
        health.require_migrated()
        done = desk.tick()
        worked = work_until(time.monotonic() + work) if work > 0 else 0
        told = [f"{name.replace('_', ' ')} {count}" for name, count in done.done.items() if count]
        told += [f"worked on {worked} run{'s' * (worked != 1)}"] * bool(worked)
        self.stdout.write(", ".join(told) or "nothing to do")
        if done.faults:
            faults = "; ".join(f"{name}: {said}" for name, said in done.faults.items())
            raise CommandError(f"not everything could be done: {faults}")


def work_until(until: float) -> int:
    """Work on due runs in this process; returns on how many."""
    worked = 0
    while time.monotonic() < until and (run_id := dispatch.next_due()) is not None:
        worked += execute(run_id)
    return worked
