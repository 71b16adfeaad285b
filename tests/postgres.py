"""A PostgreSQL of our own for tests: `python -m tests.postgres -m pytest …` runs Python with its DATABASE_URL.

The server's programs are looked for on PATH and where Debian keeps them. Root may not run it, so root starts it as
`postgres` (or `nobody`). It listens on a free loopback port and dies with its folder.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from project.supervise import die_with

DEBIAN = Path("/usr/lib/postgresql")
HASTE = ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]  # tests kill our processes, never this server


class NoPostgres(RuntimeError):
    """PostgreSQL's server programs are not installed."""


def program(name: str) -> str:
    """The path of `initdb` or `postgres`, the newest version first."""
    places = sorted(DEBIAN.glob("*/bin"), key=lambda place: int(place.parent.name), reverse=True)
    if found := shutil.which(name, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")])):
        return found
    raise NoPostgres(f"{name} was not found: install PostgreSQL (on Debian and Ubuntu: apt-get install postgresql)")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def unprivileged() -> dict[str, object]:
    """Popen's arguments for running as somebody PostgreSQL accepts."""
    if os.getuid():
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@dataclass
class Server:
    """A PostgreSQL in `folder`, which may crash and come back."""

    folder: Path
    port: int
    options: list[str]
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        return f"postgres://nightdesk@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        setup = ["-U", "nightdesk", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        quiet = {"stdout": subprocess.DEVNULL, "cwd": self.folder, **unprivileged()}
        subprocess.run([program("initdb"), "-D", self.folder / "data", *setup], check=True, **quiet)  # type: ignore[call-overload]

    def start(self) -> None:
        command = [program("postgres"), "-D", self.folder / "data"]
        command += [word for option in self.options for word in ("-c", option)]
        quiet = {"stdout": subprocess.DEVNULL, "cwd": self.folder, **unprivileged()}
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stderr=log, preexec_fn=partial(die_with, os.getpid()), **quiet)  # type: ignore[call-overload]
        wait_for(self.port, self.process, self.folder / "log")

    def crash(self) -> None:
        """What `pg_ctl stop -m immediate` does: nothing is finished, and the next start recovers from the log."""
        assert self.process
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(20)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def server(*, durable: bool = False) -> Iterator[Server]:
    """Run a fresh server; a `durable` one waits for its disk, as in production."""
    with tempfile.TemporaryDirectory(prefix="nightdesk-pg-") as folder:
        if become := unprivileged():
            os.chown(folder, become["user"], become["group"])  # type: ignore[arg-type]
        port = free_port()
        options = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=200"]
        made = Server(Path(folder), port, options + ([] if durable else HASTE))
        made.create()
        try:
            made.start()
            yield made
        finally:
            made.stop()


@contextlib.contextmanager
def serve(*, durable: bool = False) -> Iterator[str]:
    """The `postgres://…` address of such a server."""
    with server(durable=durable) as made:
        yield made.address


def wait_for(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until the server answers a query; raises with its log when it ends before."""
    probe = [
        sys.executable,
        "-c",
        f"import psycopg; psycopg.connect('host=127.0.0.1 port={port} user=nightdesk dbname=postgres')",
    ]
    for _ in range(100):
        if server.poll() is not None:
            break
        if subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return
    raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}")


def end_in_order() -> None:
    """Let SIGTERM raise SystemExit: whoever stops the tests must not leave a server behind."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def main() -> int:
    end_in_order()
    try:
        with serve() as address:
            return subprocess.run(
                [sys.executable, *sys.argv[1:]], env=os.environ | {"DATABASE_URL": address}, check=False
            ).returncode
    except NoPostgres as missing:
        print(f"nightdesk: {missing}", file=sys.stderr)
        return int(os.environ.get("CI") == "true")


if __name__ == "__main__":
    sys.exit(main())
