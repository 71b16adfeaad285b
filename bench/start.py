"""From the door's answer to the first line of the handler, on an idle desk.

    python -m bench start [--events 100]

A whole `manage.py up`; one signed delivery, a pause until its run has ended, the next one. Both moments are read
from this machine's clock. Target: p50 <= 25 ms, p99 <= 150 ms."""

import argparse
import json
import random
import time
from pathlib import Path

import httpx

from bench.figures import spread
from tests.chaos.load import TRIGGER, sign
from tests.processes import Desk, desk

PAUSE = (0.05, 0.35)  # seconds between two events, so that they meet no rhythm of the desk
HANDLER = """
import time
from pathlib import Path

from django.conf import settings
from triggers.registry import handler


@handler("take-order")
def take_order(run):
    now = time.time()
    (settings.DATA_DIR / f"started-{run.event.data['data']['order']}").write_text(repr(now))
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench start")
    parser.add_argument("--events", type=int, default=100)
    wish = parser.parse_args(arguments)
    with desk(quick=False) as shop:
        shop.handlers(HANDLER)
        shop.start()
        secret = shop.python(TRIGGER).split()[-1]
        delays = measure(shop, secret, wish.events)
    print(json.dumps({"figure": "event to handler start, ms", "events": wish.events, **spread(delays)}))


def measure(shop: Desk, secret: str, events: int) -> list[float]:
    """Seconds from answer to start of each event; the first five warm up."""
    delays = []
    with httpx.Client(base_url=shop.url, timeout=30, trust_env=False) as http:
        for number in range(events + 5):
            headers, body = sign(secret, number)
            assert http.post("/hooks/generic", content=body, headers=headers).status_code == 202
            answered = time.time()
            began = shop.folder / f"started-{number}"
            shop.until(lambda began=began: is_written(began), every=0.005)  # type: ignore[misc]
            delays.append(float(began.read_text()) - answered)
            time.sleep(random.uniform(*PAUSE))
    return delays[5:]


def is_written(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
