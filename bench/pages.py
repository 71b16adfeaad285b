"""How long the desk's own pages take on a server that has been at work for long.

    python -m bench pages [--events 1000000] [--asked 40] [--database postgres]

One JSON line a page: milliseconds from the request to the whole answer, one after the other, by a person who is signed
in, and how many questions it asks the database. Two steps a run. Target: p95 <= 150 ms and <= 15 for every list."""

import argparse
import json
import re
import time

import httpx

from bench.door import database
from bench.figures import spread
from tests.processes import PASSWORD, Desk, desk

PAGES = ("/", "/events", "/events?status=ignored", "/events?type=order.*&since=24h", "/runs", "/runs?status=dead")
RARE = ("/events?status=invalid", "/runs?trigger=trigger-1", "/actions?tier=high", "/dead-letters?status=dismissed")
ONE = ("/triggers/trigger-1", "/sources/github")
MORE = ("/actions", "/dead-letters", "/audit", "/triggers", "/handlers", "/approvals", "/find?q=order-17")
LIFE = """
from tests.plans import bulk, rows
from triggers.models import Step
rows.a_long_life({count})
first = rows.FIRST + {count}
again = {{"name": "'pay'", "seq": "2", "fence": "1", "result_json": "'1'", "started_at": rows.ago("n")}}
with bulk.filling([Step]):
    rows.fill(Step, {count}, id=f"{{first}} + n", run_id=f"{{rows.FIRST}} + n", **again)
rows.analyze()
"""
ASKED = """
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from project.people.models import User
person = Client(headers={{"host": "{host}"}})
person.force_login(User.objects.get(username="owner"))
for page in {pages!r}:
    person.get(page)  # what is counted for all who look is counted once
    with CaptureQueriesContext(connection) as questions:
        assert person.get(page).status_code == 200, page
    print(len(questions))
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench pages")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--asked", type=int, default=40)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    wish = parser.parse_args(arguments)
    for name in ("sqlite", "postgres") if wish.database == "both" else (wish.database,):
        with database(name) as address, desk(address, quick=False, OWNER_PASSWORD=PASSWORD) as shop:
            shop.start("--bare")
            measure(shop, name, wish.events, wish.asked)


def measure(shop: Desk, name: str, events: int, asked: int) -> None:
    began = time.monotonic()
    shop.python(LIFE.format(count=events))
    filled = round(time.monotonic() - began)
    person = signed_in(shop)
    times = {page: spread([took(person, page) for _ in range(asked)]) for page in (*PAGES, *MORE, *RARE, *ONE)}
    host = shop.url.removeprefix("http://")
    questions = shop.python(ASKED.format(host=host, pages=list(times))).split()
    print(json.dumps({"figure": f"pages, {name}", "rows": events, "filled in s": filled}), flush=True)
    for (page, told), many in zip(times.items(), questions, strict=True):
        print(json.dumps({"figure": f"page {page}, ms, {name}", **told, "questions": int(many)}), flush=True)


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
