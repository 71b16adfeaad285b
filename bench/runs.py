"""Durable runs of three steps a second with two workers, beside Celery (which remembers nothing), DBOS and absurd.

    python -m bench runs [--rounds 5] [--runs 400] [--only nightdesk,celery,dbos,absurd]

Ours: from the first delivery at the door to the last run that succeeded, a whole `manage.py up` on SQLite (FULL) and
on PostgreSQL. Each other one: from the first start to the last end, with two worker processes of its own. Rounds
alternate; medians are printed, one JSON line each. Event to start has its own figure (`bench start`).

The sender shares the two processors with what is measured, so ours is as plain as can be: one connection of the
standard library that stays open, one signed delivery after the other. (A client that can do more takes half a
millisecond of each run for itself; nobody else's sender speaks HTTP.)"""

import argparse
import contextlib
import http.client
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import redis

from bench.door import HOME, ROOT
from project import valkey
from tests import postgres
from tests.chaos.load import TRIGGER, sign
from tests.processes import DATABASE, Desk, desk, fresh_database

WORKERS = 2
SUCCEEDED = "SELECT count(*) FROM triggers_run WHERE status = 'succeeded'"
NEEDS = ("dbos", "absurd-sdk", "absurdctl", "psycopg[binary]")
HANDLER = """
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    number = run.event.data["data"]["order"]
    return sum(run.step(f"step {place}", lambda: number) for place in range(3))
"""
Round = Callable[[int], float]  # how many; seconds until all have ended


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", default="nightdesk,celery,dbos,absurd")
    wish = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres.serve(durable=True))
        rounds = dict(contestants(stack, server, wish.only.split(",")))
        rates: dict[str, list[float]] = {name: [] for name in rounds}
        for number in range(wish.rounds + 1):
            for name, run in rounds.items():
                rate = wish.runs / run(wish.runs)
                if number:  # the first one warms up
                    rates[name].append(rate)
    for name, found in rates.items():
        told = {"median": round(statistics.median(found), 1), "rounds": [round(rate, 1) for rate in found]}
        print(json.dumps({"figure": f"runs/s, {name}", "runs": wish.runs, **told}))


def contestants(stack: contextlib.ExitStack, server: str, names: list[str]) -> Iterator[tuple[str, Round]]:
    if "nightdesk" in names:
        yield "nightdesk, SQLite", stack.enter_context(ours(""))
        yield "nightdesk, PostgreSQL", stack.enter_context(ours(server))
    if "celery" in names:
        one, three = stack.enter_context(celery())
        yield "celery, one task that does nothing", one
        yield "celery, chain of three", three
    if "dbos" in names:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nightdesk-bench-"))
        yield "dbos, SQLite", stack.enter_context(rival("dbos", f"sqlite:///{folder}/dbos.sqlite3"))
        yield "dbos, PostgreSQL", stack.enter_context(rival("dbos", with_driver(fresh_database(server))))
    if "absurd" in names:
        yield "absurd, PostgreSQL", stack.enter_context(rival("absurd", fresh_database(server)))


# Nightdesk


@contextlib.contextmanager
def ours(server: str) -> Iterator[Round]:
    with desk(server, quick=False) as shop:
        shop.handlers(HANDLER)
        shop.start("--workers", str(WORKERS))
        secret = shop.python(TRIGGER).split()[-1]
        with rung(shop, secret) as run:
            yield run


@contextlib.contextmanager
def rung(shop: Desk, secret: str) -> Iterator[Round]:
    """Deliveries one by one over the wire, as a sender would; what is counted is runs that succeeded."""
    sent = 0

    def run(count: int) -> float:
        nonlocal sent
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", shop.port, timeout=60)) as wire:
            wire.connect()
            before, began = succeeded(), time.monotonic()
            for number in range(sent, sent + count):
                headers, body = sign(secret, number)
                wire.request("POST", "/hooks/generic", body, headers)
                with wire.getresponse() as answer:
                    assert answer.read()
                    assert answer.status == 202
        sent += count
        shop.until(lambda: succeeded() - before >= count, seconds=600, every=0.02)
        return time.monotonic() - began

    with looking(shop) as succeeded:
        yield run


@contextlib.contextmanager
def looking(shop: Desk) -> Iterator[Callable[[], int]]:
    """Tells how many runs have succeeded, by one connection: to open one for each look costs as much as a run."""
    address = shop.database_url or f"file:{shop.folder}/{DATABASE}?mode=ro"
    opened: Any = psycopg.connect(address, autocommit=True) if shop.database_url else sqlite3.connect(address, uri=True)
    with contextlib.closing(opened) as connection:
        yield lambda: int(connection.execute(SUCCEEDED).fetchone()[0])


# Celery alone


@contextlib.contextmanager
def celery() -> Iterator[tuple[Round, Round]]:
    with tempfile.TemporaryDirectory(prefix="nd-", dir="/tmp") as folder:
        socket = Path(folder, "valkey.sock")
        env = os.environ | {"BENCH_SOCKET": str(socket)}
        with program(valkey.command(socket, folder=Path(folder)), env):
            counter = redis.Redis(unix_socket_path=str(socket))
            until(lambda: socket.exists() and counter.ping())
            words = ["-A", "bench.plain", "worker", "--concurrency", str(WORKERS), "--pool", "prefork", "-O", "fair"]
            quiet = ["--without-gossip", "--without-mingle", "--loglevel", "ERROR"]
            with program([sys.executable, "-m", "celery", *words, *quiet], env):
                yield counted(counter, env, "send_one"), counted(counter, env, "send_three")


def counted(counter: "redis.Redis", env: dict[str, str], send: str) -> Round:
    """Sent by a process of its own, as the other ones' are, once it is up; what is counted is last tasks."""

    def run(count: int) -> float:
        code = f"from bench import plain\nprint(flush=True)\nfor number in range({count}): plain.{send}(number)"
        sender = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=env, stdout=subprocess.PIPE)
        assert sender.stdout
        before, _, began = done(), sender.stdout.readline(), time.monotonic()
        until(lambda: done() - before >= count)
        seconds = time.monotonic() - began
        sender.communicate()
        return seconds

    def done() -> int:
        value: Any = counter.get("bench:done")
        return int(value or 0)

    return run


# DBOS and absurd


@contextlib.contextmanager
def rival(name: str, address: str) -> Iterator[Round]:
    """Two workers of the other one, and a sender each round that says how long it took."""
    command = [str(environment()), str(ROOT / "bench" / f"rival_{name}.py")]
    if name == "absurd":
        subprocess.run([*command, "prepare", address], check=True)
    with contextlib.ExitStack() as stack:
        for _ in range(WORKERS):
            worker = stack.enter_context(program([*command, "work", address], dict(os.environ), told=True))
            assert worker.stdout
            while (line := worker.stdout.readline()) != b"ready\n":
                assert line, f"bench: {name} did not start"

        def run(count: int) -> float:
            sender = [*command, "send", address, str(count)]
            done = subprocess.run(sender, stdout=subprocess.PIPE, text=True, check=True)
            return float(done.stdout.split()[-1])

        yield run


def environment() -> Path:
    """The Python of an environment that has the others."""
    python = HOME / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", *NEEDS], check=True)
    return python


def with_driver(address: str) -> str:
    return address.replace("postgres://", "postgresql+psycopg://")


@contextlib.contextmanager
def program(command: list[str], env: dict[str, str], *, told: bool = False) -> Iterator["subprocess.Popen[bytes]"]:
    output = subprocess.PIPE if told else subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=output, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()


def until(condition: Callable[[], object], seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("bench: it never ended")
        time.sleep(0.02)
