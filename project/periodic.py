"""The desk's own clockwork, as rows an operator sees and tunes in the admin: made once, never overwritten."""

from django.conf import settings
from django_celery_beat.models import IntervalSchedule, PeriodicTask

# name: (task, seconds between two, seconds after which an unstarted one is worthless, what people read)
TASKS = {
    "tick": (
        "project.tasks.tick",
        settings.TICK,
        5,
        "Repeats what a lost message would have done: due runs, waits, timeouts, schedules, deliveries.",
    ),
    "prune": (
        "project.tasks.prune",
        3600,
        600,
        "Removes what is older than RETENTION_DAYS and claims whose window has ended.",
    ),
    "audit": (
        "project.tasks.audit",
        86400,
        3600,
        "Looks whether the audit log is whole, and whether everything that was done has its nod.",
    ),
}


def ensure() -> None:
    """Make the rows that are missing."""
    for name, (task, seconds, expires, description) in TASKS.items():
        if PeriodicTask.objects.filter(name=name).exists():
            continue
        whole = seconds == int(seconds)
        every, period = (int(seconds), "seconds") if whole else (int(seconds * 1e6), "microseconds")
        interval = IntervalSchedule.objects.filter(every=every, period=period).first()
        interval = interval or IntervalSchedule.objects.create(every=every, period=period)
        PeriodicTask.objects.create(
            name=name, task=task, interval=interval, expire_seconds=expires, queue="desk", description=description
        )
