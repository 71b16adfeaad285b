"""How long the desk's own pages take on a server that has been at work for long.

    python -m bench pages [--events 1000000] [--asked 40] [--postgres]

One JSON line a page: milliseconds from the request to the whole answer, one after the other, by a person who is signed
in. Two steps a run. Target: p95 <= 150 ms for every list."""

import argparse
import contextlib
import json
import re
import time

import httpx

from bench.figures import spread
from tests import postgres
from tests.processes import PASSWORD, Desk, desk

PAGES = ("/", "/events", "/events?status=ignored", "/events?type=order.*&since=24h", "/runs", "/runs?status=dead")
MORE = ("/actions", "/dead-letters", "/audit", "/triggers", "/handlers", "/approvals", "/find?q=order-17")
LIFE = """
from tests.plans import rows
from triggers.models import Step
rows.a_long_life({count})
first = rows.FIRST + {count}
again = {{"name": "'pay'", "seq": "2", "fence": "1", "result_json": "'1'", "started_at": rows.ago("n")}}
rows.fill(Step, {count}, id=f"{{first}} + n", run_id=f"{{rows.FIRST}} + n", **again)
rows.analyze()
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench pages")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--asked", type=int, default=40)
    parser.add_argument("--postgres", action="store_true")
    wish = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres.serve(durable=True)) if wish.postgres else ""
        shop = stack.enter_context(desk(server, quick=False, OWNER_PASSWORD=PASSWORD))
        shop.start("--bare")
        shop.python(LIFE.format(count=wish.events))
        person = signed_in(shop)
        for page in (*PAGES, *MORE):
            told = {"rows": wish.events, **spread([took(person, page) for _ in range(wish.asked)])}
            print(json.dumps({"figure": f"page {page}, ms, {'postgres' if server else 'sqlite'}", **told}), flush=True)


def signed_in(shop: Desk) -> httpx.Client:
    person = httpx.Client(base_url=shop.url, timeout=120)
    form = person.get("/sign-in").text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    proof = {"csrfmiddlewaretoken": token[1] if token else "", "username": "owner", "password": PASSWORD}
    person.post("/sign-in", data=proof, headers={"Referer": shop.url}, follow_redirects=True).raise_for_status()
    return person


def took(person: httpx.Client, page: str) -> float:
    began = time.perf_counter()
    answer = person.get(page)
    spent = time.perf_counter() - began
    if answer.status_code != 200:
        raise SystemExit(f"bench: {page} answers {answer.status_code}")
    return spent
