"""What the file system says of itself, by watchdog: names that may have changed. A hint is a reason to look, no more.

A lost hint costs time, never an event: whoever listens also looks at everything from time to time, and at once when
the kernel says that its queue ran over."""

import errno
import logging
import os
import threading
import time
from pathlib import Path
from typing import Self

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileAttribEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from project.lib.mounts import file_system, is_networked

HEARD = [  # not the opening and closing of files that are only read: we read them ourselves
    *(FileCreatedEvent, FileModifiedEvent, FileClosedEvent, FileAttribEvent, FileDeletedEvent, FileMovedEvent),
    *(DirCreatedEvent, DirDeletedEvent, DirMovedEvent),
]
MOST = 50_000  # names kept; beyond them everything is looked at
LIMITS = {
    errno.ENOSPC: "inotify watch limit (fs.inotify.max_user_watches) reached; raise it with: "
    "sysctl -w fs.inotify.max_user_watches=1048576",
    errno.EMFILE: "inotify instance limit (fs.inotify.max_user_instances) reached; raise it with: "
    "sysctl -w fs.inotify.max_user_instances=1024",
}


class NoHints(Exception):
    """The file system cannot be listened to; the message names the limit and the command that raises it."""


class Hints(FileSystemEventHandler):
    """Listens below `root`; `take()` hands over what was heard since."""

    def __init__(self, root: bytes, *, recursive: bool) -> None:
        self.root = root
        self.recursive = recursive
        self.lock = threading.Lock()
        self.names: dict[bytes, float] = {}  # when each was last heard of (monotonic)
        self.everything = False  # folders moved, or hints were lost
        self.observer = Observer()

    def start(self) -> Self:
        """Raises NoHints."""
        try:
            path = os.fsdecode(self.root)
            self.observer.schedule(self, path, recursive=self.recursive, event_filter=HEARD)
            self.observer.start()
        except OSError as error:
            self.stop()
            raise NoHints(LIMITS.get(error.errno or 0, f"the folder cannot be listened to: {error}")) from error
        OVERFLOW.listening.add(self)
        return self

    def stop(self) -> None:
        OVERFLOW.listening.discard(self)
        self.observer.unschedule_all()
        if self.observer.is_alive():
            self.observer.stop()

    def is_alive(self) -> bool:
        """Whether each of its threads lives: an observer outlives the emitter that fed it."""
        emitters = list(self.observer.emitters)
        return self.observer.is_alive() and bool(emitters) and all(emitter.is_alive() for emitter in emitters)

    def on_any_event(self, event: FileSystemEvent) -> None:
        paths = [os.fsencode(path) for path in (event.src_path, event.dest_path) if path]
        with self.lock:
            if event.is_directory or len(self.names) > MOST:
                self.everything = True
            else:
                self.names |= dict.fromkeys((os.path.relpath(path, self.root) for path in paths), time.monotonic())

    def lose(self) -> None:
        """Hints were lost: everything is to be looked at."""
        with self.lock:
            self.everything = True

    def take(self) -> tuple[dict[bytes, float], bool]:
        with self.lock:
            heard, self.names = self.names, {}
            everything, self.everything = self.everything, False
        return heard, everything


class Overflow(logging.Handler):
    """watchdog tells of an overflow of the kernel's queue by a line in its log, and by nothing else."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.listening: set[Hints] = set()

    def emit(self, record: logging.LogRecord) -> None:
        if "overflow" in record.getMessage():
            for hints in list(self.listening):
                hints.lose()


OVERFLOW = Overflow()
logging.getLogger("watchdog.observers.inotify_c").addHandler(OVERFLOW)


def gives_hints(path: bytes) -> bool:
    """Whether the file system of `path` tells of every change; one that others change over a network does not."""
    return not is_networked(file_system(Path(os.fsdecode(path))))
