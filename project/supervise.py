"""Keep the processes of the desk running: start, prefix their lines, restart with back-off, stop in time.

`manage.py up` turns into this program once everything is prepared: it needs nothing but Python itself, so that
watching costs 15 MB and not the hundred that Django takes.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

BACKOFF = (0, 1, 2, 4, 8, 16, 30)  # seconds before a dead child is started again; the last one repeats
STEADY = 60.0  # seconds after which a child counts as well again
GRACE = 9.0  # seconds from the first signal until whatever is left is killed
COLOURS = ("36", "32", "35", "33", "34", "96", "95")
PR_SET_PDEATHSIG = 1  # linux/prctl.h


@dataclass
class Child:
    """One process and how to start it."""

    name: str
    command: list[str]
    env: dict[str, str] = field(default_factory=dict)
    ready: str = ""  # `unix:PATH` or `tcp:HOST:PORT`: those after it start when somebody answers there
    last: bool = False  # stopped after all others, since they talk to it until the end


class Supervisor:
    """Runs `children` until a signal comes; `welcome` is printed once all were started.

    With `json` every line is one object; what the children wrote as objects passes as it came."""

    def __init__(self, children: list[Child], *, welcome: str = "", json: bool = False) -> None:
        self.children = children
        self.welcome = welcome
        self.json = json
        self.running: dict[str, asyncio.subprocess.Process] = {}
        self.stopping = asyncio.Event()
        self.width = max(len(child.name) for child in children)
        self.colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                loop.add_signal_handler(number, self.stopping.set)
        keepers = []
        for child in self.children:
            keepers.append(asyncio.create_task(self.keep(child)))
            if child.ready and not self.stopping.is_set():
                await self.or_stop(answers(child.ready))
        if self.welcome and not self.stopping.is_set():
            self.greet()
        await self.stopping.wait()
        await self.stop()
        await asyncio.gather(*keepers)

    async def keep(self, child: Child) -> None:
        """Start `child`, again and again, until the desk stops."""
        deaths = 0
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                end = f"ended ({explain(await self.once(child))})"
            except (OSError, subprocess.SubprocessError) as error:  # no memory for a fork, no descriptor, no program
                end = f"cannot be started ({error})"
            if self.stopping.is_set():
                return
            deaths = 1 if time.monotonic() - began > STEADY else deaths + 1
            pause = BACKOFF[min(deaths, len(BACKOFF)) - 1]
            self.say(child.name, f"{end}; starting it again{f' in {pause} s' if pause else ''}")
            await self.or_stop(asyncio.sleep(pause))

    async def once(self, child: Child) -> int:
        """Run `child` to its end and return its exit code."""
        reading, writing = os.pipe()  # our own: asyncio waits for the end of a pipe it made as well as for the process
        try:
            process = await asyncio.create_subprocess_exec(
                *child.command,
                env=os.environ | {"PYTHONUNBUFFERED": "1"} | child.env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us only, and the whole group can be killed at once
                preexec_fn=partial(die_with, os.getpid()),
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self.running[child.name] = process
        try:
            await self.relay(child.name, process, reading)
            return await process.wait()
        finally:
            self.running.pop(child.name, None)
            kill_group(process, signal.SIGKILL)  # a dead parent's pool must not go on unseen

    async def relay(self, name: str, process: asyncio.subprocess.Process, reading: int) -> None:
        """Print what the child prints until it has ended; a grandchild that holds the pipe open is not waited for."""
        stream = asyncio.StreamReader()
        pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", 0)
        )
        reader = asyncio.create_task(self.lines(name, stream))
        await process.wait()
        await asyncio.wait([reader], timeout=0.5)
        reader.cancel()
        pipe.close()

    async def lines(self, name: str, stream: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await stream.read(65536):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in filter(bytes.strip, whole):
                self.say(name, line.decode(errors="replace"))
        if rest:
            self.say(name, rest.decode(errors="replace"))

    async def stop(self) -> None:
        """SIGTERM to all, to the `last` ones when the others are gone, SIGKILL to what is left after GRACE."""
        self.say("up", "stopping")
        deadline = time.monotonic() + GRACE
        last = {child.name for child in self.children if child.last}
        for group in (set(self.running) - last, last):
            for name in group & set(self.running):
                with contextlib.suppress(ProcessLookupError):
                    self.running[name].terminate()
            while group & set(self.running) and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
        for name, process in list(self.running.items()):
            self.say(name, f"did not stop in {GRACE:.0f} s; killed")
            kill_group(process, signal.SIGKILL)

    async def or_stop(self, work: Awaitable[None]) -> None:
        """Wait for `work`, or until the desk stops."""
        tasks = [asyncio.ensure_future(work), asyncio.create_task(self.stopping.wait())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    def greet(self) -> None:
        if self.json:
            self.say("up", " ".join(self.welcome.split()))
        else:
            print(self.welcome, flush=True)

    def say(self, name: str, line: str) -> None:
        """One line, with the process it is about in front. A closed terminal must not end the desk."""
        if self.json:
            with contextlib.suppress(BrokenPipeError, OSError):
                print(as_object(name, line), flush=True)
            return
        label = f"{name:<{self.width}} |"
        if self.colour:
            names = [child.name for child in self.children]
            code = COLOURS[names.index(name) % len(COLOURS)] if name in names else "1"
            label = f"\x1b[{code}m{label}\x1b[0m"
        with contextlib.suppress(BrokenPipeError, OSError):
            print(label, line.rstrip("\r"), flush=True)


def as_object(name: str, line: str) -> str:
    """The line as one JSON object, as those of the children that log: their own are not wrapped once more."""
    if line.startswith("{"):
        with contextlib.suppress(ValueError):
            json.loads(line)
            return line
    at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"process": name, "event": line.rstrip("\r"), "level": "info", "timestamp": at})


async def answers(address: str) -> None:
    """Wait until somebody accepts a connection at `unix:PATH` or `tcp:HOST:PORT`."""
    kind, _, place = address.partition(":")
    host, _, port = place.rpartition(":")
    while True:
        try:
            _, writer = await (
                asyncio.open_unix_connection(place) if kind == "unix" else asyncio.open_connection(host, port)
            )
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return


def die_with(parent: int) -> None:
    """In a child between fork and exec: Linux sends it SIGTERM when `parent`, who forked it, dies by SIGKILL.

    Elsewhere only an orderly end takes the children along."""
    if not LIBC:
        return
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before it could be asked for
        os._exit(128 + signal.SIGTERM)


def kill_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def explain(code: int) -> str:
    """An exit code in words: `exit code 3`, or the signal that ended it."""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def become(children: list[Child], *, welcome: str, plan: Path, as_json: bool) -> None:
    """Replace this process by a supervisor of `children`; `plan` is a file it reads them from."""
    told = {"welcome": welcome, "json": as_json, "children": [asdict(child) for child in children]}
    plan.write_text(json.dumps(told))
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, str(plan)])


def main(plan: Path) -> None:
    told = json.loads(plan.read_text())
    children = [Child(**child) for child in told["children"]]
    asyncio.run(Supervisor(children, welcome=told["welcome"], json=told["json"]).run())


# Loaded here: between fork and exec there is no time to look for a library.
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

if __name__ == "__main__":
    main(Path(sys.argv[1]))
