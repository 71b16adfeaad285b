"""Opens what an absolute path names without following a link anywhere on it.

A path that was checked may lead elsewhere a moment later: a folder of it became a link. So each folder is opened inside
the one before, from the top, and what is looked at, listed or read is what was opened."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from io import BufferedReader

GO_THROUGH = getattr(os, "O_PATH", os.O_RDONLY)  # on Linux a folder that may not be listed is gone through
FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def opened_folder(path: bytes) -> Iterator[int]:
    """A descriptor of the folder, to be used as `dir_fd`; a link or `..` on the way raises NotADirectoryError."""
    number = os.open(b"/", GO_THROUGH | FOLDER)
    try:
        for part in path.split(b"/"):
            if part:
                below = go_into(part, number)
                os.close(number)
                number = below
        yield number
    finally:
        os.close(number)


def go_into(part: bytes, folder: int) -> int:
    if part == b"..":
        raise NotADirectoryError(errno.ENOTDIR, "it leads back up", part)
    try:
        return os.open(part, GO_THROUGH | FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:  # what macOS says of a link
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), part) from error
        raise


def stat_of(path: bytes) -> os.stat_result:
    """What lies there itself; of a link the link."""
    with opened_folder(os.path.dirname(path)) as folder:
        return os.stat(os.path.basename(path), dir_fd=folder, follow_symlinks=False)


@contextlib.contextmanager
def entries(path: bytes) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What lies in a folder, for as long as it is open."""
    with opened_folder(path) as folder:
        number = os.open(b".", os.O_RDONLY | FOLDER, dir_fd=folder)
        try:
            with os.scandir(number) as found:
                yield found
        finally:
            os.close(number)


def open_file(path: bytes) -> BufferedReader:
    """Open a regular file for reading; a link, a pipe or a device raises OSError and is never waited for."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with opened_folder(os.path.dirname(path)) as folder:
        number = os.open(os.path.basename(path), flags, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(f"{os.fsdecode(path)!r} is no regular file")
    return os.fdopen(number, "rb")
