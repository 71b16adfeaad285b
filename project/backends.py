"""Addresses of the database and the broker, translated into what Django, Celery and Channels each want."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from project.env import BadSetting, text

SOCKET_PATH_BYTES = 103  # what macOS takes; Linux takes 107
LONG_LIVED = 60  # seconds a worker keeps its database connection
POOL = {"min_size": 1, "max_size": 16, "timeout": 10}  # of a web process on PostgreSQL
LOG = 32_000  # pages of SQLite's log, 128 MB, that a commit copies by itself; the round does it far sooner
PREPARED = 3  # uses of a statement by one connection after which PostgreSQL keeps it
POSTGRES_OPTIONS = "-c idle_in_transaction_session_timeout=30s -c lock_timeout=5s"


def database(name: str, data_dir: Path, *, web: bool) -> dict[str, object]:
    """Django's DATABASES entry for `sqlite:///PATH` or `postgres://user:password@host:port/name?option=value`.

    `web`: a server with many short requests opens no connection of its own for each (psycopg's pool on
    PostgreSQL, a fresh handle on SQLite); workers keep theirs.
    """
    url = text(name, f"sqlite:///{quote(str(data_dir / 'nightdesk.sqlite3'))}")
    parts = urlsplit(url)
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        return sqlite(unquote(parts.path[1:]), web=web)
    if parts.scheme in ("postgres", "postgresql"):
        return postgres(name, url, web=web)
    raise BadSetting(name, "must look like sqlite:///path/to/file or postgres://user:password@host:5432/name")


def sqlite(path: str, *, web: bool) -> dict[str, object]:
    """SQLite as we run it: write-ahead log, IMMEDIATE transactions, every commit on the disk before the answer."""
    return {
        "ENGINE": "project.lib.sqlite",
        "NAME": path,
        "CONN_MAX_AGE": 0 if web else LONG_LIVED,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,  # seconds a writer waits for its turn
            "init_command": f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint={LOG};",
        },
    }


def postgres(name: str, url: str, *, web: bool) -> dict[str, object]:
    """PostgreSQL by psycopg; `?options=` in the address replaces our session settings (pgbouncer takes none)."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    try:
        port = parts.port
    except ValueError as error:
        raise BadSetting(name, f"has a port that is not a number from 0 to 65535: {place!r}") from error
    if len(parts.path) < 2:
        raise BadSetting(name, "lacks the name of the database after the host")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    options: dict[str, object] = {"options": POSTGRES_OPTIONS, **query}
    if "prepare_threshold" in query:
        options["prepare_threshold"] = threshold(name, query["prepare_threshold"])
    elif options["options"]:  # pgbouncer may answer each transaction from another connection
        options["prepare_threshold"] = PREPARED
    if web:
        options["pool"] = POOL
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(place.removesuffix(f":{port}")).strip("[]"),
        "PORT": str(port or ""),
        "CONN_MAX_AGE": 0 if web else LONG_LIVED,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,  # pgbouncer in transaction mode
        "OPTIONS": options,
    }


def threshold(name: str, told: str) -> int | None:
    if told == "none":
        return None
    if not (told.isascii() and told.isdigit()):
        raise BadSetting(name, f"has a prepare_threshold that is neither a number nor none: {told!r}")
    return int(told)


@dataclass(frozen=True)
class Redis:
    """One address in the two spellings its users want."""

    client: str  # redis-py, Channels, cache: unix:///path?db=0 or redis://host:port/0
    celery: str  # kombu: redis+socket:///path?virtual_host=0 or the same redis:// address
    ours: bool  # whether `up` starts this server itself


def redis(name: str, data_dir: Path) -> Redis:
    """The address in `name`, else the socket of the Valkey that `up` starts for DATA_DIR."""
    url = text(name)
    if not url:
        return socket_address(str(valkey_socket(data_dir)), "0", ours=True)
    parts = urlsplit(url)
    if parts.scheme in ("redis", "rediss") and parts.hostname:
        return Redis(client=url, celery=url, ours=False)
    if parts.scheme in ("unix", "redis+socket") and parts.path:
        query = dict(parse_qsl(parts.query))
        return socket_address(parts.path, query.get("db") or query.get("virtual_host") or "0", ours=False)
    raise BadSetting(name, "must look like redis://host:6379/0, rediss://… or unix:///path/to/socket?db=0")


def socket_address(path: str, number: str, *, ours: bool) -> Redis:
    return Redis(f"unix://{path}?db={number}", f"redis+socket://{path}?virtual_host={number}", ours)


def valkey_socket(data_dir: Path) -> Path:
    """Where our own Valkey listens: in DATA_DIR, or in a private folder of /tmp when that path is too long.

    A path with characters that an address would have to escape goes there too: its three readers
    do not agree on how to unescape.
    """
    path = data_dir / "valkey.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES and quote(str(path)) == str(path):
        return path
    label = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    short = (
        Path(tempfile.gettempdir() if len(tempfile.gettempdir()) < 40 else "/tmp") / f"nightdesk-{os.getuid()}-{label}"
    )
    short.mkdir(mode=0o700, exist_ok=True)
    state = short.lstat()
    if state.st_uid != os.getuid() or state.st_mode & 0o077 or short.is_symlink():
        raise BadSetting("DATA_DIR", f"is too deep for a socket, and {short} is not a private folder of this user")
    return short / "valkey.sock"
