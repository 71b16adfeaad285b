"""The supervisor starts, restarts and stops; nothing it started outlives it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import until
from tests.house.tree import ROOT

SCRIPT = """
import asyncio, sys
from project import supervise
supervise.GRACE, supervise.BACKOFF = 1.0, (0, 0.1, 0.2)
children = [supervise.Child(name, [sys.executable, "-c", code]) for name, code in {children!r}]
asyncio.run(supervise.Supervisor(children, json={as_json}).run())
"""
STAY = "import time; print('here', flush=True); time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(60)"
)
WITH_CHILD = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
    "print('child', child.pid, flush=True); time.sleep(60)"
)


class Desk:
    """A supervisor in its own process, and what it has said so far."""

    def __init__(self, folder: Path, *, as_json: bool = False, **children: str) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT.format(children=list(children.items()), as_json=as_json)],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=ROOT,
            )

    def said(self, text: str) -> bool:
        return text in self.log.read_text()

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Send the signal; seconds until the supervisor was gone."""
        began = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(20)
        return time.monotonic() - began


@pytest.fixture
def desk(tmp_path):
    started = []

    def start(*, as_json=False, **children):
        started.append(Desk(tmp_path, as_json=as_json, **children))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]


def test_a_dead_process_is_started_again_although_its_child_lives_and_holds_its_output(desk):
    up = desk(worker=WITH_CHILD)
    until(lambda: up.said("child "))
    parent, child = family(up)
    os.kill(parent, signal.SIGKILL)
    until(lambda: up.said("ended (SIGKILL)"))
    until(lambda: not is_alive(child))
    until(lambda: up.log.read_text().count("child ") == 2)
    up.stop()


def family(up: Desk) -> tuple[int, int]:
    """The first process and the child it told of."""
    child = int(up.log.read_text().rsplit("child ", 1)[1].split()[0])
    return int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1]), child


def test_lines_carry_the_name_of_their_process(desk):
    running = desk(web=STAY, beat=STAY)
    until(lambda: running.said("web  | here") and running.said("beat | here"))
    assert "\x1b" not in running.log.read_text()


def test_where_nobody_reads_along_every_line_is_one_object_and_none_is_wrapped_twice(desk):
    speaks = """print('{"event": "mine", "process": "web"}'); print('{plain'); import time; time.sleep(60)"""
    running = desk(as_json=True, web=f"import sys; sys.stdout.reconfigure(line_buffering=True); {speaks}")
    until(lambda: running.said("plain"))
    running.stop()
    told = [json.loads(line) for line in running.log.read_text().splitlines()]
    assert [(line["process"], line["event"]) for line in told] == [
        ("web", "mine"),
        ("web", "{plain"),
        ("up", "stopping"),
    ]


def test_a_dead_child_is_started_again_at_once_and_then_later_each_time_and_said_so(desk):
    running = desk(web="print('hello'); raise SystemExit(3)", beat=STAY)
    until(lambda: running.log.read_text().count("web  | hello") >= 4)
    assert running.said("web  | ended (exit code 3); starting it again\n")
    assert running.said("web  | ended (exit code 3); starting it again in 0.1 s")
    assert running.said("starting it again in 0.2 s")
    assert running.process.poll() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_and_that_is_no_failure(desk, number):
    running = desk(web=STAY, beat=STAY)
    until(lambda: running.log.read_text().count("here") == 2)
    assert running.stop(number) < 5
    assert running.process.returncode == 0
    assert not running.said("killed")


def test_a_stubborn_child_is_killed_when_the_grace_is_over(desk):
    running = desk(web=STUBBORN)
    until(lambda: running.said("here"))
    running.stop()
    assert running.said("did not stop in 1 s; killed")


def test_grandchildren_end_with_their_parent(desk):
    running = desk(worker=WITH_CHILD)
    until(lambda: running.said("child "))
    grandchild = int(running.log.read_text().split("child ")[1].split()[0])
    running.stop()
    until(lambda: not is_alive(grandchild))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_no_child_outlives_a_killed_supervisor(desk):
    running = desk(web=STAY.replace("'here'", "'pid', __import__('os').getpid()"))
    until(lambda: running.said("pid "))
    child = int(running.log.read_text().split("pid ")[1].split()[0])
    running.stop(signal.SIGKILL)
    until(lambda: not is_alive(child))


ORPHAN = """
import os, time
from project.supervise import die_with
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    die_with(parent)
    print("it lives", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_child_whose_parent_died_before_it_could_ask_to_be_told_ends_at_once():
    """The output ends when its last holder is gone: nothing runs on after this."""
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_that_cannot_be_started_is_said_and_tried_again(tmp_path):
    """For want of memory or descriptors too: the desk must not stand still without it."""
    late = tmp_path / "late"
    code = SCRIPT.format(children=[("steady", STAY)], as_json=False)
    code = code.replace("asyncio.run(", f"children.append(supervise.Child('late', [{str(late)!r}]))\nasyncio.run(")
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        until(lambda: (tmp_path / "log").read_text().count("cannot be started") >= 2)
        late.write_text("#!/bin/sh\necho there\nsleep 60\n")
        late.chmod(0o700)
        until(lambda: "late   | there" in (tmp_path / "log").read_text())
    finally:
        process.terminate()
        process.wait(20)
        log.close()
