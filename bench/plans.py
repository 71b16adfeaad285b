"""Whether every question a desk asks again and again is answered by an index, with a million rows of each kind.

    python -m bench plans [--rows 1000000]

The same tests as in the suite, on both databases; one JSON line each with what did not hold; it ends with 1 for any."""

import argparse
import json
import os
import re
import subprocess
import sys
import time

from bench.door import ROOT

TEST = ["pytest", "-q", "-p", "no:xdist", "--timeout", "7200", "tests/plans"]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench plans")
    parser.add_argument("--rows", type=int, default=1_000_000)
    wish = parser.parse_args(arguments)
    env = os.environ | {"NIGHTDESK_ROWS": str(wish.rows)}
    whole = True
    for name, command in (("sqlite", ["-m", *TEST]), ("postgres", ["-m", "tests.postgres", "-m", *TEST])):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        broken = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)", done.stdout, re.MULTILINE)
        if done.returncode and not broken:
            raise SystemExit(done.stdout + done.stderr)
        told = {"rows": wish.rows, "seconds": round(time.monotonic() - began), "not by an index": broken}
        print(json.dumps({"figure": f"plans, {name}", **told}), flush=True)
        whole = whole and not broken
    if not whole:
        raise SystemExit(1)
