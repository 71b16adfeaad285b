"""/metrics: the names of the contract, right across processes and restarts, bounded however much there is."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families

from approvals.act import act
from project import metrics_rows
from project.agent.models import Spending
from project.checks_live import approved
from project.lib import clock
from tests import builders
from tests.deliveries import deliver, github
from tests.handlers import registered, work
from tests.house.tree import ROOT
from tests.nodding import handling, say, serving, settle, the_action
from triggers import tallies
from triggers.models import Event, Pulse, Run, Switch, Tally

pytestmark = pytest.mark.django_db(transaction=True)


def numbers(client: Client | None = None) -> dict[tuple[str, ...], float]:
    """`{(name, label values…): value}` as a scraper reads it, by the names of the labels."""
    answer = (client or Client()).get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def restart() -> None:
    """What a process forgets when it ends in good order, and what a new one finds."""
    tallies.flush()
    tallies.forget()


def test_every_number_stands_in_the_docs_by_its_name():
    text = Client().get("/metrics").content.decode()
    names = set(re.findall(r"^# HELP (\w+)", text, re.MULTILINE))
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert {name for name in names if f"`{name}" not in page} == set()
    assert len(names) >= 12


def test_who_is_not_on_this_machine_sends_a_token_that_may_read(ann, with_token):
    far = {"REMOTE_ADDR": "203.0.113.9"}
    refused = Client().get("/metrics", **far)
    assert (refused.status_code, refused.json()["code"]) == (401, "not_signed_in")
    assert refused["Content-Type"] == "application/problem+json"
    assert refused["WWW-Authenticate"].startswith("Bearer")
    assert Client().get("/metrics", headers={"x-forwarded-for": "203.0.113.9"}).status_code == 401
    assert with_token(ann, "ingest").get("/metrics", **far).status_code == 401
    assert with_token(ann, "read").get("/metrics", **far).status_code == 200
    assert with_token("scraper", "read").get("/metrics", **far).status_code == 200


def test_the_door_counts_what_it_took_what_came_again_and_what_it_refused():
    builders.source(types=["github.**"])
    builders.trigger()
    same = github({"action": "opened"}, id="d-1")
    deliver(same)
    deliver(same)
    deliver(github({"action": "closed"}, id="d-2"))
    deliver(github({"action": "opened"}, id="d-3", X_Hub_Signature_256="sha256=wrong"))
    deliver({**github({}), "slug": "no-such-source"})
    for _ in range(2):
        told = numbers()
        assert told["nightdesk_events_total", "github", "routed"] == 2
        assert told["nightdesk_duplicates_total", "github"] == 1
        refused = {key[1:]: value for key, value in told.items() if key[0] == "nightdesk_refused_total"}
        assert sum(refused.values()) == 2
        assert {source for _, source in refused} == {"github", ""}
        assert told["nightdesk_queue_depth", next(iter(slugs()))] == 2
        restart()


def slugs() -> set[str]:
    return set(Run.objects.values_list("trigger__slug", flat=True))


def test_the_door_tells_how_long_it_took_and_slow_ones_fall_on_higher_steps():
    for seconds in (0.0004, 0.004, 0.004, 30):
        tallies.door(seconds)
    told = numbers()
    assert told["nightdesk_door_seconds_count",] == 4
    assert told["nightdesk_door_seconds_bucket", "0.001"] == 1
    assert told["nightdesk_door_seconds_bucket", "0.005"] == 3
    assert told["nightdesk_door_seconds_bucket", "10.0"] == 3
    assert told["nightdesk_door_seconds_bucket", "+Inf"] == 4
    assert told["nightdesk_door_seconds_sum",] == pytest.approx(30.0084)


def test_a_whole_story_shows_in_runs_actions_and_their_times(ben, later):
    builders.connection("shop", practice=False)
    with serving("medium"), handling(story):
        builders.run("story")
        work()
        later(seconds=100)
        say(the_action(), ben)
        settle()
    told = numbers()
    assert told["nightdesk_runs_total", "story", "succeeded"] == 1
    assert told["nightdesk_actions_total", "shop.order", "delivered", "medium"] == 1
    assert told["nightdesk_approval_wait_seconds_count",] == 1
    assert 100 <= told["nightdesk_approval_wait_seconds_sum",] < 160
    assert told["nightdesk_event_to_result_seconds_bucket", "60.0"] == 0
    assert told["nightdesk_event_to_result_seconds_bucket", "300.0"] == 1
    assert told["nightdesk_run_start_delay_seconds_count",] == 1
    assert told["nightdesk_resume_delay_seconds_count",] == 1
    assert told["nightdesk_resume_delay_seconds_sum",] < 60
    assert told["nightdesk_auto_share",] == 0
    assert told["nightdesk_tick_age_seconds",] < 60


def story(run):
    return dict(act(run, "buy", kind="shop.order"))


def test_what_is_added_up_is_counted_once_whenever_one_looks(later):
    def counted():
        told = numbers()
        return told["nightdesk_runs_total", "quick", "succeeded"], told["nightdesk_events_total", "github", "routed"]

    with registered("quick", lambda run: 1):
        for number in range(1, 6):
            builders.run("quick")
            work()
            assert counted() == (number, number)
            later(seconds=45)
            metrics_rows.add_up()
            assert counted() == (number, number)
    assert Tally.objects.filter(name="runs").get().value in (3, 4), "the last minute is not added up yet"


def test_of_two_rounds_at_once_only_one_adds(later, monkeypatch):
    builders.run(status="succeeded", finished_at=clock.now())
    later(seconds=120)
    flow = next(flow for flow in metrics_rows.FLOWS if flow.name == "runs")
    began = metrics_rows.counted_until("runs")
    assert metrics_rows.add_up_one(flow, clock.now())
    monkeypatch.setattr(metrics_rows, "counted_until", lambda name: began)  # what the slower one had read
    assert not metrics_rows.add_up_one(flow, clock.now())
    assert Tally.objects.get(name="runs").value == 1


def test_an_event_counts_when_it_was_matched_and_the_count_never_falls(later):
    waiting = builders.event(status="accepted")
    later(seconds=120)
    metrics_rows.add_up()
    assert ("nightdesk_events_total", "github", "accepted") not in numbers()
    Event.objects.filter(pk=waiting.pk).update(status="ignored")
    assert numbers()["nightdesk_events_total", "github", "ignored"] == 1
    metrics_rows.add_up()
    assert numbers()["nightdesk_events_total", "github", "ignored"] == 1
    assert Tally.objects.filter(name="events").get().value == 1


def test_an_event_nobody_can_match_does_not_hold_up_the_count_for_ever(later):
    builders.event(status="accepted")
    builders.event(status="ignored")
    later(hours=2)
    metrics_rows.add_up()
    told = numbers()
    assert told["nightdesk_events_total", "github", "accepted"] == 1
    assert told["nightdesk_events_total", "github", "ignored"] == 1


def test_a_desk_with_a_long_past_is_added_up_piece_by_piece(later, monkeypatch):
    for _ in range(7):
        builders.run(status="succeeded", finished_at=clock.now())
        later(seconds=1)
    later(seconds=120)
    monkeypatch.setattr(metrics_rows, "PIECE", 2)
    shown = []
    for _ in range(5):
        shown.append(numbers()["nightdesk_runs_total", "triage-issue", "succeeded"])
        metrics_rows.add_up()
    assert shown == sorted(shown), "a counter never falls"
    assert shown[0] == 3
    assert shown[-1] == 7


def test_a_scrape_asks_the_same_few_questions_however_many_rows_there_are(later):
    def asked() -> int:
        with CaptureQueriesContext(connection) as asked:
            numbers()
        return len(asked)

    builders.run(status="succeeded", finished_at=clock.now())
    few = asked()
    for _ in range(30):
        builders.run(status="succeeded", finished_at=clock.now())
    assert asked() == few < 60


@pytest.mark.parametrize("field", ["finished_at", "settled_at", "received_at"])
def test_the_rows_of_the_last_minute_are_found_by_an_index(field):
    flow = next(flow for flow in metrics_rows.FLOWS if flow.field == field)
    rows = flow.between(metrics_rows.BEGINNING, clock.now()).order_by(field).values_list(field)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET enable_seqscan = off")
    plan = rows.explain()
    assert re.search(r"INDEX|Index", plan), plan


def test_what_cannot_be_written_now_is_kept_for_the_next_time(monkeypatch):
    tallies.note("refused", "github", "x")

    def down(_):
        raise tallies.DatabaseError("away")

    with monkeypatch.context() as broken:
        broken.setattr(tallies, "add", down)
        tallies.flush()
    assert numbers()["nightdesk_refused_total", "x", "github"] == 1
    tallies.flush()
    assert Tally.objects.get(name="refused").value == 1


def test_a_queue_without_a_worker_shows_by_its_depth_and_its_age(later):
    builders.run(trigger=builders.trigger(slug="orders"), priority=3)
    later(seconds=90)
    builders.run(trigger=builders.trigger(slug="mails"))
    told = numbers()
    assert told["nightdesk_queue_depth", "orders"] == 1
    assert told["nightdesk_queue_depth", "mails"] == 1
    assert 90 <= told["nightdesk_oldest_due_seconds",] < 150
    assert ("nightdesk_tick_age_seconds",) not in told
    Pulse.beat("tick", clock.now())
    assert numbers()["nightdesk_tick_age_seconds",] < 60


def test_what_the_tick_must_repair_shows_by_its_age_and_its_number(later):
    assert numbers()["nightdesk_expired_lease_seconds",] == 0
    builders.run(status="running", leased_until=clock.now(), fence=1)
    builders.action(status="unknown")
    later(seconds=40)
    told = numbers()
    assert 40 <= told["nightdesk_expired_lease_seconds",] < 100
    assert told["nightdesk_actions_unknown",] == 1


def test_what_was_approved_and_is_not_begun_shows_by_its_age_and_what_is_held_back_does_not(later):
    assert numbers()["nightdesk_oldest_approved_seconds",] == 0
    now = clock.now()
    ready = {"status": "approved", "execute_by": now + timedelta(hours=1), "decided_at": now}
    builders.action(not_before=now + timedelta(seconds=10), **ready)
    builders.action("email.send", not_before=now - timedelta(minutes=20), **ready)
    Switch.objects.create(scope="kind", name="email.send", paused=True, at=now)
    assert numbers()["nightdesk_oldest_approved_seconds",] == 0, "one can be taken back, the other is switched off"
    assert approved() == ""
    later(seconds=100)
    assert 90 <= numbers()["nightdesk_oldest_approved_seconds",] < 150
    assert "could have started" in approved(), "/settings/checks and /readyz say it too"


def test_what_models_took_is_counted_by_model_and_handler_and_goes_on_after_it_was_added_up(later):
    for model, micros in (("small", 2000), ("small", None), ("large", 5_000_000)):
        spend(model, micros)
    for _ in range(2):
        told = numbers()
        assert told["nightdesk_llm_requests_total", "agent", "small"] == 2
        assert told["nightdesk_llm_tokens_total", "in", "agent", "small"] == 200
        assert told["nightdesk_llm_tokens_total", "out", "agent", "small"] == 40
        assert told["nightdesk_llm_cost_usd_total", "agent", "small"] == pytest.approx(0.002)
        assert told["nightdesk_llm_cost_usd_total", "agent", "large"] == 5
        assert told["nightdesk_event_cost_usd_count",] == 2
        assert told["nightdesk_event_cost_usd_sum",] == pytest.approx(5.002)
        assert told["nightdesk_event_cost_usd_bucket", "0.0025"] == 1
        later(minutes=5)
        metrics_rows.add_up()
    assert Tally.objects.filter(name="llm_cost").count() == 2


def test_models_without_end_become_one_number(later, monkeypatch):
    monkeypatch.setattr(metrics_rows, "MODELS", 2)
    for number in range(4):
        spend(f"model {number}", 1_000_000)
    assert {key[-1] for key in numbers() if key[0] == "nightdesk_llm_requests_total"} == {"model 0", "model 1", "other"}
    later(minutes=5)
    metrics_rows.add_up()
    spend("model 1", 1_000_000)
    spend("model 9", 1_000_000)
    told = {key[-1]: value for key, value in numbers().items() if key[0] == "nightdesk_llm_cost_usd_total"}
    assert told == {"model 0": 1, "model 1": 2, "other": 3}


def spend(model: str, micros: int | None) -> None:
    now = clock.now()
    run = builders.run("agent", status="succeeded", started_at=now, finished_at=now)
    Spending.objects.create(
        run=run, trigger=None, step="turn 1", model=model, tokens_in=100, tokens_out=20, micros=micros, at=now
    )
