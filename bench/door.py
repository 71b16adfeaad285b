"""Deliveries a second through the whole door, against an in-memory FastAPI endpoint in the same run.

    python -m bench door [--database postgres] [--rounds 5] [--seconds 4]

One uvicorn process each, 64 connections of wrk, signed 1 KB bodies that are all different. Ours verifies, claims two
keys, stores the event, asks five triggers with filters (one matches), stores the run, commits with synchronous FULL,
reads back and answers; no workers, no broker. Rounds alternate; medians are printed as one JSON line."""

import argparse
import contextlib
import hashlib
import hmac
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import postgres

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / "var" / "bench"  # the baseline's own environment
SECRET = "a secret for the bench"
CONNECTIONS = 64
AS_GITHUB = {
    "Content-Type": "application/json",
    "User-Agent": "GitHub-Hookshot/044aadd",
    "Accept": "*/*",
    "X-GitHub-Event": "issues",
}
OPTIONS = ("--http", "project.http:Bounded", "--no-server-header")  # as `up` starts it (project/processes.py)
FASTEST = 14_000  # requests a second for which bodies are made
SEED = f"""
    from project.lib import crypto
    from triggers.matching import compile_filter
    from triggers.models import ConfigVersion, Source, Trigger
    secret = crypto.seal([{{"value": "{SECRET}"}}])
    Source.objects.create(slug="github", name="GitHub", kind="webhook", provider="github", types=["github.**"],
                          sealed_secrets=secret, rate_limit=None)
    for name in ("opened", "closed", "labeled", "edited", "assigned"):
        plan = compile_filter(f'event.data.action == "{{name}}" && event.data.issue.number > 0')
        Trigger.objects.create(slug=name, name=name, source="github", type_pattern="github.issues.*",
                               handler="triage-issue", filter=plan["text"], filter_plan=plan)
    ConfigVersion.bump()
"""


@dataclass(frozen=True)
class Figures:
    """One round; times in milliseconds."""

    rate: float
    p50: float
    p99: float
    requests: float


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench door")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--profile", default="", help="write a cProfile of our process here")
    wish = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nightdesk-bench-") as folder, database(wish.database) as address:
        print(json.dumps(compare(Path(folder), address, wish)))


def compare(folder: Path, address: str, wish: argparse.Namespace) -> dict[str, object]:
    ours, theirs = [], []
    with our_door(folder, address, wish.profile) as door, baseline() as other:
        for number in range(wish.rounds + 1):
            load = folder / "load"
            write_load(load, number, wish.seconds * FASTEST)
            pair = (round_of(door, load, wish.seconds), round_of(other, load, wish.seconds))
            if number:  # the first one warms up
                ours.append(pair[0])
                theirs.append(pair[1])
    a, b = median(ours), median(theirs)
    return {
        "figure": f"door, {wish.database}",
        "ours": round(a.rate),
        "baseline": round(b.rate),
        "ratio": round(a.rate / b.rate, 2),
        "p50": [round(a.p50, 1), round(b.p50, 1)],
        "p99": [round(a.p99, 1), round(b.p99, 1)],
        "rounds": [[round(one.rate), round(two.rate)] for one, two in zip(ours, theirs, strict=True)],
    }


def median(rounds: list[Figures]) -> Figures:
    return Figures(
        *(statistics.median(getattr(one, name) for one in rounds) for name in ("rate", "p50", "p99", "requests"))
    )


def write_load(path: Path, number: int, count: int) -> None:
    """`count` signed deliveries of 1 KB, none like another."""
    issue = {"number": 0, "title": "Prices are wrong", "labels": [], "user": {"login": "mona"}, "body": "x" * 720}
    about = {"repository": {"full_name": "acme/shop", "private": False}, "sender": {"login": "mona", "id": 17}}
    with path.open("w") as file:
        for place in range(count):
            issue["number"] = 1 + number * count + place
            body = json.dumps({"action": "opened", "issue": issue, **about})
            signature = hmac.new(SECRET.encode(), body.encode(), hashlib.sha256).hexdigest()
            told = {
                **AS_GITHUB,
                "X-GitHub-Delivery": f"d-{number}-{place}",
                "X-Hub-Signature-256": f"sha256={signature}",
            }
            file.write("\t".join([*(f"{name}: {value}" for name, value in told.items()), body]) + "\n")


def round_of(url: str, load: Path, seconds: int, fastest: int = FASTEST) -> Figures:
    """wrk sends what stands in `load`, each once; SystemExit when one was refused, or when there were too few."""
    script = str(Path(__file__).with_suffix(".lua"))
    command = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{seconds}s",
        "--timeout",
        "10s",
        "-s",
        script,
        url,
        "--",
        str(load),
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = next(line for line in told.splitlines() if line.startswith("FIGURES")).split()[1:]
    requests, micros, p50, p99, refused, broken = map(float, words)
    if refused or broken or requests > seconds * fastest:
        raise SystemExit(f"bench: this round does not count: {told}")
    return Figures(requests * 1e6 / micros, p50, p99, requests)


@contextlib.contextmanager
def database(name: str) -> Iterator[str]:
    if name == "postgres":
        with postgres.serve(durable=True) as address:
            yield address
    else:
        yield ""


@contextlib.contextmanager
def our_door(folder: Path, address: str, profile: str) -> Iterator[str]:
    """The product's web process on a fresh database with one source and five triggers."""
    env = os.environ | {"DATA_DIR": str(folder / "data"), "NIGHTDESK_PROCESS": "web"}
    env |= {"DATABASE_URL": address} if address else {}
    manage = [sys.executable, "manage.py"]
    subprocess.run([*manage, "migrate", "--verbosity", "0"], check=True, cwd=ROOT, env=env)
    subprocess.run([*manage, "shell", "--verbosity", "0", "-c", textwrap.dedent(SEED)], check=True, cwd=ROOT, env=env)
    command = [sys.executable, *(["-m", "cProfile", "-o", profile] if profile else []), "-m", "uvicorn"]
    with server([*command, "project.asgi:application", *OPTIONS], ROOT, env) as ours:
        yield f"{ours.url}/hooks/github"


@contextlib.contextmanager
def baseline() -> Iterator[str]:
    python = HOME / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "fastapi", "uvicorn[standard]", "orjson"], check=True)
    env = os.environ | {"BENCH_SECRET": SECRET}
    with server([str(python), "-m", "uvicorn", "baseline:app"], ROOT / "bench", env) as theirs:
        yield f"{theirs.url}/hooks/github"


@dataclass(frozen=True)
class Server:
    """One that listens."""

    url: str
    pid: int


@contextlib.contextmanager
def server(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[Server]:
    port = postgres.free_port()
    more = ["--port", str(port), "--no-access-log", "--log-level", "warning"]
    process = subprocess.Popen([*command, *more], cwd=folder, env=env)
    try:
        wait_for(port, process)
        yield Server(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(20)


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("bench: the server did not start")


if __name__ == "__main__":
    if shutil.which("wrk") is None:
        raise SystemExit("bench: wrk is missing (on Debian and Ubuntu: apt-get install wrk)")
    main(sys.argv[1:])
