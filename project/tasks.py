"""What beat asks for, and what a worker or beat checks before its first task."""

import gc
import os
import threading
from typing import Any

from celery import shared_task, signals
from django.conf import settings

from approvals.models import Connection
from project import audited, desk, health, periodic
from project.lib import spans
from project.rollcall import Speaker
from triggers import retention, stopping

LONGEST_ROUND = 120  # seconds after which a round that hangs is killed; what it did not do is the next one's
speakers: list[Speaker] = []  # that of this process
LAST_MOMENT = 12.0  # seconds after which a worker that was told to stop ends itself; `up`, if it lives, kills at nine


@shared_task(time_limit=LONGEST_ROUND)
def tick(**later: Any) -> None:
    desk.tick_alone()


@shared_task
def prune(**later: Any) -> None:
    retention.prune()


@shared_task
def audit(**later: Any) -> None:
    audited.look()


@signals.worker_init.connect
def before_work(**_: Any) -> None:
    """No worker starts on a database that is older than the code."""
    health.require_migrated()


@signals.worker_ready.connect
def say_it_is_there(sender: Any, **_: Any) -> None:
    """A worker of runs is counted; the two of the desk's own queue are no places for them."""
    if settings.PROCESS == "worker":
        speakers.append(Speaker(sender.hostname, sender.controller.concurrency))
        speakers[-1].start()


@signals.worker_shutting_down.connect
def end_in_time(**_: Any) -> None:
    """Without its broker Celery's shutdown never ends; when `up` was killed, nobody is there to kill its workers."""
    stopping.tell()  # its pool gives every run back at its next step
    for speaker in speakers:
        speaker.stop()
    timer = threading.Timer(LAST_MOMENT, os._exit, [1])
    timer.daemon = True
    timer.start()


@signals.worker_process_shutdown.connect
def say_the_rest(**_: Any) -> None:
    """A pool child ends without Python's own farewell: the last spans are sent here."""
    spans.close()


@signals.beat_init.connect
def before_beating(**_: Any) -> None:
    """The same for beat, which also needs its rows."""
    health.require_migrated()
    periodic.ensure()
    Connection.objects.built_in_mail()


@signals.worker_before_create_process.connect
def share_memory(**_: Any) -> None:
    """What is loaded stays loaded: the collector leaves it alone, so parent and children go on sharing its pages."""
    gc.collect()
    gc.freeze()
