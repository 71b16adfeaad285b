"""Keeps one thread for each source that must be listened to; starts, ends and replaces them as the rows say."""

import logging
import time
from dataclasses import dataclass

from django.utils.module_loading import import_string

from project.lib import clock, live
from triggers.errors import NotValid
from triggers.listeners.thread import Listener, pulse_of
from triggers.models import ConfigVersion, Pulse, Source, Watch

logger = logging.getLogger("nightdesk.listen")
BACKOFF = (1, 2, 4, 8, 16, 30)  # seconds before a dead thread is started again; the last one repeats
STEADY = 60.0  # seconds after which a thread counts as well again
PATIENCE = 5.0  # seconds all threads have to end
LISTENERS = {  # by kind of source; loaded with its libraries when there is one of that kind
    "file": "triggers.listeners.file.FileListener",
    "email": "triggers.listeners.mail.MailListener",
    "redis_stream": "triggers.listeners.stream.StreamListener",
    "kafka": "triggers.listeners.kafka.TopicListener",
    "database": "triggers.listeners.database.TableListener",
}


def listener_of(source: Source) -> Listener:
    """The thread that listens to it, not started yet. Raises NotValid for a configuration that makes no sense."""
    made: type[Listener] = import_string(LISTENERS[source.kind])
    return made(source)


@dataclass(slots=True)
class Kept:
    """One source, the thread that listens to it, and how often that died."""

    source: Source
    listener: Listener
    began: float
    deaths: int = 0
    again_at: float = 0.0


class Keeper:
    """Nothing here waits: the thread that calls `look()` also keeps the desk's round going."""

    def __init__(self) -> None:
        self.kept: dict[int, Kept] = {}
        self.version: int | None = None

    def look(self) -> None:
        """Follow the configuration, and start again what died."""
        version = ConfigVersion.current()
        if version != self.version:
            self.follow({source.pk: source for source in Source.objects.open().filter(kind__in=LISTENERS)})
            self.version = version
        for one in self.kept.values():
            if not one.listener.is_alive():
                self.revive(one)

    def follow(self, wanted: dict[int, Source]) -> None:
        for pk, one in list(self.kept.items()):
            if pk not in wanted:
                self.end(one)
                # What happens to files while it is off is not told when it is on again: the next first look is silent.
                Watch.objects.filter(source=pk).update(scope="", looked_at=None)
                Pulse.objects.filter(name=pulse_of(one.source)).delete()
            elif wanted[pk].version != one.source.version:
                self.end(one)
        for pk, source in wanted.items():
            if pk not in self.kept:
                self.begin(source)

    def begin(self, source: Source, *, deaths: int = 0) -> None:
        try:
            listener = listener_of(source)
        except NotValid as refused:
            logger.error("Source %s cannot be listened to: %s", source.slug, refused.detail)
            self.note_failed(source, refused.detail)
            return
        self.kept[source.pk] = Kept(source, listener, time.monotonic(), deaths)
        listener.start()

    def end(self, one: Kept) -> None:
        one.listener.stop()
        del self.kept[one.source.pk]

    def revive(self, one: Kept) -> None:
        """Start a dead thread again, each time a little later."""
        now = time.monotonic()
        if not one.again_at:
            one.deaths = 1 if now - one.began > STEADY else one.deaths + 1
            pause = BACKOFF[min(one.deaths, len(BACKOFF)) - 1]
            one.again_at = now + pause
            logger.error("The listener of source %s died; starting it again in %s s", one.source.slug, pause)
            self.note_failed(one.source, "Its listener died and is started again; the log says of what.")
        elif now >= one.again_at:
            self.begin(one.source, deaths=one.deaths)

    def note_failed(self, source: Source, detail: str) -> None:
        """Say on the source's page, and so in the desk's health, that nobody listens and why."""
        at = clock.now()
        told = {"status": Watch.FAILED, "detail": detail, "since": at}
        Watch.objects.update_or_create(source=source, defaults=told)
        Pulse.beat(pulse_of(source), at, status=Watch.FAILED, detail=detail)
        live.changed("sources", id=source.slug)

    def stop(self) -> None:
        """End all threads; returns when they are gone, or after a few seconds without them."""
        listeners = [one.listener for one in self.kept.values()]
        for listener in listeners:
            listener.stop()
        deadline = time.monotonic() + PATIENCE
        for listener in listeners:
            listener.join(max(0.0, deadline - time.monotonic()))
        self.kept.clear()
