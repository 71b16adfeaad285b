"""From a person's yes to the first line of the effect, with a take-back window of 0, on an idle desk.

    python -m bench decision [--actions 60]

A whole `manage.py up` and a kind of tier medium whose delivery writes down when it began. The yes goes over the API;
the time runs from its answer (and, second line, from sending it). Target: p50 <= 50 ms."""

import argparse
import json
import random
import time
from pathlib import Path

import httpx

from bench.figures import spread
from tests.chaos.load import TRIGGER, sign
from tests.processes import Desk, desk

PAUSE = (0.05, 0.35)  # seconds
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
    act(run, "note", kind="bench.note", connection="bench", order=run.event.data["data"]["order"])
"""
CONNECTION = """
    from approvals.models import Connection
    Connection.objects.create(slug="bench", system="http")
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench decision")
    parser.add_argument("--actions", type=int, default=60)
    wish = parser.parse_args(arguments)
    with desk(quick=False) as shop:
        shop.handlers(HANDLER)
        shop.start()
        shop.python(CONNECTION)
        secret = shop.python(TRIGGER).split()[-1]
        pairs = measure(shop, secret, shop.token("read", "decide"), wish.actions)
    answered, sent = zip(*pairs, strict=True)
    facts = {"actions": wish.actions}
    print(json.dumps({"figure": "decision answered to effect started, ms", **facts, **spread(list(answered))}))
    print(json.dumps({"figure": "decision sent to effect started, ms", **facts, **spread(list(sent))}))


def measure(shop: Desk, secret: str, ann: httpx.Client, actions: int) -> list[tuple[float, float]]:
    """Seconds from (answer, sending) to the effect's first line; the first five warm up."""
    pairs = []
    for number in range(actions + 5):
        headers, body = sign(secret, number)
        assert ann.post("/hooks/generic", content=body, headers=headers).status_code == 202
        shop.until(lambda: shop.count("approvals_action", "status = 'awaiting'"), every=0.02)
        action = ann.get("/api/v1/actions?status=awaiting").raise_for_status().json()["items"][0]
        time.sleep(random.uniform(*PAUSE))
        pairs.append(decide(shop, ann, action, shop.folder / f"effect-{number}"))
    return pairs[5:]


def decide(shop: Desk, ann: httpx.Client, action: dict[str, object], effect: Path) -> tuple[float, float]:
    said = {"verdict": "approve", "digest": action["digest"], "revision": action["revision"]}
    sent = time.time()
    answer = ann.post(f"/api/v1/actions/{action['id']}/decisions", json=said)
    answered = time.time()
    assert answer.status_code == 201, answer.text
    shop.until(lambda: effect.exists() and effect.stat().st_size, every=0.005)
    began = float(effect.read_text())
    return began - answered, began - sent
