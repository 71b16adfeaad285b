"""Which file system a path lies on, as Linux tells it, and whether others may change it over a network."""

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
ESCAPED = re.compile(rb"\\([0-7]{3})")  # a space is \040
NETWORKED = (
    *("nfs", "cifs", "smb", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs", "ocfs2", "gfs2"),
    *("vboxsf", "vmhgfs", "virtiofs", "fuse."),
)
LOCAL = ("fuse.fuse-overlayfs",)  # of a container without root


def file_system(path: Path) -> str:
    """The type of the file system `path` lies on; empty where Linux does not tell."""
    return around(path)[1]


def around(path: Path) -> tuple[str, str]:
    """Where the file system of `path` is mounted, and its type; both empty where Linux does not tell."""
    place, found = path.resolve(), ("", "")
    for mounted, kind in mounts():
        if place.is_relative_to(mounted) and len(mounted) >= len(found[0]):  # of two at one place the later is seen
            found = mounted, kind
    return found


def mounts() -> list[tuple[str, str]]:
    """Every place where a file system is mounted, and its type; none where Linux does not tell."""
    try:
        lines = MOUNTS.read_bytes().split(b"\n")
    except OSError:
        return []
    return [(plain(where), kind.decode()) for _, where, kind, *_ in (line.split(b" ") for line in lines if line)]


def plain(name: bytes) -> str:
    return os.fsdecode(ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), name))


def is_networked(kind: str) -> bool:
    """Whether others may change what lies there without telling this machine, and locks do not hold."""
    return kind.startswith(NETWORKED) and kind not in LOCAL
