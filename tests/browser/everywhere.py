"""Every page of a desk, read from its router, with rows that fill it; and what breaks a rule of WCAG there."""

import json
from collections.abc import Iterator

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Page

from tests import addresses
from tests.processes import Desk

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
OF_THEME = ["color-contrast"]  # all that differs between a light page and the same one in the dark
OF_SIZE = ["target-size", "scrollable-region-focusable"]
SCREENS = {  # a window of 1280 is 640 wide when it is shown at 200 %, and 320 at 400 %
    (1440, 900): RULES,
    (1024, 768): [],
    (640, 512): [],
    (390, 844): OF_SIZE,
    (320, 640): RULES,
}
AXE = AXE_FILE_PATH.read_text()
BROKEN = """rules => axe.run({runOnly: rules, resultTypes: ['violations'], iframes: false}).then(found =>
  found.violations.map(one => `${one.id}: ${one.nodes[0].html.slice(0, 120)}`))"""
NO_PAGES = {"go", "bulk-new", "metrics", "readyz"}  # need more than an address, or are read by machines
OTHERWISE = (  # looks of a page that its plain address does not have
    "/?range=7d",
    "/find?q=github",
    "/runs?sort=-ended",
    "/events?status=ignored&type=nothing.at.all",
    "/dead-letters?status=dismissed",
    "/approvals?tab=decided",
    "/sources/new?kind=webhook",
    "/connections/new?system=github",
    "/triggers/new?handler=triage-issue",
    "/bulk/new?verb=redrive&status=open",
    "/runs/{runs}?tab=log",
    "/runs/{runs}?tab=payload",
    "/runs/{runs}?tab=history",
    "/admin/",
)
ROWS = """
import json
from approvals.models import Connection, PolicyChange
from django.contrib.auth.models import Group
from project.lib import clock
from project.people.models import User
from tests import builders
from triggers import bulk
from triggers.models import Agent, DeadLetter, EventType, Trigger
owner, now = User.objects.get(username="owner"), clock.now()
trigger = Trigger.objects.get(slug="triage-issue")

def buried(mark):
    event = builders.event(data={"id": 7, "title": "Typo", "labels": ["bug", "docs"]}, subject="acme/shop#7")
    error = {"type": "KeyError", "message": "'repository'", "traceback": "Traceback: a long story"}
    times = {"queued_at": now, "started_at": now, "finished_at": now}
    run = builders.run(event=event, trigger=trigger, status="dead", reason="failed", error=error, **times)
    builders.step(run, 1, name="read the issue", result_json='{"title": "Typo"}')
    facts = {"fingerprint": mark, "handler": run.handler, "error_type": "KeyError", "message": "'repository'"}
    return DeadLetter.objects.create(
        kind="run", run=run, event=event, place="triage.py:8", step="diagnose", first_at=now, last_at=now, **facts
    )

letter, settled = buried("a" * 16), buried("b" * 16)
job = bulk.press("dismiss", DeadLetter.objects.filter(pk=settled.pk), by=owner, filter={}, reason="known")
link = Connection.objects.get(system="github", practice=True)
evidence = [{"text": "The issue was closed", "for": False}, {"text": "It is a typo", "for": True}]
words = {"reason": "It is quickly mended.", "reversible": "It can be closed.", "blast_radius": "1 repository"}
action = builders.action(connection=link, evidence=evidence, run=letter.run, **words)
kind, _ = EventType.objects.get_or_create(
    type=letter.event.type, defaults={"first_at": now, "last_at": now, "sample": letter.event.pk}
)
rows = {"events": letter.event, "runs": letter.run, "dead-letters": letter, "bulk": job, "actions": action}
rows["teams"] = Group.objects.get(name="viewer")
rows["changes"] = PolicyChange.objects.create(verb="archive", slug="high-any-reviewer", by=owner, at=now)
keys = {name: row.pk for name, row in rows.items()}
named = {"g": letter.fingerprint, "event-types": kind.type, "connections": link.slug, "triggers": trigger.slug}
print(json.dumps(keys | named | {"agents": Agent.objects.get().slug, "policies": "high-any-reviewer"}))
"""


def furnish(shop: Desk) -> dict[str, object]:
    """Something on every page of a desk with the tour: the keys of its rows, by the segment of the path before them."""
    keys: dict[str, object] = json.loads(shop.python(ROWS))
    return keys


def pages(tab: Page, keys: dict[str, object]) -> Iterator[str]:
    """Whatever answers with a page to who is signed in, and some other looks of those."""
    for route, name in (one for one in addresses.PAGES if one[1] not in NO_PAGES):
        path = addresses.filled(route, keys)
        answer = tab.request.get(path, max_redirects=0)
        is_page = answer.status == 200 and answer.headers["content-type"].startswith("text/html")
        assert is_page or answer.status in (200, 302, 405), (name, path, answer.status)
        if is_page:
            yield path
    yield from (path.format_map(keys) for path in OTHERWISE)


def faults(tab: Page, page: str) -> list[str]:
    """What is too wide or breaks a rule, on each screen and in both themes."""
    answer = tab.goto(page)
    assert answer is not None
    assert answer.status == 200, page
    tab.evaluate(AXE)
    found: list[str] = []
    for (width, height), rules in SCREENS.items():
        tab.set_viewport_size({"width": width, "height": height})
        if rules:
            found += (f"{width}: {one}" for one in tab.evaluate(BROKEN, rules))
        if (wide := tab.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
            found.append(f"{width}: {wide} px too wide")
        if rules is RULES:
            tab.emulate_media(color_scheme="dark")
            found += (f"{width}, dark: {one}" for one in tab.evaluate(BROKEN, OF_THEME))
            tab.emulate_media(color_scheme="light")
    return found
