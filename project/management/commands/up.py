"""`manage.py up`: migrate, seed on the first start, then run all processes of the desk until Ctrl-C."""

import contextlib
import fcntl
import os
import socket
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import IO, Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.core.management.sql import emit_post_migrate_signal
from django.db import DatabaseError, connection, connections

from project import assets, health, processes, tour
from project.supervise import become

MIGRATING = 0x6E696768  # PostgreSQL advisory lock: two machines that start together migrate one after the other


class Command(BaseCommand):
    help = "Migrate, then run all processes of the desk (Ctrl-C stops them)."
    requires_system_checks: list[str] = []  # the database may be empty still

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--processes", default="", help=f"comma-separated, of: {', '.join(processes.NAMES)}")
        parser.add_argument("--workers", type=int, default=2, help="runs at once (default 2)")
        parser.add_argument("--bare", action="store_true", help="first start: only the owner, no tour")

    def handle(self, *, processes: str, workers: int, bare: bool, **_: Any) -> None:
        names = chosen(processes)
        if workers < 1:
            raise CommandError("--workers must be at least 1")
        with only_one_desk(names):
            if "web" in names:
                require_free_port()
            migrate()
            if "web" in names and (copied := assets.collect()):
                self.stdout.write(f"{copied} static files prepared")
            self.welcome(tour.first_start(bare=bare))
            connections.close_all()
            start(names, workers)

    def welcome(self, password: str | None) -> None:
        """The owner's password is printed once, when it is made."""
        if password:
            self.stdout.write(f"\n  First start. Sign in as  owner  with the password  {password}\n")
            self.stdout.write("  It is not shown again; you will be asked to change it.\n\n")


def chosen(text: str) -> list[str]:
    """The process names in `text`, or all of them."""
    names = [name.strip() for name in text.split(",") if name.strip()] or list(processes.NAMES)
    if unknown := [name for name in names if name not in processes.NAMES]:
        raise CommandError(f"no process {unknown[0]!r}; there are: {', '.join(processes.NAMES)}")
    return names


def start(names: list[str], workers: int) -> None:
    """Turn into the supervisor of these processes; does not return."""
    form = settings.LOG_FORMAT or ("console" if sys.stdout.isatty() else "json")
    try:
        children = processes.children(names, workers=workers, log_format=form)
    except FileNotFoundError as missing:
        raise CommandError(str(missing)) from missing
    welcome = f"\n  Nightdesk is open at {settings.BASE_URL}   (Ctrl-C closes it)\n" if "web" in names else ""
    os.chdir(settings.BASE_DIR)
    become(children, welcome=welcome, plan=settings.DATA_DIR / processes.PLAN, as_json=form == "json")


@contextlib.contextmanager
def only_one_desk(names: list[str]) -> Iterator[IO[str] | None]:
    """Hold DATA_DIR/up.lock while beat is ours, so that a second `up` says so instead of ringing twice."""
    if "beat" not in names:
        yield None
        return
    with open(settings.DATA_DIR / "up.lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            raise CommandError(f"this desk is running already (process {lock.read().strip() or '?'})") from error
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        os.set_inheritable(lock.fileno(), True)  # held until the supervisor ends, not by its children
        yield lock


def require_free_port() -> None:
    """Say so now, in one line, rather than again and again from a restarted web process."""
    host, port = settings.HOST, settings.PORT
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port}: {error.strerror}; set HOST or PORT") from error


def migrate() -> None:
    """Bring the database up to this code; one process at a time does it."""
    try:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATING])
        if health.unapplied_migrations():
            call_command("migrate", interactive=False, verbosity=0)
        else:  # what `migrate` ends with, for one that was killed before its end; it would load every migration first
            emit_post_migrate_signal(0, False, connection.alias)
    except DatabaseError as error:
        raise CommandError(f"the database cannot be used: {str(error).strip()}") from error
