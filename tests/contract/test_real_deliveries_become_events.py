"""What providers really send, by their documentation and their own libraries, is taken in over a real server as it is.

`tests/data/deliveries` holds the bodies (see NOTICE.md there); each is signed here, with the time of now."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from project import samples, signing
from tests import builders
from tests.serving import Served, served
from triggers.models import Event, Source
from triggers.sources import inside
from triggers.sources.verify import catalogue

pytestmark = pytest.mark.django_db(transaction=True)
FILES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "data" / "deliveries").glob("*.json"))}
ROBOT = "the secret of a robot"  # DingTalk's call-backs are encrypted, its robots sign the time


@pytest.fixture(scope="module")
def live() -> Iterator[Served]:
    with served() as one:
        yield one


def source(provider: str) -> Source:
    secret, config = signing.made_secret(provider, samples.folder())
    kind = provider if provider in Source.CHATS else "webhook"
    secrets = (ROBOT if provider == "dingtalk" else secret,)
    return builders.source("it", kind=kind, provider=provider, secrets=secrets, config=config, rate_limit=None)


def body_of(provider: str, record: dict[str, Any], now: float) -> bytes:
    """The bytes; where the time stands in the body, it is that of now, as the provider would write it."""
    if "text" in record:
        return str(record["text"]).encode()
    if provider == "linear":
        record["body"]["webhookTimestamp"] = int(now * 1000)
    if provider == "mailgun":
        record["body"]["signature"]["timestamp"] = str(int(now))
    return json.dumps(record["body"], ensure_ascii=False).encode()


@pytest.mark.parametrize("provider", FILES)
def test_each_delivery_is_the_event_its_sender_means(provider: str, live: Served) -> None:
    for record in json.loads(FILES[provider].read_text()):
        row, now = source(provider), time.time()
        raw = body_of(provider, record, now)
        sent = signing.signed(row, record["headers"], raw, samples.folder(), now)
        [answer] = live.deliver({"slug": "it", "body": sent.body, "headers": sent.headers, "query": sent.query})
        assert answer.status in (200, 202, 204), (record["type"], answer.body)
        event = Event.objects.get()
        assert event.type == record["type"]
        assert not record["id"] or event.ce_id == record["id"]
        if "body" in record:
            assert event.data == read(provider, raw, sent.body)
        event.delete()  # some examples share an id: each is the first here
        row.delete()


def read(provider: str, raw: bytes, sent: bytes) -> Any:
    """What a reader of the body has; Feishu's is sealed. The tokens inside are for nobody."""
    value = json.loads(raw if provider == "feishu" else sent)
    if provider == "feishu":
        value["header"]["token"] = "a token"
    inside.hide_in(catalogue()[provider].inside_of(value), value)
    return value[0] if isinstance(value, list) else value
