"""Every source's page rings it once as its own sender would: signed, over the wire, through its own door."""

from collections.abc import Iterator

import pytest
from django.urls import reverse

from project import samples, signing
from tests import builders
from tests.serving import served
from triggers.models import Audit, Event, Source
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
    for kind, config in (("webhook", {}), ("schedule", {"every": 60}), ("database", {})):
        builders.source(kind, kind=kind, provider="github" if kind == "webhook" else "", config=config)
        page = sign_in(ann).get(reverse("source-edit", args=[kind])).content.decode()
        shown[kind] = "Send a test delivery" in page
    assert shown == {"webhook": True, "schedule": False, "database": False}
