"""One at a time on one machine, by the lock of a file: who dies holds it no longer."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Whether no other process of this machine is in here; also yes where no such file can be made."""
    try:
        file = path.open("w")
    except OSError:
        yield True
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
