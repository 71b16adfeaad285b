"""A trigger is tried on what came or might come: it says what it would do, by the door's rules, and nothing runs."""

import json
from datetime import timedelta

import pytest

from project.lib import clock
from tests import builders
from triggers import configure, registry, routing
from triggers.models import Audit, Event, Run, Trigger
from triggers.viewing import DOOR_BYTES

API = "/api/v1/triggers/main-only/test"

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(ann, sign_in, monkeypatch):
    monkeypatch.setitem(registry.HANDLERS, "greet", registry.Handler(name="greet", function=print))
    builders.source("github")
    fields = {"source": "github", "type_pattern": "github.*", "handler": "greet"}
    configure.make_trigger(by=ann, slug="main-only", filter='event.data.ref == "main"', **fields)
    return sign_in(ann)


def ask(client, body, status=200):
    answer = client.post(API, body, content_type="application/json")
    assert answer.status_code == status, answer.content
    return answer.json()


def test_it_says_of_each_of_the_newest_events_whether_it_would_start_and_why_not(client):
    main, dev, other = (
        builders.event("github.push", data={"ref": "main"}),
        *(
            builders.event("github.push", data={"ref": "dev"}),
            builders.event("github.issues.opened", data={}),
        ),
    )
    builders.event("github.push", source_slug="elsewhere")
    told = ask(client, {"limit": 10})
    assert told["matched"] == 1
    assert [(one["seq"], one["outcome"]) for one in told["events"]] == [
        (other.pk, "not_matched"),
        (dev.pk, "not_matched"),
        (main.pk, "matched"),
    ]
    assert told["events"][0]["detail"] == "the type is not github.*"
    assert told["events"][1] | {"seq": 0} == {
        "seq": 0,
        "type": "github.push",
        "outcome": "not_matched",
        "clause": 'event.data.ref == "main"',
        "detail": "`event.data.ref` was 'dev', wanted 'main'",
    }


def test_one_event_is_asked_for_by_its_number_also_of_another_source(client):
    row = builders.event("github.push", data={"ref": "main"})
    assert ask(client, {"event": row.pk})["matched"] == 1
    foreign = builders.event("github.push", data={"ref": "main"}, source_slug="elsewhere")
    assert ask(client, {"event": foreign.pk})["events"][0]["detail"] == "the source is elsewhere, not github"
    ask(client, {"event": 10**9}, status=404)


def test_a_sample_that_did_not_happen_is_judged_like_one_that_did(client):
    told = ask(client, {"event": {"type": "github.push", "data": {"ref": "main"}}})
    assert told == {
        "matched": 1,
        "events": [{"seq": None, "type": "github.push", "outcome": "matched", "clause": "", "detail": ""}],
        "estimate": None,
    }
    assert ask(client, {"event": {"type": "github.push"}})["events"][0]["detail"] == "`event.data` is missing"
    assert ask(client, {"event": {"data": {}}}, status=422)["code"] == "not_valid"


def test_it_looks_back_as_far_as_it_is_told(client):
    old = builders.event("github.push", data={"ref": "main"}, received_at=clock.now() - timedelta(hours=2))
    new = builders.event("github.push", data={"ref": "main"})
    assert [one["seq"] for one in ask(client, {})["events"]] == [new.pk, old.pk]
    since = (clock.now() - timedelta(hours=1)).isoformat()
    assert [one["seq"] for one in ask(client, {"since": since})["events"]] == [new.pk]
    assert len(ask(client, {"limit": 1})["events"]) == 1
    ask(client, {"limit": 0}, status=422)
    ask(client, {"events": 1}, status=422)


def test_nothing_runs_and_nothing_is_written(client):
    builders.event("github.push", data={"ref": "main"})
    before = Audit.objects.count(), list(Event.objects.values()), list(Trigger.objects.values())
    ask(client, {})
    ask(client, {"event": {"type": "github.push", "data": {"ref": "main"}}})
    assert not Run.objects.exists()
    assert (Audit.objects.count(), list(Event.objects.values()), list(Trigger.objects.values())) == before


def test_what_a_payload_holds_is_told_only_to_those_who_see_payloads(client, ben, sign_in):
    builders.event("github.push", data={"ref": "secret-branch"})
    assert "secret-branch" in ask(client, {})["events"][0]["detail"]
    told = ask(sign_in(ben), {})["events"][0]
    assert (told["clause"], told["detail"]) == ('event.data.ref == "main"', None)


def test_an_event_that_was_handed_on_too_often_would_start_nothing(client):
    builders.event("github.push", data={"ref": "main"}, hops=routing.MAX_HOPS + 1)
    told = ask(client, {})["events"][0]
    assert (told["outcome"], told["detail"]) == ("not_matched", "it was handed on 9 times; the most is 8")


def test_a_payload_that_the_door_leaves_to_the_worker_is_not_tried_however_it_came(client):
    text = json.dumps({"ref": "main", "x": "a" * DOOR_BYTES})
    builders.event("github.push", raw=text.encode())
    builders.event("github.push", raw=b"", data_json=text)
    told = ask(client, {})["events"]
    assert [(one["outcome"], one["detail"]) for one in told] == [("could_not_evaluate", "too large to try here")] * 2
