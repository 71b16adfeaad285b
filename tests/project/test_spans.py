"""One story is one trace: the door, every try of the run, its steps, the proposal, the nod and the effect, also when
days and processes lie between them."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from approvals.act import act
from project.lib import spans
from tests import builders
from tests.deliveries import deliver, github
from tests.handlers import registered, work
from tests.house.tree import ROOT
from tests.nodding import say, settle, the_action
from tests.recorder import Recorder
from triggers import dispatch
from triggers.models import Event, Run

pytestmark = pytest.mark.django_db(transaction=True)

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SENT_TRACE = 0x0AF7651916CD43DD8448EB211C80319C


class Collector:
    """What a collector got."""

    def __init__(self) -> None:
        self.memory = InMemorySpanExporter()
        self.begin()

    def begin(self) -> None:
        """A new process: nothing is remembered but what was collected."""
        provider = TracerProvider(id_generator=spans.PlannedIds(), shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.memory))
        spans.send_to(provider)

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self.memory.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.all]

    def one(self, name: str) -> ReadableSpan:
        [found] = [one for one in self.all if one.name == name]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    yield Collector()
    spans.send_to(None)


def parent_of(one: ReadableSpan) -> int | None:
    return one.parent.span_id if one.parent else None


def story(run):
    run.step("look", lambda: 1)
    run.sleep("a night", timedelta(days=3))
    made = act(run, "tell", kind="http.request", method="POST", url=run.event.data["url"], json={"x": 1})
    return dict(made)


def test_a_story_with_waits_of_days_is_one_trace_from_the_door_to_the_far_side(collector, ben, later, settings):
    builders.source(types=["github.**"])
    builders.trigger("story", slug="story")
    with Recorder() as far, registered("story", story):
        settings.EGRESS_ALLOW = [f"127.0.0.1:{far.port}"]
        builders.connection("http", practice=False)
        deliver(github({"action": "opened", "url": far.url}, traceparent=SENT))
        work()
        assert Run.objects.get().status == "waiting"
        collector.begin()
        later(days=4)
        dispatch.tick()
        work()
        collector.begin()
        say(the_action(), ben)
        later(seconds=60)
        settle()
        carried = far.seen[0].headers["traceparent"]
    run = Run.objects.get()
    assert run.status == "succeeded"
    assert {one.context.trace_id for one in collector.all} == {SENT_TRACE}

    door = collector.one("event github.issues.opened")
    assert parent_of(door) == 0xB7AD6B7169203331, "the sender's own span"
    tries = [one for one in collector.all if one.name == "run story"]
    assert len(tries) == 3, "to the sleep, to the nod, to the end"
    assert {parent_of(one) for one in tries} == {door.context.span_id}
    assert parent_of(collector.one("step look")) == tries[0].context.span_id
    assert parent_of(collector.one("propose http.request")) == tries[1].context.span_id
    assert parent_of(collector.one("decision approve")) == door.context.span_id
    effect = collector.one("deliver http.request")
    assert parent_of(effect) == door.context.span_id
    assert carried == f"00-{SENT_TRACE:032x}-{effect.context.span_id:016x}-01"
    assert tries[2].attributes["nightdesk.status"] == "succeeded"
    assert effect.attributes["nightdesk.outcome"] == "delivered"
    settled = Event.objects.get(type="approvals.action.settled")
    assert settled.traceparent == carried, "what is born of it stays in the trace"


def test_without_a_trace_of_the_sender_the_event_begins_one_that_every_process_finds(collector):
    with registered("quick", lambda run: run.step("look", lambda: 1)):
        builders.source(types=["github.**"])
        builders.trigger("quick", slug="quick")
        deliver(github({"action": "opened"}))
        collector.begin()
        work()
    door, run, step = (collector.one(name) for name in ("event github.issues.opened", "run quick", "step look"))
    assert door.parent is None
    assert (parent_of(run), parent_of(step)) == (door.context.span_id, run.context.span_id)
    assert door.context.trace_id == run.context.trace_id == step.context.trace_id


def test_two_events_are_two_traces(collector):
    builders.source(types=["github.**"])
    deliver(github({"action": "opened"}, id="d-1"), github({"action": "closed"}, id="d-2"))
    assert len({one.context.trace_id for one in collector.all}) == 2


@pytest.mark.parametrize("nonsense", ["", "00-zz-zz-01", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "x" * 200, "é"])
def test_a_traceparent_that_is_none_is_no_trace(collector, nonsense):
    event = builders.event(traceparent=nonsense)
    assert spans.sent_context(event.traceparent) is None
    assert spans.own_context(event).is_valid


def test_a_bare_trace_id_is_followed_too(collector):
    event = builders.event(traceparent=f"{SENT_TRACE:032x}")
    assert spans.own_context(event).trace_id == SENT_TRACE


def test_what_fails_says_so_by_its_class_alone(collector):
    def fails(run):
        run.step("look", bad)

    def bad():
        raise ValueError("a secret word")

    with registered("fails", fails):
        builders.run("fails", attempt=4)
        work()
    for name in ("run fails", "step look"):
        assert collector.one(name).status.description == "ValueError"
    assert "a secret word" not in "".join(one.to_json() for one in collector.all)


def test_a_caller_s_own_traceparent_is_left_alone(collector):
    with spans.span("x"):
        assert spans.headers({"Traceparent": SENT}) == {}
        assert list(spans.headers({})) == ["traceparent"]


def test_without_a_collector_nothing_is_made_and_nothing_is_sent(ben):
    assert not spans.on()
    event = builders.event()
    with spans.span("x", of=event) as made:
        assert not made.is_recording()
        assert spans.headers({}) == {}
    assert spans.traceparent(event) == ""


PROGRAM = """
import django; django.setup()
from project.lib import spans
with spans.span("hello", run=7):
    pass
"""


def test_the_address_of_a_collector_is_all_it_takes(tmp_path):
    with Recorder() as collector:
        env = {"DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings"}
        env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "PATH": os.environ["PATH"]}
        subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, env=env, check=True, timeout=60)
    [sent] = collector.calls("POST", "/v1/traces")
    assert b"hello" in sent.body
    assert b"nightdesk" in sent.body


def test_without_one_the_sdk_is_not_even_loaded(tmp_path):
    program = "import django, sys; django.setup(); print('opentelemetry.sdk.trace' in sys.modules)"
    env = {"DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "project.settings", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False"
