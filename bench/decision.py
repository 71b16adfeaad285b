"""From a person's yes to the first line of the effect, with a take-back window of 0: on an idle desk, then under load.

    python -m bench decision [--actions 60] [--load 20]

A whole `manage.py up` and a kind of tier medium whose delivery writes down when it began. The yes goes over the API;
the time runs from its answer (and, second line, from sending it). The load is so many deliveries a second, each of
which starts a run of three steps. Target: p50 <= 50 ms, p99 <= 500 ms."""

import argparse
import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench.figures import spread
from tests.chaos.load import TRIGGER, sign
from tests.processes import Desk, desk

PAUSE = (0.05, 0.35)  # seconds
WARM = 5
LOAD = 1_000_000  # orders from this number on ask for nothing
HANDLER = """
import time
from datetime import timedelta

from approvals.act import act
from approvals.kinds import Arguments, Kind, register
from approvals.tiers import Tier
from django.conf import settings
from triggers.registry import handler


class Note(Arguments):
    order: int


def write(far, note, key):
    now = time.time()
    (settings.DATA_DIR / f"effect-{note.order}").write_text(repr(now))
    return {}


register(Kind(
    name="bench.note", system="http", tier=Tier.MEDIUM, safety="keyed", arguments=Note, deliver=write,
    title=lambda note: f"Note {note.order}", preview=lambda note: [], pretend=lambda note, number: {},
    take_back=timedelta(0),
))


@handler("take-order")
def take_order(run):
    order = run.event.data["data"]["order"]
    if order < 1_000_000:
        act(run, "note", kind="bench.note", connection="bench", order=order)
    else:
        return sum(run.step(f"step {place}", lambda: order) for place in range(3))
"""
CONNECTION = """
    from approvals.models import Connection
    Connection.objects.create(slug="bench", system="http")
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench decision")
    parser.add_argument("--actions", type=int, default=60)
    parser.add_argument("--load", type=float, default=20, help="deliveries a second of the second round")
    wish = parser.parse_args(arguments)
    with desk(quick=False) as shop:
        shop.handlers(HANDLER)
        shop.start()
        shop.python(CONNECTION)
        secret = shop.python(TRIGGER).split()[-1]
        ann = shop.token("read", "decide")
        report(measure(shop, secret, ann, range(wish.actions + WARM)), load=0)
        with loaded(shop, secret, wish.load):
            report(measure(shop, secret, ann, range(1000, 1000 + wish.actions + WARM)), load=wish.load)


def report(pairs: list[tuple[float, float]], *, load: float) -> None:
    facts = {"actions": len(pairs), "deliveries a second": load}
    answered, sent = zip(*pairs, strict=True)
    print(json.dumps({"figure": "decision answered to effect started, ms", **facts, **spread(list(answered))}))
    print(json.dumps({"figure": "decision sent to effect started, ms", **facts, **spread(list(sent))}))


def measure(shop: Desk, secret: str, ann: httpx.Client, orders: range) -> list[tuple[float, float]]:
    """Seconds from (answer, sending) to the effect's first line; the first ones warm up."""
    pairs = []
    for number in orders:
        headers, body = sign(secret, number)
        assert ann.post("/hooks/generic", content=body, headers=headers).status_code == 202
        shop.until(lambda: shop.count("approvals_action", "status = 'awaiting'"), every=0.02)
        action = ann.get("/api/v1/actions?status=awaiting").raise_for_status().json()["items"][0]
        time.sleep(random.uniform(*PAUSE))
        pairs.append(decide(shop, ann, action, shop.folder / f"effect-{number}"))
    return pairs[WARM:]


@contextlib.contextmanager
def loaded(shop: Desk, secret: str, rate: float) -> Iterator[None]:
    """Somebody else rings all the while."""
    over = threading.Event()

    def ring() -> None:
        number = LOAD
        with httpx.Client(base_url=shop.url, timeout=60, trust_env=False) as http:
            while not over.wait(1 / rate):
                headers, body = sign(secret, number)
                assert http.post("/hooks/generic", content=body, headers=headers).status_code == 202
                number += 1

    thread = threading.Thread(target=ring, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def decide(shop: Desk, ann: httpx.Client, action: dict[str, object], effect: Path) -> tuple[float, float]:
    said = {"verdict": "approve", "digest": action["digest"], "revision": action["revision"]}
    sent = time.time()
    answer = ann.post(f"/api/v1/actions/{action['id']}/decisions", json=said)
    answered = time.time()
    assert answer.status_code == 201, answer.text
    shop.until(lambda: effect.exists() and effect.stat().st_size, every=0.005)
    began = float(effect.read_text())
    return began - answered, began - sent
