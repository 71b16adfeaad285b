"""What each way to sign costs the door, beside GitHub's: deliveries a second, and processor time of each.

    python -m bench verify [--database postgres] [--rounds 3] [--seconds 2] [--fastest 6000]

One web process, 64 connections of wrk, signed 1 KB bodies that are all different; each is verified, claimed, stored and
answered after its commit. Schemes take turns; medians are printed, one JSON line each. Targets: HMAC and RSA >= 0.8x,
Ed25519 and ECDSA >= 0.5x of GitHub. The share of processor time holds on a busy machine too."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.door import OPTIONS, ROOT, database, round_of, server
from bench.idle import spent

FIRST = "github"
SCHEMES = {FIRST: "HMAC", "stripe": "HMAC with a time", "aws_sns": "RSA", "discord": "Ed25519", "sendgrid": "ECDSA"}
FASTEST = 6_000  # deliveries a second for which bodies are made; on a slow machine less is enough

Round = tuple[float, float]  # deliveries a second; seconds of processor time of each


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench verify")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--fastest", type=int, default=FASTEST)
    wish = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nightdesk-bench-") as folder, database(wish.database) as address:
        told = measured(Path(folder), address, wish)
    rate, cost = (statistics.median(part) for part in zip(*told[FIRST], strict=True))
    for name, rounds in told.items():
        mine, own = (statistics.median(part) for part in zip(*rounds, strict=True))
        figure = {
            "figure": f"verify, {SCHEMES[name]}",
            "by": name,
            "a second": round(mine),
            "of github": round(mine / rate, 2),
        }
        print(json.dumps({**figure, "µs of processor": round(own * 1e6), "github's of that": round(cost / own, 2)}))


def measured(folder: Path, address: str, wish: argparse.Namespace) -> dict[str, list[Round]]:
    env = os.environ | {"DATA_DIR": str(folder / "data"), "NIGHTDESK_PROCESS": "web"}
    env |= {"DATABASE_URL": address} if address else {}
    manage(env, "migrate")
    manage(env, "shell", "-c", "from bench.signed import make_sources; make_sources()")
    most = wish.seconds * wish.fastest
    found: dict[str, list[Round]] = {name: [] for name in SCHEMES}
    with server([sys.executable, "-m", "uvicorn", "project.asgi:application", *OPTIONS], ROOT, env) as ours:
        for number in range(wish.rounds + 1):
            manage(env, "shell", "-c", f"from bench.signed import write; write({str(folder)!r}, {most})")
            for name in SCHEMES:
                before = spent(ours.pid)
                one = round_of(f"{ours.url}/hooks/{name}", folder / name, wish.seconds, wish.fastest)
                if number:  # the first one warms up
                    found[name].append((one.rate, (spent(ours.pid) - before) / one.requests))
    return found


def manage(env: dict[str, str], command: str, *more: str) -> None:
    line = [sys.executable, "manage.py", command, "--verbosity", "0", *more]
    subprocess.run(line, check=True, cwd=ROOT, env=env)
