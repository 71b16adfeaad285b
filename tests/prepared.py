"""What every database of the suite and every desk begins with, made once and copied: to migrate takes ten seconds.

The processes of one `make test` share it in TEST_PREPARED; whoever needs a part first makes it, the others wait.
"""

import atexit
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / ".pytest_cache" / "migrated"
PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
DATABASE = "nightdesk.sqlite3"
TEMPLATE = "prepared"  # on a PostgreSQL

if "TEST_PREPARED" not in os.environ:
    os.environ["TEST_PREPARED"] = tempfile.mkdtemp(prefix="nightdesk-prepared-", dir="/tmp")
    atexit.register(shutil.rmtree, os.environ["TEST_PREPARED"], ignore_errors=True)
SHARED = Path(os.environ["TEST_PREPARED"])


def passed_on() -> dict[str, str]:
    """What a desk sees of our own environment."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def once(name: str, make: Callable[[Path], None], place: Path) -> Path:
    """The folder `name` in `place`, which `make` filled, in this process or in another one."""
    place.mkdir(parents=True, exist_ok=True)
    with open(place / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / name).exists():
            draft = Path(tempfile.mkdtemp(dir=place))
            make(draft)
            draft.rename(place / name)
    return place / name


def manage(folder: Path, *arguments: str, **settings: str) -> None:
    environment = passed_on() | {"DATA_DIR": str(folder)} | settings
    subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, check=True)


def migrate(folder: Path, **settings: str) -> None:
    manage(folder, "migrate", "--verbosity", "0", **settings)


def collect(folder: Path) -> None:
    manage(folder, "shell", "--verbosity", "0", "-c", "from project import assets; assets.collect()")


def sqlite(to: Path) -> None:
    """An empty, migrated database, as the file `to`."""
    shutil.copy(migrated() / DATABASE, to)


def migrated() -> Path:
    """The folder of that database, kept from one run of tests to the next until what makes it changes."""
    made_by = [ROOT / "requirements.txt", ROOT / "project" / "settings.py", *ROOT.glob("[apt]*/**/migrations/*.py")]
    known = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(made_by)))
    return once(known.hexdigest()[:16], migrate, KEPT)


def static(to: Path) -> None:
    """The collected static files, as the folder `to`."""
    shutil.copytree(once("files", collect, SHARED) / "static", to, copy_function=os.link)


def postgres(server: str, name: str = "") -> str:
    """An empty, migrated database on this PostgreSQL, as an address."""
    name = name or f"desk_{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone():
            connection.execute("DROP DATABASE IF EXISTS draft")
            connection.execute("CREATE DATABASE draft")
            with tempfile.TemporaryDirectory() as folder:
                migrate(Path(folder), DATABASE_URL=on(server, "draft"))
            connection.execute(f"ALTER DATABASE draft RENAME TO {TEMPLATE}")  # type: ignore[call-overload]
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")  # type: ignore[call-overload]
    return on(server, name)


def on(server: str, name: str) -> str:
    return f"{server.rpartition('/')[0]}/{name}"


if __name__ == "__main__":  # while others look at the code
    migrated()
    once("files", collect, SHARED)
