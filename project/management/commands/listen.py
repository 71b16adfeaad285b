"""`manage.py listen`: the sources that must be listened to, and the tick when nobody else runs it."""

import logging
import signal
import threading
import time
from typing import Any

from django.core.management.base import BaseCommand
from django.db import DatabaseError, close_old_connections

from project import desk, health
from triggers.listeners.keeper import Keeper
from triggers.models import Pulse

logger = logging.getLogger("nightdesk.listen")
LOOK_EVERY = 1.0  # seconds
LATE = 10.0  # seconds since the last tick after which it is run here, broker or not


class Command(BaseCommand):
    help = "Listen to the sources that must be listened to; run the tick when it is late."
    requires_system_checks: list[str] = []

    def handle(self, **_: Any) -> None:
        health.require_migrated()
        stop = threading.Event()
        self.began = time.monotonic()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        helping, keeper = False, Keeper()
        while True:
            try:
                keeper.look()
                helping = self.help_out(helping)
            except DatabaseError as error:
                logger.error("The database does not answer: %s", str(error).strip())
                close_old_connections()
            if stop.wait(LOOK_EVERY):
                break
        keeper.stop()

    def help_out(self, helping: bool) -> bool:
        """Run the tick if it is late; says so when that begins and ends."""
        known = Pulse.age("tick")
        age = min(known if known is not None else LATE + 1, time.monotonic() - self.began)
        if age <= LATE:
            return False
        if not helping:
            logger.warning("No tick for %.0f s; running it from here", age)
        desk.tick()
        return True
