"""A page holds still under a storm of events, for who wants no motion, and reads in forced colours."""

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

LIVE = ("data-conn", "live")
HEAVIEST = 150 * 2**20  # bytes a tab may hold, however long it was open
STORM = """
import time
from project.lib import clock
from project.lib.live import changed
from triggers.models import Event, Source
source = Source.objects.get(slug="github")
begun, made = time.monotonic(), 0
while (spent := time.monotonic() - begun) < SECONDS:
    due = int(spent * 200) - made
    Event.objects.bulk_create([
        Event(type="storm.one", ce_id=f"storm-{made + n}", ce_source="/github", source=source, source_slug="github",
              received_at=clock.now(), status="ignored", data_json="{}")
        for n in range(due)
    ])
    made += due
    changed("events")
    time.sleep(0.01)
print(made)
"""
WATCH = """() => {
  window.seen = [];
  let open = false;
  new MutationObserver(() => {
    if (open) return;
    open = true;  // what one task changes is one update
    window.seen.push(performance.now());
    setTimeout(() => { open = false; });
  }).observe(document.getElementById('feed'), {childList: true, subtree: true});
}"""
BUSIEST = "Math.max(0, ...window.seen.map(from => window.seen.filter(at => at >= from && at < from + 1000).length))"
FRAMELESS = """selector => [...document.querySelectorAll(selector)].filter(el => el.offsetParent).filter(el => {
  const style = getComputedStyle(el);
  return style.borderTopStyle === 'none' || parseFloat(style.borderTopWidth) < 1;
}).map(el => el.outerHTML.slice(0, 120))"""


def test_200_events_a_second_change_a_page_at_most_four_times_a_second(shop, opens):
    tab = opens("owner", "/")
    expect(tab.locator("html")).to_have_attribute(*LIVE)
    tab.evaluate(WATCH)
    before = weight(tab)
    made = int(shop.python(STORM.replace("SECONDS", "10")).split()[-1])
    assert made >= 1500, "that was no storm"
    expect(tab.locator("#feed")).to_contain_text("storm.one")
    assert 0 < tab.evaluate(BUSIEST) <= 4, tab.evaluate("window.seen")
    after = weight(tab)
    assert after["Nodes"] <= before["Nodes"] * 2, "what is gone from the page is kept"
    assert after["JSHeapUsedSize"] < HEAVIEST


def weight(tab: Page) -> dict[str, float]:
    """What the tab holds: nodes, those that are out of sight too, and bytes of memory."""
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def moved(tab: Page) -> list[str]:
    return tab.evaluate(
        "document.getAnimations().filter(one => one.playState === 'running').map(one => one.animationName || 'a move')"
    )


def test_nothing_moves_for_who_wants_no_motion(shop, opens):
    shop.manage("ring", "github-issue")
    shop.until(lambda: shop.count("triggers_run"))
    tab = opens("owner", "/runs", reduced_motion="reduce")
    for page in ("/", "/runs", "/approvals", "/events"):
        tab.goto(page)
        tab.evaluate("document.querySelectorAll('main svg').forEach(el => el.classList.add('spin', 'fresh'))")
        assert moved(tab) == [], page


def test_in_forced_colours_badges_risks_and_buttons_keep_an_edge(shop, opens):
    shop.manage("ring", "github-issue")
    shop.until(lambda: shop.count("approvals_action", "status = 'awaiting'"), seconds=60)
    tab = opens("owner", "/approvals", forced_colors="active")
    for page in ("/", "/approvals", "/runs", "/actions", "/triggers"):
        tab.goto(page)
        expect(tab.locator("main")).to_be_visible()
        assert tab.evaluate(FRAMELESS, ".st, .tier, .btn:not(.ghost), .chip") == [], page
    tab.goto("/approvals")
    expect(tab.locator(".tier").first).to_have_text("Medium risk")
    tab.keyboard.press("Tab")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_tone_sounds_for_a_new_approval_once_somebody_switched_it_on(shop, opens):
    tab = opens("owner", "/settings")
    tab.add_init_script("""
        window.tones = 0;
        const quiet = {setValueAtTime() {}, exponentialRampToValueAtTime() {}};
        window.AudioContext = class {
          createOscillator() {
            return {frequency: {}, connect: gain => gain, start: () => { window.tones += 1; }, stop() {}};
          }
          createGain() { return {gain: quiet, connect() {}}; }
        };
    """)
    for wanted in (False, True):
        tab.goto("/settings")
        assert tab.is_checked("#id_sound") is False, "off until one wants it"
        if wanted:
            tab.check("#id_sound")
            tab.get_by_role("button", name="Save").click()
        tab.goto("/approvals")
        expect(tab.locator("html")).to_have_attribute(*LIVE)
        before = shop.count("approvals_action", "status = 'awaiting'")
        shop.manage("ring", "github-issue")
        shop.until(lambda before=before: shop.count("approvals_action", "status = 'awaiting'") > before, seconds=60)
        expect(tab).to_have_title(re.compile(rf"^\({before + 1}\) "))
        assert bool(tab.evaluate("window.tones")) is wanted
