"""Is the desk at work right now? Asked by `/settings/checks` of the rows, the broker, the disk and the processes."""

import shutil
from typing import Any

import redis
from celery import current_app
from django.conf import settings
from kombu.exceptions import OperationalError

from approvals.models import Action
from project import audited, health
from project.checks import Question
from project.lib import clock
from triggers import registry
from triggers.models import Pulse, Run, Trigger

PATIENCE = 1.0  # seconds the processes have to answer
LATE_RUN = 60.0  # seconds a due run may wait for a worker
LATE_START = 60.0  # seconds an approved action may stand open to start
LATE_RESUME = 30.0  # seconds from the end of a wait until its run goes on
LONG_ROUND = 15.0  # seconds a round of the desk may take
FREE = 1024**3  # bytes; below it the disk counts as full
SHARE = 0.05  # of the disk


def workers() -> str:
    """Which of the two pools does not answer a ping."""
    if not settings.CELERY_BROKER_URL.startswith(("redis", "unix", "amqp")):
        return "There is no broker to ask them through"
    if health.is_silent():
        return "The broker does not answer, so nobody can be asked"
    try:
        answers = current_app.control.ping(timeout=PATIENCE)
    except (OperationalError, redis.RedisError, OSError) as error:
        return f"The broker does not answer: {error}"
    names = {name.partition("-")[0].partition("@")[0] for answer in answers for name in answer}
    missing = [name for name in ("worker", "desk") if name not in names]
    return f"No process {' and no process '.join(missing)} answers" if missing else ""


def queue() -> str:
    now = clock.now()
    oldest = Run.objects.due(now).order_by("due_at").values_list("due_at", flat=True).first()
    waited = (now - oldest).total_seconds() if oldest else 0
    return f"The oldest due run has waited for {waited:.0f} s" if waited > LATE_RUN else ""


def approved() -> str:
    """Approved is not done: whatever stands open to start for so long shows that nobody carries anything out."""
    waited = Action.objects.all().unstarted_for(clock.now()).total_seconds()
    return f"An approved action could have started {waited:.0f} s ago and has not" if waited > LATE_START else ""


def resumed() -> str:
    """From the end of a wait until its run goes on: runs that were woken and that no worker has taken."""
    now = clock.now()
    woken = Run.objects.due(now).filter(started_at__isnull=False).order_by("due_at")
    oldest = woken.values_list("due_at", flat=True).first()
    waited = (now - oldest).total_seconds() if oldest else 0
    return f"A run whose wait has ended has not gone on for {waited:.0f} s" if waited > LATE_RESUME else ""


def stages() -> str:
    """What the last rounds of the desk could not do, and whether they take too long."""
    rounds = list(Pulse.objects.filter(name__in=["tick", "messages"]).values_list("detail", flat=True))
    faults = [f"{name}: {said}" for detail in rounds for name, said in detail.get("faults", {}).items()]
    return "; ".join([*faults, *filter(None, map(too_long, rounds))])


def too_long(detail: dict[str, Any]) -> str:
    took = detail.get("took", {})
    if sum(took.values()) > LONG_ROUND:
        name = max(took, key=lambda one: float(took[one]))
        return f"a round took {sum(took.values()):.0f} s, {took[name]:.0f} s of it for {name}"
    return ""


def disk() -> str:
    usage = shutil.disk_usage(settings.DATA_DIR)
    if usage.free >= min(FREE, SHARE * usage.total):
        return ""
    return f"{usage.free // 1024**2:,} MB are free where {settings.DATA_DIR} lies"


def listening() -> str:
    return "; ".join(f"{slug}: {fault}" for slug, fault in health.listeners().items() if fault)


def broken_handlers() -> str:
    return "; ".join(f"{name}: {broken.error[:200]}" for name, broken in registry.BROKEN.items())


def missing_handlers() -> str:
    wanted = Trigger.objects.armed().values_list("slug", "handler")
    missing = [f"{slug} wants {handler}" for slug, handler in wanted if handler not in registry.HANDLERS]
    return "; ".join(missing[:10])


def audit() -> str:
    return "; ".join(audited.found())


LIVE = [
    Question("desk.E01", "Does the database answer?", "Look at its own log, and at DATABASE_URL.", health.database),
    Question(
        "desk.E11", "Can anything be written?", "Free some space, or look at the database's own log.", health.storage
    ),
    Question(
        "desk.E02", "Does the broker answer?", "Runs go on by the tick, more slowly. Look at REDIS_URL.", health.broker
    ),
    Question("desk.E03", "Does the tick run?", "Is a process `desk` or `listen` running?", health.tick),
    Question(
        "desk.E10",
        "Does every stage of the tick do its work?",
        "It is tried again every two seconds; the log has the whole story, at `nightdesk.round`.",
        stages,
    ),
    Question("desk.E04", "Do the workers answer?", "manage.py up --processes worker,desk starts them.", workers),
    Question("desk.E09", "Is every watched source listened to?", "manage.py up --processes listen", listening),
    Question("desk.W05", "Do runs start in time?", "Give more --workers, or look what holds them up.", queue),
    Question("desk.W12", "Does what was approved start?", "Is a process `desk` running, and beat?", approved),
    Question(
        "desk.E12",
        "Is the audit log whole, and has everything that was done its nod?",
        "Asked every day; `manage.py verify_audit` asks now. Keep a copy of the database as it is.",
        audit,
    ),
    Question("desk.W13", "Do runs go on when their wait has ended?", "Give more --workers.", resumed),
    Question("desk.E06", "Is there room on the disk?", "Free some, or lower RETENTION_DAYS.", disk),
    Question(
        "desk.W07", "Can every handler file be read?", "Mend the file; /handlers shows the traceback.", broken_handlers
    ),
    Question(
        "desk.W08", "Has every trigger its handler?", "Bring the handler back, or change the trigger.", missing_handlers
    ),
]
