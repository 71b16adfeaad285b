"""Some providers put a credential into the body itself: with it whoever reads an event could ring as its sender, or
silence it. It is nowhere in clear, and what was refused can still be checked again byte for byte."""

import gzip
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote_plus, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from project import samples, signing
from project.lib import clock, crypto
from tests import builders, signers
from tests.deliveries import deliver
from tests.dump import everything
from triggers import refusals, retention, upkeep
from triggers.errors import NotValid
from triggers.models import Event, Refusal, Source
from triggers.sources import inside
from triggers.sources.places import at
from triggers.sources.verify import catalogue

pytestmark = pytest.mark.django_db(transaction=True)
MARK = "KEEPTHIS/ToYourself+0123"  # with signs that JSON and forms spell in several ways
PLAIN = "keepthistoyourself0123"
FORM = "application/x-www-form-urlencoded"
MESSAGE = {"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention", "text": "hello", "ts": "1.0"}}
PRESS = {"type": "block_actions", "action_ts": "1.1", "actions": [{"value": "hello"}], "user": {"id": "U1"}}
TOPIC_URL = f"https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn={PLAIN}"


@dataclass(frozen=True)
class Case:
    """A delivery that holds `mark` at `path`; `secret` where the signature of its body needs another than ours."""

    provider: str
    path: str
    body: bytes
    kind: str = "application/json"
    mark: str = PLAIN
    secret: str = ""
    packed: bool = False


def feishu(key: str, **more: Any) -> Case:
    told = {"schema": "2.0", "header": {"event_id": "e1", "event_type": "im.message.receive_v1", "token": PLAIN}}
    body = json.dumps(told | {"event": {"message": {"message_id": "m1", "content": "hello"}}}).encode()
    return Case("feishu", "header.token", body, secret=f"{PLAIN}:{key}", **more)


def slack(body: str, *, mark: str = MARK, **more: Any) -> Case:
    return Case("slack", "token", body.encode(), mark=mark, **more)


CASES = {
    "feishu, encrypted": feishu("an encrypt key"),
    "feishu, in clear": feishu(""),
    "slack, an event": slack(json.dumps(MESSAGE | {"token": MARK})),
    "slack, as PHP writes it": slack(json.dumps(MESSAGE | {"token": MARK}, indent=1).replace("/", r"\/")),
    "slack, spelt oddly": slack(json.dumps(MESSAGE).replace("{", '{"token": "' + r"\u004b" + MARK[1:] + '", ', 1)),
    "slack, packed": slack(json.dumps(MESSAGE | {"token": MARK}), packed=True),
    "slack, a command": slack(
        urlencode({"token": MARK, "command": "/ask", "text": "hello", "trigger_id": "7"}), kind=FORM
    ),
    "slack, a press": slack(urlencode({"payload": json.dumps(PRESS | {"token": MARK})}), kind=FORM),
    "amazon, an address": Case(
        "aws_sns",
        "UnsubscribeURL",
        json.dumps(
            {"Type": "Notification", "MessageId": "m1", "Message": "hello", "UnsubscribeURL": TOPIC_URL}
            | {"Timestamp": "2026-01-01T00:00:00.000Z"}
        ).encode(),
    ),
}


ELSEWHERE = {"mailgun", "azure_eventgrid"}  # a bare signature, and the address of a greeting: asked for below


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def source_of(case: Case, *secrets: str) -> Source:
    secret, config = signing.made_secret(case.provider, samples.folder())
    return builders.source("it", provider=case.provider, config=config, secrets=secrets or (case.secret or secret,))


def sent(case: Case, source: Source) -> dict[str, Any]:
    """Signed as its provider would, with the time of now."""
    body = case.body
    if case.provider == "aws_sns":
        moment = clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        body = re.sub(rb"2026-01-01T[0-9:.]+Z", moment.encode(), body)
    made = signing.signed(source, {"Content-Type": case.kind}, body, samples.folder(), time.time())
    if case.secret.endswith(":"):  # without an encrypt key nothing is signed
        made = replace(made, headers={"Content-Type": case.kind}, body=body)
    if case.packed:
        made = replace(made, headers=made.headers | {"Content-Encoding": "gzip"}, body=gzip.compress(made.body))
    return {"slug": "it", "body": made.body, "headers": made.headers, "query": made.query}


def is_kept(mark: str) -> bool:
    """Whether it stands in any row, in whatever spelling; packed bytes are unpacked."""
    rows = everything()
    bodies = [bytes(row[name]) for row in rows["triggers.Event"] for name in ("raw",) if row[name]]
    bodies += [bytes(row["body"]) for row in rows["triggers.Refusal"] if row["body"]]
    plain = [gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body for body in bodies]
    text = repr(rows) + repr(plain)
    spelt = {mark, mark.replace("/", r"\/"), quote_plus(mark), mark.replace("/", r"\\/"), mark[1:]}
    return any(one in text for one in spelt)


def test_nobody_reads_it_in_an_event_or_its_repeat(case: Case) -> None:
    source = source_of(case)
    one = sent(case, source)
    assert [answer.status < 300 for answer in deliver(one)] == [True]
    deliver(one)
    event = Event.objects.get()
    assert (at(event.data, case.path), event.duplicates) == (inside.HIDDEN, 1)
    assert "hello" in json.dumps(event.data)
    assert Refusal.objects.get().reason in ("duplicate", "same_body")
    assert not is_kept(case.mark)


def test_what_was_refused_is_checked_again_as_it_came(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    right = source_of(case)
    one, secrets = sent(case, right), right.secrets
    wrong = "arn:aws:sns:eu-west-1:1:other" if case.provider == "aws_sns" else "another:secret than theirs"
    Source.objects.filter(pk=right.pk).update(sealed_secrets=crypto.seal([{"value": wrong}]))
    builders.ConfigVersion.bump()
    assert [answer.status for answer in deliver(one)] == [401]
    refusal = Refusal.objects.get()
    assert not is_kept(case.mark)
    upkeep.add_secret(right, secrets[0]["value"], by=None, keep_old=False, old_until=None)
    refusals.admit(Refusal.objects.select_related("source").get(pk=refusal.pk), by=None)
    assert at(Event.objects.get().data, case.path) == inside.HIDDEN
    assert not is_kept(case.mark)


BARE: dict[str, Callable[[str, float], signers.Request]] = {
    **{name: signer.sign for name, signer in signers.SIGNERS.items() if not signer.covers},
    "dingtalk": signers.dingtalk_robot,
}


def proof_in(request: signers.Request) -> str:
    """The signature, or the token as it is pasted."""
    if request.mark.startswith("json:"):
        return str(json.loads(request.body)["signature"][request.mark.removeprefix("json:")])
    place = request.query if request.mark.startswith("?") else request.headers
    return place[request.mark.removeprefix("?")].removeprefix("Bearer ")


@pytest.mark.parametrize("provider", BARE)
def test_with_what_proves_a_sender_alone_no_reader_sends_another_body(provider: str) -> None:
    kind = provider if provider in Source.CHATS else "webhook"
    source = builders.source("it", kind=kind, provider=provider, secrets=(signers.SECRET,))
    made = BARE[provider](signers.SECRET, clock.now().timestamp())
    one = {"slug": "it", "headers": made.headers, "body": made.body, "query": urlencode(made.query)}
    assert [answer.status < 300 for answer in deliver(one) + deliver(one)] == [True, True]
    Source.objects.filter(pk=source.pk).update(sealed_secrets=crypto.seal([{"value": signers.OTHER}]))
    builders.ConfigVersion.bump()
    assert [answer.status for answer in deliver(one)] == [401]
    assert (Event.objects.count(), Refusal.objects.count(), is_kept(proof_in(made))) == (1, 2, False)
    Source.objects.filter(pk=source.pk).update(sealed_secrets=source.sealed_secrets)
    refusal = Refusal.objects.select_related("source").get(reason="bad_signature")
    assert [outcome.status for outcome in refusals.admit(refusal, by=None)] == ["duplicate"]
    assert not is_kept(proof_in(made))


@pytest.mark.parametrize(
    ("provider", "key"),
    [("slack", "event.data.token"), ("gitlab", "headers['x-gitlab-token'] + event.data.at")],
    ids=str,
)
def test_a_key_of_the_source_may_rest_on_one_and_does_not_keep_it(provider: str, key: str) -> None:
    def one(number: int) -> dict[str, Any]:
        told = {"object_kind": "push", "at": str(number), "token": f"{PLAIN}{number}", "type": "event_callback"}
        if provider == "slack":
            return sent(Case("slack", "token", json.dumps(told).encode()), source)
        names = {"X-Gitlab-Token": PLAIN, "X-Gitlab-Event": "Push Hook", "Content-Type": "application/json"}
        return {"slug": "it", "body": json.dumps(told | {"token": ""}).encode(), "headers": names}

    source = builders.source("it", provider=provider, secrets=(PLAIN,), idempotency_key=key)
    for number in (1, 2, 2):
        deliver(one(number))
    assert [event.duplicates for event in Event.objects.order_by("pk")] == [0, 1]
    assert not is_kept(PLAIN)


@pytest.mark.parametrize(
    ("provider", "name", "told"),
    [
        ("aws_sns", "SubscribeURL", {"Type": "SubscriptionConfirmation", "Token": "t"}),
        ("azure_eventgrid", "validationUrl", None),
    ],
)
def test_the_address_by_which_a_subscription_is_confirmed_is_not_listed(
    provider: str, name: str, told: dict[str, Any] | None
) -> None:
    """Whoever reads what was refused would confirm it by a click."""
    address = f"https://far.example.org/{PLAIN}"
    body = {**told, name: address} if told else [{"id": "1", "eventType": "E", "data": {name: address}}]
    builders.source("it", provider=provider, secrets=("arn:aws:sns:eu-west-1:1:other",))
    (answer,) = deliver({"slug": "it", "body": json.dumps(body).encode(), "headers": {}})
    assert (answer.status, is_kept(PLAIN)) == (401, False)
    assert Refusal.objects.get().body


def test_after_a_day_it_is_said_that_nothing_can_be_checked_any_more(later: Any) -> None:
    case = CASES["slack, an event"]
    source = source_of(case, "a secret of ours that is wrong")
    deliver(sent(case, replace_secret(source, "the right secret of theirs")))
    later(days=1, minutes=1)
    retention.empty_credentials(clock.now())
    with pytest.raises(NotValid, match="kept for a day only"):
        refusals.admit(Refusal.objects.get(), by=None)


def replace_secret(source: Source, value: str) -> Source:
    """The same source as its sender sees it."""
    return Source(
        **{"slug": source.slug, "kind": source.kind, "provider": source.provider, "config": source.config},
        sealed_secrets=crypto.seal([{"value": value}]),
    )


def test_every_provider_with_one_is_asked_for() -> None:
    assert {name for name, scheme in catalogue().items() if scheme.inside} == {
        *ELSEWHERE,
        *(case.provider for case in CASES.values()),
    }


ODD = st.text('ab"\\/\u00e9\u2028[]', max_size=8)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.sampled_from(["token", "a", "b"]), ODD | st.integers(), max_size=3),
    st.booleans(),
    st.sampled_from(["", " ", "\n\t"]),
)
def test_what_is_taken_out_is_put_back(told: dict[str, Any], plain: bool, space: str) -> None:
    body = json.dumps(told, ensure_ascii=plain, separators=(f",{space}", f":{space}")).encode("utf-8", "surrogatepass")
    data = json.loads(body)
    found = inside.found_in(("token",), data)
    inside.hide_in(("token",), data)
    kept, taken = inside.without(found, body, data)
    assert inside.put_back(kept, taken) == body
    assert at(json.loads(kept.decode("utf-8", "surrogatepass")), "token") in (None, "", inside.HIDDEN) or not found
