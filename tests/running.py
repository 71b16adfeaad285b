"""A whole desk in its own folder: `manage.py up` with real processes, for tests that must not pretend."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.house.tree import ROOT
from tests.postgres import free_port

PASSWORD = "the owner's long password"
START = 90.0  # seconds a start may take on a slow machine


class RunningDesk:
    """`with RunningDesk(tmp_path) as desk:`; `desk.url` answers, `desk.log` holds what it said."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.folder = folder
        self.arguments = arguments
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        inherited = {name: value for name, value in os.environ.items() if name not in FORGOTTEN}
        own = {"DATA_DIR": str(folder / "var"), "PORT": str(self.port), "OWNER_PASSWORD": PASSWORD}
        self.env = inherited | own | {"DJANGO_SETTINGS_MODULE": "project.settings"} | environment
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "RunningDesk":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def log(self) -> str:
        return (self.folder / "up.log").read_text()

    def start(self) -> None:
        """Start it and wait until it is ready; raises with its log when it is not in time."""
        with (self.folder / "up.log").open("ab") as log:
            command = [sys.executable, "manage.py", "up", *self.arguments]
            self.process = subprocess.Popen(command, env=self.env, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"the desk did not get ready:\n{self.log[-6000:]}")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == 200
        return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Stop it; seconds that took."""
        began = time.monotonic()
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return time.monotonic() - began

    def manage(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run a command of this desk and return what it printed."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, env=self.env, cwd=ROOT, capture_output=True, text=True, check=check)

    def ask(self, code: str) -> str:
        """Run Python inside this desk's Django and return what it printed."""
        return self.manage("shell", "--no-imports", "-c", code).stdout.strip()

    def pids(self, name: str) -> list[int]:
        """The process `name` (web, worker, desk, beat, listen, valkey), its own children excluded."""
        assert self.process
        return [pid for pid in children_of(self.process.pid) if name in label_of(pid)]


FORGOTTEN = ("REDIS_URL", "BROKER_URL", "DATABASE_URL", "BASE_URL", "HOST", "SECRET_KEY", "FIELD_KEY")
LABELS = {
    "valkey": ("valkey-server", "redis-server"),
    "web": ("uvicorn",),
    "worker": ("--queues runs",),
    "desk": ("--queues desk",),
    "beat": ("celery --app project.celery --quiet beat", "celery beat"),
    "listen": ("manage.py listen",),
}


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in listed.stdout.split()]


def label_of(pid: int) -> set[str]:
    """Which of the desk's processes this is, by its command line."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return set()
    return {name for name, marks in LABELS.items() if any(mark in line for mark in marks)}


def tree_of(pid: int) -> list[int]:
    """`pid` and all its descendants."""
    return [pid, *(grandchild for child in children_of(pid) for grandchild in tree_of(child))]


def pss(pid: int) -> int:
    """KiB of memory that would be free if `pid` ended (Linux)."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def cpu_seconds(pid: int) -> float:
    """CPU time `pid` has used itself (Linux)."""
    with contextlib.suppress(OSError):
        fields: list[Any] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0
