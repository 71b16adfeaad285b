"""Every source's page rings it once as its own sender would: signed, over the wire, through its own door."""

import base64
import json
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator

import pytest
from django.urls import reverse

from project import sample_entries, samples, signing
from tests import builders
from tests.listening import listener, turns
from tests.serving import served
from triggers.models import Audit, Event, Refusal, Source
from triggers.sources.custom import custom_scheme
from triggers.sources.recipe import recipe_of
from triggers.sources.verify import catalogue

DESCRIBED = {
    "hmac": {"header": "X-Mark", "template": "{h:X-Time}.{body}", "timestamp": "{h:X-Time}", "tolerance": 300},
    "pairs": {
        **{"header": "X-Mark", "template": "{sig.t}.{body}", "timestamp": "{sig.t}", "prefix": "v1="},
        "tolerance": 300,
    },
    "hash": {"header": "X-Mark", "template": "{secret}{body}", "algorithm": "sha256", "encoding": "base64"},
    "token": {"header": "X-Key", "algorithm": "token"},
}


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served() as one:
        yield one.port


@pytest.fixture
def ring(db, ann, sign_in, port, settings):
    """Press the button of this source's page, and read what the page then says."""
    settings.PORT = port
    settings.EGRESS_ALLOW = ["127.0.0.1/32"]
    return lambda source: sign_in(ann).post(reverse("source-test", args=[source.slug]), follow=True).content.decode()


def of(provider: str) -> Source:
    """An open source of this provider with a secret that this machine can sign for."""
    secret, config = signing.made_secret(provider, samples.folder())
    kind = provider if provider in {*Source.CHATS, "cloudevents"} else "webhook"
    secrets = () if provider == "none" else (secret,)
    return builders.source("it", kind=kind, provider=provider, secrets=secrets, config=config)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("provider", sorted(catalogue()))
def test_a_source_of_every_provider_takes_its_test_delivery(provider, ring, ann):
    source = of(provider)
    page = ring(source)
    [event] = Event.objects.filter(source=source)
    assert f'Delivered and accepted as <a href="/events/{event.pk}">E-{event.pk}</a>' in page
    row = Audit.objects.get(verb="send test")
    assert (row.by, row.ref, row.detail) == (ann, "it", {"event": event.pk})


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", DESCRIBED)
def test_a_scheme_of_ones_own_is_tried_before_its_sender_is(way, ring):
    ring(builders.source("ours", provider="custom", config=DESCRIBED[way]))
    assert Event.objects.get().source_slug == "ours"


def test_what_cannot_be_sent_is_said(ring):
    assert "it has no secret yet; give it one first" in ring(builders.source("github", secrets=()))
    assert "it trusts the provider&#x27;s own key" in ring(
        builders.source("d", provider="discord", secrets=("0a" * 32,))
    )
    inbox = builders.source("inbox", kind="file", provider="", secrets=(), config={"path": "/nowhere"})
    assert "nobody watches /nowhere right now" in ring(inbox)
    stream = {"url": "redis://127.0.0.1:1/0", "stream": "orders"}
    assert "test delivery did not arrive" in ring(builders.source("s", kind="redis_stream", provider="", config=stream))
    assert not Audit.objects.filter(verb="send test").exists()


@pytest.mark.django_db(transaction=True)
def test_the_key_of_this_machine_may_stand_beside_that_of_the_provider(ring):
    ours, _ = signing.made_secret("discord", samples.folder())
    ring(builders.source("d", provider="discord", secrets=("0a" * 32, ours)))
    assert Event.objects.exists()


def test_the_button_stands_where_something_can_be_sent(ann, sign_in):
    shown = {}
    outbox = {"url": "sqlite:////srv/shop.sqlite3", "table": "outbox", "mode": "outbox", "data_column": "payload"}
    several = {"webhook": {}, "schedule": {"every": 60}, "database": {}, "outbox": outbox}
    for slug, config in several.items():
        kind = "database" if slug == "outbox" else slug
        builders.source(slug, kind=kind, provider="github" if kind == "webhook" else "", config=config)
        page = sign_in(ann).get(reverse("source-edit", args=[slug])).content.decode()
        shown[slug] = "Send a test delivery" in page
    assert shown == {"webhook": True, "schedule": False, "database": False, "outbox": True}


@pytest.fixture
def at_home(db, port, settings):
    """`manage.py ring` on the machine of this desk."""
    settings.PORT = port


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "name", [name for name, sample in samples.SAMPLES.items() if "replies" in catalogue().get(sample.source, {})]
)
def test_the_same_delivery_again_is_called_a_duplicate_whatever_its_sender_hears(name, at_home):
    """Their own answers say nothing of the event it became."""
    first = samples.send(name, make=True)
    again = samples.send(name, again=True)
    assert (first.status, again.status) == ("accepted", "duplicate")
    assert (again.seq, again.link) == (first.seq, first.link)
    assert Event.objects.count() == 1
    other = samples.send(name)
    assert (other.status, other.seq) == ("accepted", Event.objects.latest("pk").pk)


@pytest.mark.django_db(transaction=True)
def test_nothing_of_this_desk_is_told_as_the_number_of_another(at_home, port, settings):
    samples.send("slack", make=True)
    settings.PORT = 9  # so that the address below is not this desk's own
    sent = samples.send("slack", f"http://127.0.0.1:{port}")
    assert (sent.status, sent.seq) == ("answered in its provider's words", None)


@pytest.mark.django_db(transaction=True)
def test_an_app_of_feishu_without_a_key_is_rung_by_its_token(at_home):
    builders.source("feishu", kind="feishu", provider="feishu", secrets=("verifytoken1:",))
    assert samples.send("feishu").status == "accepted"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("provider", ["custom", "none"])
def test_what_has_no_name_of_its_own_goes_to_the_first_source_of_its_kind(provider, at_home):
    with pytest.raises(samples.NotSent, match=f"no source '{provider}'; to make one"):
        samples.send(provider)
    config = (
        {"header": "X-Mark", "delivery_id": "{h:X-Id}", "template": "{h:X-Id}.{body}"} if provider == "custom" else {}
    )
    builders.source("ours", provider=provider, config=config, types=["**"])
    assert samples.send(provider).status == "accepted"
    assert samples.send(provider, make=True).status == "accepted"
    assert list(Event.objects.order_by("pk").values_list("source_slug", flat=True)) == ["ours", provider]


@pytest.mark.django_db(transaction=True)
def test_a_schedule_is_rung_once(at_home):
    with pytest.raises(samples.NotSent, match="no open source of kind schedule"):
        samples.send("schedule")
    row = builders.source("daily", kind="schedule", provider="", config={"cron": "0 8 * * *"}, secrets=())
    sent = samples.send("schedule")
    assert Event.objects.get(pk=sent.seq).type == "daily.fired"
    row.refresh_from_db()
    assert row.fires == 0, "its slots stay"


@pytest.mark.django_db(transaction=True)
def test_an_outbox_gets_a_row_and_another_table_is_left_alone(at_home, tmp_path, settings):
    settings.FILE_ROOTS = [str(tmp_path)]
    place = tmp_path / "shop.sqlite3"
    with sqlite3.connect(place, isolation_level=None) as far:
        far.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, payload TEXT)")
        far.execute("CREATE TABLE strict (id TEXT NOT NULL PRIMARY KEY, payload TEXT)")
    there = {"url": f"sqlite:///{place}"}
    lines = builders.source("lines", kind="database", provider="", config={**there, "table": "outbox", "cursor": "id"})
    with pytest.raises(samples.NotSent, match="only its owner knows: insert or change a row there"):
        samples.send("outbox-order")
    into = {"mode": "outbox", "type_column": "topic", "data_column": "payload"}
    shop = builders.source(
        "shop", kind="database", provider="", config={**there, "table": "outbox", **into}, secrets=()
    )
    sample_entries.write_into(shop, 7)
    turns(listener(shop))
    event = Event.objects.get()
    assert (event.source_slug, event.type, event.data["id"]) == ("shop", "shop.order.created", 7)
    lines.change(by=None, config={**there, "table": "strict", "mode": "outbox", "data_column": "payload"})
    with pytest.raises(sample_entries.NotWritten, match="NOT NULL"):
        sample_entries.write_into(lines, 8)


RECIPES = {"discord", "sendgrid", "aws_sns", "feishu", "dingtalk", "wecom", "mailgun", "twilio"}  # no shell signs those
NEEDED = [name for name in ("bash", "curl", "openssl") if shutil.which(name) is None]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "name", [*sorted(catalogue()), *DESCRIBED, "described", "one in the other", "quoted", "gitlab, signed"]
)
@pytest.mark.skipif(bool(NEEDED), reason=f"a shell without {', '.join(NEEDED)}")
def test_the_lines_shown_for_a_shell_are_taken_by_the_door(name, port, settings, ann, sign_in):
    """Typed as they stand, with the secret pasted; twice in two seconds they are two events."""
    settings.BASE_URL = f"http://127.0.0.1:{port}"
    own = {**DESCRIBED["hmac"], "delivery_id": "{h:X-Id}", "event_type": "{json:what.kind}", "prefix": "a$b`c="}
    apart = {"header": "X-S", "event_type": "{json:event}", "delivery_id": "{json:event.id}"}
    quoted = {"header": "X-S", "prefix": "it's!", "event_type": "{json:it's $(false).`!\"}"}
    config = {**DESCRIBED, "described": own, "one in the other": apart, "quoted": quoted}.get(name)
    if name == "gitlab, signed":
        source = builders.source("it", provider="gitlab", secrets=("whsec_" + base64.b64encode(b"1" * 32).decode(),))
    elif config is None:
        source = of(name)
    else:
        source = builders.source("it", provider="custom", config=config, secrets=("s ecret$1",))
    page = sign_in(ann).get(reverse("source-edit", args=["it"]))
    recipe = page.context["recipe"]
    assert (recipe == "") == (name in RECIPES)
    if not recipe:
        assert "A shell cannot sign as this sender does" in page.text
        return
    secret = source.secrets[0]["value"] if source.secrets else ""
    lines = recipe.replace("'paste the secret here'", f"'{secret}'")
    for pause in (0, 1.01):
        time.sleep(pause)
        subprocess.run(["bash", "-c", lines], capture_output=True, text=True, timeout=60, check=True)
    assert Event.objects.count() == 2, (recipe, list(Refusal.objects.values_list("reason", "detail")))
    assert '"hello": "world"' in json.dumps(Event.objects.latest("pk").data)


def test_the_word_of_the_lines_makes_room_for_what_the_scheme_says():
    scheme = custom_scheme({"header": "X-S", "event_type": "{json:hello.type}", "delivery_id": "{json:hello.no.id}"})
    assert """BODY='{"hello":{"type":"hello","no":{"id":"'$NOW'"}},"tried":"'$NOW'"}'""" in recipe_of(
        scheme, "/", "custom"
    )
