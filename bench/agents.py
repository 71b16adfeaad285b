"""What the journal adds to each request of an agent to its model, and what 200 agents hold that wait for people.

    python -m bench agents [--requests 100] [--agents 200] [--database sqlite]

The model is a scripted server that answers at once. The journal is what a request's step takes beyond the request: what
it cost and the answer, each committed. Target: p50 <= 15 ms. Beside it stands the whole time from an answer to the next
request, with one call of a tool, in a run and by the same code without a desk. Agents that wait hold no worker and no
connection, and another run starts as soon as before. Target: none of either."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import httpx

from bench.door import database
from bench.figures import spread
from tests import scripted_model
from tests.chaos.load import QUIET, TRIGGER, sign
from tests.processes import Desk, desk
from tests.scripted_model import Asked, calls, says

PROBES = 20  # runs that are timed before and while all wait
ESTABLISHED = "01"  # as /proc/net/tcp writes it
CONFIG = {
    "model": "openai:scripted",
    "instructions": "Look around.",
    "tools": ["event.search", "github.create_pr"],
    "max_requests": 500,
    "max_calls": 1000,
    "max_tokens": 100_000_000,
}
LOOK = ("event_search", {"words": "nothing has these words"})
FILES = [{"path": "README.md", "content": "A shop."}]
PULL = ("github_create_pr", {"repo": "acme/shop", "base": "main", "title": "Tidy up", "body": "", "files": FILES})
RUN = """
    import json, time
    from project.lib import failpoints
    from tests import builders
    from triggers.execute import execute
    passed = []
    failpoints.reached = lambda place: passed.append((place, time.monotonic()))
    trigger = builders.trigger("agent", slug="measured", config={config!r}, enabled=False)
    run = builders.run("agent", trigger=trigger)
    execute(run.pk)
    run.refresh_from_db()
    assert run.status == "succeeded", run.error
    # Each turn passes these places twice: for the answer, and for the look that it asks for.
    began = [at for place, at in passed if place == "after_step_call"]
    ended = [next(at for place, at in passed if place == "after_journal" and at > since) for since in began]
    steps = list(run.steps.order_by("seq"))
    asked = {{step.name: step for step in steps if step.name.startswith("turn ") and "/" not in step.name}}
    called = [step.name for step in steps if step.kind == "call"]
    wrote = dict(zip(called, [end - start for start, end in zip(began, ended)]))
    spent = [(row.finished_at - row.started_at).total_seconds() - row.result["took"] for row in asked.values()]
    print(json.dumps([rest + wrote[name] for rest, name in zip(spent, asked)]))
"""
BARE = """
    from project.agent import provider, turns
    plan = {{"model": "openai:scripted", "instructions": "Look around.", "prompt": "", "tools": []}}
    told = []
    for number in range({requests}):
        answer = provider.request(plan, told, answer_tokens=4096, patience=60)
        asked = turns.calls_in(answer["response"])
        results = [{{"id": one.id, "tool": one.tool, "text": '{{"done": true, "result": []}}'}} for one in asked]
        told.append({{"response": answer["response"], "results": results, "say": "" if results else "go on"}})
"""
SET = """
    from triggers.models import ConfigVersion, Trigger
    Trigger.objects.exclude(slug="take-order").update(enabled=False)
    Trigger.objects.create(slug="agents", name="Agents", source="generic", type_pattern="agent.wanted",
                           handler="agent", config={config!r})
    ConfigVersion.bump()
"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench agents")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--database", choices=["sqlite", "postgres", "both"], default="both")
    wish = parser.parse_args(arguments)
    for name in ("sqlite", "postgres") if wish.database == "both" else (wish.database,):
        with database(name) as address, desk(address, quick=False) as shop:
            print(json.dumps({"figure": f"agents, a request, {name}", **remembered(shop, wish.requests)}))
        with database(name) as address, desk(address, quick=False) as shop:
            print(json.dumps({"figure": f"agents that wait, {name}", **waiting(shop, wish.agents)}))


# A request


class Clock:
    """Says the lines of a script and notes how long each next request took to come."""

    def __init__(self, requests: int) -> None:
        self.requests, self.number, self.answered_at = requests, 0, 0.0
        self.gaps: list[float] = []

    def line(self, asked: Asked) -> Any:
        if self.answered_at:
            self.gaps.append(time.monotonic() - self.answered_at)
        self.number += 1
        last = self.number >= self.requests
        answer = says("done") if last else calls(LOOK, ids=(f"c{self.number}",))
        self.answered_at = 0.0 if last else time.monotonic()
        return answer


def remembered(shop: Desk, requests: int) -> dict[str, Any]:
    """The desk itself stands still meanwhile: one worker and one database, nobody else."""
    told: dict[str, Any] = {}
    for name, code in (("with", RUN.format(config=CONFIG)), ("without", BARE.format(requests=requests))):
        clock = Clock(requests)
        with scripted_model.serving(clock.line) as model:
            shop.settings["LLM_BASE_URL"] = model.url
            told[f"{name} printed"] = shop.python(code)
            told[name] = clock.gaps
            forget_console(shop)
    return {
        "requests": requests,
        "journal, ms": spread(json.loads(told["with printed"])),
        "between two with a call of a tool, ms": spread(told["with"]),
        "the same without a desk, ms": spread(told["without"]),
    }


def forget_console(shop: Desk) -> None:
    """The next code is run in a process of its own, with the settings of then."""
    if shop.console:
        shop.console.communicate()
        shop.console = None


# Agents that wait


def waiting(shop: Desk, agents: int) -> dict[str, Any]:
    with scripted_model.serving(calls(PULL)) as model:
        shop.settings["LLM_BASE_URL"] = model.url
        shop.handlers(QUIET, name="quiet")
        shop.start()
        secret = shop.python(TRIGGER).split()[-1]
        shop.python(SET.format(config=CONFIG))
        before = probes(shop, secret, 0)
        connections = open_ones(shop, model)
        began = time.monotonic()
        for number in range(agents):
            ring(shop, secret, PROBES + number, "agent.wanted")
        shop.until(lambda: awaiting(shop) == agents, seconds=1200, every=0.5)
        took = time.monotonic() - began
        time.sleep(3)  # whatever was under way has ended
        held = shop.count("triggers_run", "status = 'running' OR leased_until IS NOT NULL")
        now = open_ones(shop, model)
        after = probes(shop, secret, PROBES + agents)
    return {
        "agents": awaiting(shop),
        "seconds until all wait": round(took, 1),
        "workers held": held,
        "connections to the model": now["model"],
        "connections to the database, before and now": [connections["database"], now["database"]],
        "another run, before, ms": spread(before),
        "another run, now, ms": spread(after),
    }


def awaiting(shop: Desk) -> int:
    return shop.count("approvals_action", "status = 'awaiting'")


def ring(shop: Desk, secret: str, number: int, type: str = "order.created") -> None:
    headers, body = sign(secret, number, type)
    answer = httpx.post(f"{shop.url}/hooks/generic", content=body, headers=headers, timeout=60, trust_env=False)
    assert answer.status_code == 202, answer.text


def probes(shop: Desk, secret: str, first: int) -> list[float]:
    """Seconds from a delivery to the end of its run, one after the other."""
    took = []
    for number in range(first, first + PROBES):
        done = shop.count("triggers_run", "status = 'succeeded'")
        began = time.monotonic()
        ring(shop, secret, number)
        shop.until(lambda done=done: shop.count("triggers_run", "status = 'succeeded'") > done, every=0.005)
        took.append(time.monotonic() - began)
    return took


def open_ones(shop: Desk, model: scripted_model.Model) -> dict[str, int]:
    """Open connections to the model, by the kernel's table, and to the database, by PostgreSQL's own (SQLite: none)."""
    port = f"{int(model.url.rpartition(':')[2].partition('/')[0]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    to_model = sum(row[2].endswith(f":{port}") and row[3] == ESTABLISHED for row in rows)
    own = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    return {"model": to_model, "database": shop.rows(own)[0][0] if shop.database_url else 0}
