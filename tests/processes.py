"""The real processes of a desk, for tests and benchmarks: in a folder of their own, on a free port, gone afterwards.

    with desk() as shop:
        shop.start()
        shop.token("read", "decide")
        shop.kill("worker")              # SIGKILL, as the kernel's memory killer would
        shop.rows("SELECT status FROM triggers_run")

Rows are read past the product's code, so that a test does not believe what it tests. Whatever was started carries
the folder in its environment (DATA_DIR) and is ended by its number.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx
import psycopg

from project.supervise import die_with
from tests import postgres, prepared
from tests.prepared import DATABASE, ROOT

QUICK = {"NIGHTDESK_LEASE": "2", "NIGHTDESK_TICK": "0.5"}  # seconds; see docs/settings.md
PASSWORD = "a long enough password"
START = 120.0  # seconds a start may take on a busy machine; it takes ten
NAMES = ("valkey", "web", "worker", "desk", "beat", "listen")


@dataclass
class Desk:
    """One `manage.py up` and what it started."""

    folder: Path
    port: int
    settings: dict[str, str]
    database_url: str = ""
    process: "subprocess.Popen[bytes] | None" = None
    opened: list[httpx.Client] = field(default_factory=list)
    console: "subprocess.Popen[str] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        given = {"DATA_DIR": str(self.folder), "PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
        database = {"DATABASE_URL": self.database_url} if self.database_url else {}
        return prepared.passed_on() | given | database | self.settings

    # Start and end

    def start(self, *arguments: str, ready: bool = True) -> "Desk":
        """Run `manage.py up`; with `ready`, wait until /readyz says so."""
        with open(self.folder / "up.log", "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", *arguments],
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=partial(die_with, os.getpid()),  # also when the tests themselves are killed
            )
        if ready:
            self.until(self.is_ready, seconds=START)
        return self

    def stop(self, seconds: float = 50) -> float:
        """SIGTERM as a service manager would; returns how long the end took."""
        assert self.process
        began = time.monotonic()
        self.process.terminate()
        self.process.wait(seconds)
        return time.monotonic() - began

    def end(self) -> None:
        """Whatever the test did: nothing of this desk goes on."""
        for client in self.opened:
            client.close()
        if self.console:
            self.end_console()
        if self.process and self.process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop(12)
        for pid in [*self.pids(), *([self.process.pid] if self.process and self.process.poll() is None else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process:
            self.process.wait(5)

    def end_console(self) -> None:
        """The end of what it reads is its own; one that hangs is killed."""
        assert self.console
        try:
            self.console.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.console.kill()
            self.console.communicate()

    # Its processes

    def pids(self, name: str = "") -> list[int]:
        """Every living process of this desk, or those of `web`, `worker`, `desk`, `beat`, `listen`, `valkey`."""
        watching = self.console.pid if self.console else 0
        return [
            pid
            for pid, told in living().items()
            if told.get("DATA_DIR") == str(self.folder) and name in ("", of(pid, told)) and pid != watching
        ]

    def main(self, name: str) -> int | None:
        """The one `up` started and watches; None while it is dead."""
        assert self.process
        mine = [pid for pid in self.pids(name) if parent(pid) == self.process.pid]
        return mine[0] if mine else None

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal (SIGKILL) to the process `name`, once it is there; returns its pid."""
        self.until(lambda: self.main(name), seconds=START)  # `up` waits up to 30 s before it starts it again
        pid = self.main(name)
        assert pid
        os.kill(pid, number)
        return pid

    @contextlib.contextmanager
    def nobody_starts_anything(self) -> Iterator[None]:
        """`up` stands still: what dies meanwhile is dead until the end of the block."""
        assert self.process
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def kill_pool(self, name: str) -> list[int]:
        """SIGKILL to the pool children of a Celery process, not to the process itself."""
        pids = [pid for pid in self.pids(name) if pid != self.main(name)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    # Asking

    @property
    def log(self) -> str:
        return (self.folder / "up.log").read_text(errors="replace")

    @property
    def password(self) -> str:
        """What the first start printed."""
        found = re.search(r"Sign in as  owner  with the password  (\S+)", self.log)
        assert found, self.log
        return found.group(1)

    def tell(self, lines: int = 150) -> None:
        """Print the end of the log: pytest shows it beneath a failure."""
        print("\n".join(self.log.splitlines()[-lines:]))

    def is_ready(self) -> bool:
        if self.process and self.process.poll() is not None:
            raise AssertionError(f"the desk ended with {self.process.returncode}")
        return bool(self.readyz().get("ready"))

    def readyz(self) -> dict[str, Any]:
        """What /readyz says; nothing while nobody answers. Asked often, so not by httpx: each of its calls without a
        client reads the system's authorities, 30 ms of a processor that the desk needs itself."""
        asked = HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(asked), contextlib.suppress(OSError, HTTPException):
            asked.request("GET", "/readyz")
            return dict(json.load(asked.getresponse()))
        return {}

    def problem(self, check: str) -> str:
        """What /readyz says against `database`, `storage`, `broker` or `tick`."""
        return str(self.readyz().get("problems", {}).get(check, ""))

    def rows(self, query: str, *given: object) -> list[tuple[Any, ...]]:
        """Read the desk's database (`?` marks a value)."""
        if self.database_url:
            with psycopg.connect(self.database_url) as connection:
                return connection.execute(query.replace("?", "%s"), given).fetchall()  # type: ignore[arg-type]
        address = f"file:{self.folder}/{DATABASE}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=20)) as connection:
            return connection.execute(query, given).fetchall()

    def count(self, table: str, where: str = "1=1", *given: object) -> int:
        number: int = self.rows(f"SELECT count(*) FROM {table} WHERE {where}", *given)[0][0]
        return number

    def until(self, condition: Callable[[], object], seconds: float = 90, every: float = 0.05) -> None:
        """Wait for `condition`; a bound on liveness, far above what it takes."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {seconds:g} s: {condition}")
            time.sleep(every)

    # Doing

    def manage(self, *arguments: str, check: bool = True) -> str:
        """What `manage.py …` prints on this desk."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=START, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def python(self, code: str) -> str:
        """What `code` prints, run with the desk's settings and models in one process that stays (tests/console.py)."""
        if self.console is None:
            settings = {"DJANGO_SETTINGS_MODULE": "project.settings"} | self.env
            with open(self.folder / "console.log", "ab") as log:
                self.console = subprocess.Popen(
                    [sys.executable, "-m", "tests.console"],
                    cwd=ROOT,
                    env=settings,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
        assert self.console.stdin
        assert self.console.stdout
        print(json.dumps(textwrap.dedent(code)), file=self.console.stdin, flush=True)
        said = json.loads(self.console.stdout.readline() or '{"error": "it ended: see console.log"}')
        assert not said["error"], said["error"]
        return str(said["printed"]).strip()

    def command(self, *arguments: str) -> str:
        """What `manage.py …` prints, run in that process."""
        return self.python(f"from django.core.management import call_command; call_command(*{arguments!r})")

    def token(self, *scopes: str, user: str = "owner") -> httpx.Client:
        """A client of the API with a fresh token of `user`."""
        secret = self.command("create_token", user, "--name", "test", "--scope", ",".join(scopes)).split()[-1]
        client = httpx.Client(
            base_url=self.url, headers={"authorization": f"Bearer {secret}"}, timeout=60, trust_env=False
        )
        self.opened.append(client)
        return client

    def handlers(self, text: str, name: str = "mine") -> None:
        """A file in HANDLERS_DIR; written before the start."""
        (self.folder / "handlers").mkdir(exist_ok=True)
        (self.folder / "handlers" / f"{name}.py").write_text(textwrap.dedent(text))


@contextlib.contextmanager
def desk(database_url: str = "", *, quick: bool = True, **settings: str) -> Iterator[Desk]:
    """A desk that is not started yet. Its database is migrated and its files are collected; `up` looks all the same."""
    folder = Path(tempfile.mkdtemp(prefix="nd-", dir="/tmp"))  # a socket's path must stay short
    given = (QUICK if quick else {}) | settings
    prepared.static(folder / "static")
    if not database_url:
        prepared.sqlite(folder / DATABASE)
    made = Desk(folder, postgres.free_port(), given, prepared.postgres(database_url) if database_url else "")
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder, ignore_errors=True)


def fresh_database(server: str) -> str:
    """A new database without a table on this PostgreSQL, as an address."""
    name = f"fresh_{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    return prepared.on(server, name)


def living() -> dict[int, dict[str, str]]:
    """Processes by number with their environment, those we may look at."""
    found = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if words := (place / "environ").read_bytes():
                found[int(place.name)] = dict(
                    word.split("=", 1) for word in words.decode(errors="replace").split("\0") if "=" in word
                )
    return found


def of(pid: int, told: dict[str, str]) -> str:
    """Which process of a desk this is; `up` itself and commands have no name."""
    if name := told.get("NIGHTDESK_PROCESS"):
        return name
    with contextlib.suppress(OSError):
        return "valkey" if b"unixsocket" in Path(f"/proc/{pid}/cmdline").read_bytes() else ""
    return ""


def parent(pid: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0
