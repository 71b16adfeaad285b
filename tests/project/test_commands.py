"""Commands print what they promise and refuse in one line."""

import json
import re
import socket
import time

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from project import processes, samples, signing, tour
from project.management.commands import listen
from project.people.models import ApiToken, User
from tests import builders
from triggers import dispatch
from triggers.ingest import ingest
from triggers.models import Event, Pulse, Run, Source, Trigger
from triggers.sources import webhook
from triggers.sources.details import scheme_of
from triggers.sources.places import headers_in
from triggers.sources.proof import prove
from triggers.sources.replies import Handshake
from triggers.sources.verify import catalogue, verify


def test_a_token_is_printed_once_and_stored_as_a_hash(ann, capsys):
    call_command("create_token", "ann", name="ci", scope=["read", "ingest,operate"])
    secret = capsys.readouterr().out
    assert re.fullmatch(r"nd_\S{40,}\n", secret)
    token = ApiToken.objects.get()
    assert (token.user, token.scopes) == (ann, ["read", "ingest", "operate"])
    assert secret.strip() not in (token.hash, token.hint)


def test_a_service_has_a_token_without_a_person(db, capsys):
    call_command("create_token", service="build-server", name="ci", scope=["propose"])
    assert ApiToken.objects.get().service == "build-server"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"user": "nobody"}, "no active user 'nobody'"),
        ({"user": "ann", "scope": ["fly"]}, "no scope 'fly'"),
        ({"user": "ann", "service": "x"}, "either a user or --service"),
        ({}, "either a user or --service"),
        ({"service": "x y"}, "must be a slug"),
        ({"service": "x", "scope": ["decide"]}, "never gets the scope 'decide'"),
        ({"service": "x", "scope": ["configure"]}, "never gets the scope 'configure'"),
    ],
)
def test_a_token_that_may_not_be_is_refused(ann, arguments, words):
    with pytest.raises(CommandError, match=re.escape(words)):
        call_command("create_token", name="ci", **arguments)
    assert not ApiToken.objects.exists()


def test_the_first_start_makes_the_owner_and_the_tour_once(db, settings):
    settings.OWNER_PASSWORD = ""
    password = tour.first_start(bare=False)
    owner = User.objects.get()
    assert password
    assert owner.check_password(password)
    assert owner.must_change_password
    assert {source.slug for source in Source.objects.all()} == set(tour.SOURCES)
    assert {trigger.slug for trigger in Trigger.objects.all()} == set(tour.TRIGGERS)
    assert tour.first_start(bare=False) is None


def test_a_given_password_is_neither_printed_nor_to_be_changed(db, settings):
    settings.OWNER_PASSWORD = "chosen by the operator"
    assert tour.first_start(bare=True) is None
    owner = User.objects.get()
    assert owner.check_password("chosen by the operator")
    assert not owner.must_change_password
    assert not Source.objects.exists()


def test_the_tour_is_completed_and_nothing_in_it_touched(db, settings, capsys):
    tour.first_start(bare=False)
    Source.objects.filter(slug="github").update(name="Ours")
    Trigger.objects.filter(slug="alarm").delete()
    call_command("seed_tour")
    assert capsys.readouterr().out == "added: alarm\n"
    assert Source.objects.get(slug="github").name == "Ours"


def test_samples_are_listed(capsys):
    call_command("ring", list=True)
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [*samples.SAMPLES, *samples.ENTRIES]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "github-isue"}, "there is no sample 'github-isue'; there are: github-issue, "),
        ({"name": "generic", "again": True}, "generic was not sent from here yet"),
        (
            {"url": "http://127.0.0.1:9"},
            "no desk answers at http://127.0.0.1:9/hooks/github; start it with: make up (one on another port: PORT=",
        ),
        ({"url": "not an address"}, "not an address"),
    ],
)
def test_a_ring_that_reaches_nobody_says_why(db, given, words):
    tour.first_start(bare=False)
    with pytest.raises(CommandError, match=re.escape(words)):
        call_command("ring", given.get("name", "github-issue"), **{k: v for k, v in given.items() if k != "name"})


def assert_signed_for(source, address):
    """A provider that signs our address signs the one the running desk has."""
    headers, body = samples.prepare(samples.SAMPLES["twilio"])
    sent = signing.signed(source, headers, body, samples.folder(), 0, base=samples.link_base())
    seen = {name.lower(): value for name, value in sent.headers.items()}
    verify(scheme_of(source) | {"url": address}, sent.body, seen, [builders.SECRET.encode()], now=0)


def test_a_ring_finds_the_desk_that_runs_here_on_a_port_of_its_own(db, settings):
    settings.PORT = 9
    assert samples.own_address() == "http://127.0.0.1:9"
    with socket.create_server(("127.0.0.1", 0)) as desk:
        port = desk.getsockname()[1]
        web = {"name": "web", "ready": f"tcp:127.0.0.1:{port}"}
        plan = settings.DATA_DIR / processes.PLAN
        plan.write_text(json.dumps({"children": [{"name": "valkey", "ready": "unix:/x"}, web]}))
        assert samples.own_address() == samples.link_base() == f"http://127.0.0.1:{port}"
        assert_signed_for(builders.source("twilio", provider="twilio"), f"http://127.0.0.1:{port}/hooks/twilio")
        own = builders.source("ours", provider="twilio", config={"url": "https://desk.example/in"})
        assert_signed_for(own, "https://desk.example/in")
    assert samples.own_address() == "http://127.0.0.1:9", "that desk is closed"
    assert samples.link_base() == settings.BASE_URL
    plan.unlink()


def test_a_desk_without_the_source_says_so(db):
    with pytest.raises(CommandError, match="ring NAME --make"):
        call_command("ring", "github-issue")


def test_each_delivery_has_its_own_id_and_number(db):
    first, second = (samples.SAMPLES["github-issue"].make(samples.next_number()) for _ in range(2))
    assert first[0]["X-GitHub-Delivery"] != second[0]["X-GitHub-Delivery"]
    assert first[1]["issue"]["number"] != second[1]["issue"]["number"]


def test_a_schedule_is_rung_by_hand(db, capsys):
    tour.first_start(bare=False)
    call_command("fire", "daily")
    seq = Event.objects.get(type="daily.fired").pk
    assert capsys.readouterr().out == f"E-{seq}  http://127.0.0.1:8000/events/{seq}\n"
    assert Run.objects.filter(handler="daily-report", event=seq).exists()


def test_a_schedule_that_is_none_is_refused_by_name(db):
    tour.first_start(bare=False)
    with pytest.raises(CommandError, match="no schedule 'github' is switched on; there are: daily"):
        call_command("fire", "github")


def test_tick_is_one_round_and_says_what_it_did(db, capsys):
    tour.first_start(bare=False)
    call_command("tick", once=True)
    assert Pulse.age("tick") is not None
    capsys.readouterr()
    call_command("tick", once=True)
    assert capsys.readouterr().out == "nothing to do\n"
    with pytest.raises(CommandError, match="--once"):
        call_command("tick")


def test_tick_can_work_itself_where_nothing_is_resident(db, capsys):
    tour.first_start(bare=False)
    call_command("fire", "daily")
    capsys.readouterr()
    call_command("tick", once=True, work=30)
    assert "worked on 1 run" in capsys.readouterr().out
    assert Run.objects.get().status in ("succeeded", "waiting")


def test_tick_fails_when_a_stage_could_not_do_its_work(db, capsys, monkeypatch):
    def broken():
        raise DatabaseError("database or disk is full")

    monkeypatch.setattr(dispatch, "reclaim_lost", broken)
    with pytest.raises(CommandError, match=r"not everything could be done: reclaimed: .* disk is full") as refused:
        call_command("tick", once=True)
    assert refused.value.returncode == 1


def test_a_ring_that_starts_nothing_says_so(db, capsys):
    tour.first_start(bare=False)
    Trigger.objects.all().delete()
    call_command("fire", "daily")
    assert "it started no run" in capsys.readouterr().err


def test_listen_ticks_when_nobody_else_does(db):
    listener = listen.Command()
    listener.began = time.monotonic() - 60
    assert listener.help_out(helping=False)
    assert Pulse.age("tick") < 10
    assert not listener.help_out(helping=True)


def rung(name):
    """What comes of a fresh delivery of this sample at the desk, without the wire; its source is made when it lacks."""
    sample = samples.SAMPLES[name]
    source = samples.source_for(sample, make=True)
    headers, body = samples.prepare(sample)
    sent = signing.signed(source, headers, body, samples.folder(), time.time())
    given = headers_in(
        [(key.lower().encode(), value.encode()) for key, value in sent.headers.items()], sent.query.encode()
    )
    proven = prove(source, sent.body, given, now=time.time(), came=time.time())
    return webhook.arrivals_of(source, proven.raw, given, proven=proven)


@pytest.mark.parametrize("name", [name for name, sample in samples.SAMPLES.items() if sample.source != "inbox"])
def test_every_sample_is_signed_as_its_source_demands(db, name):
    if samples.SAMPLES[name].source not in catalogue():
        tour.first_start(bare=False)
    if name == "github-ping":
        with pytest.raises(Handshake):
            rung(name)
        return
    [arrival], [second] = rung(name), rung(name)
    assert not {key for key, _ in second.keys} & {key for key, _ in arrival.keys}, "each is a new one"
    assert arrival.ce_id != second.ce_id


def test_there_is_a_sample_of_every_provider_and_kind():
    rung = {sample.source for sample in samples.SAMPLES.values()} | {kind for kind, _, _ in samples.ENTRIES.values()}
    assert rung >= {*catalogue(), "custom"} - {"cloudevents"}
    assert {*Source.LISTENED, "schedule"} - {"file"} <= rung
    tours = {tour.SOURCES[slug]["kind"] for slug in rung if slug in tour.SOURCES}
    assert {"cloudevents", "file"} <= tours


def test_only_the_provider_signs_for_a_source_that_trusts_its_key(db):
    """Discord's public key is all the desk has; the one to try it with is told."""
    builders.source(
        "discord", provider="discord", secrets=("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8",)
    )
    with pytest.raises(CommandError, match="it trusts the provider's own key"):
        call_command("ring", "discord", url="http://127.0.0.1:9")
    with pytest.raises(CommandError, match="ring NAME --make"):
        call_command("ring", "zoom", url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("name", "handlers"),
    [
        ("github-push", {"review-push"}),
        ("shopify-order", {"order-created"}),
        ("grafana", {"diagnose-alert"}),
        ("alertmanager", {"diagnose-alert"}),
    ],
)
def test_a_sample_wakes_the_handler_it_names(db, name, handlers):
    tour.first_start(bare=False)
    sample = samples.SAMPLES[name]
    source = Source.objects.get(slug=sample.source)
    headers, body = samples.prepare(sample)
    ingest(webhook.arrivals_of(source, body, {key.lower(): value for key, value in headers.items()}))
    assert set(Run.objects.values_list("handler", flat=True)) == handlers


def test_an_upload_needs_somebody_who_watches(db, settings):
    tour.first_start(bare=False)
    with pytest.raises(CommandError, match=r"nobody watches .*inbox right now; start the desk with: make up"):
        call_command("ring", "upload")
    with pytest.raises(CommandError, match="a folder of this machine"):
        call_command("ring", "upload", url="http://127.0.0.1:9")


def test_an_inbox_that_may_not_be_watched_is_seeded_switched_off(db, settings):
    settings.FILE_ROOTS = ["/srv/uploads"]
    tour.first_start(bare=False)
    assert not Source.objects.get(slug="inbox").enabled
