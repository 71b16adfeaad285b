"""What chats, Stripe and a merge take, and what each of their answers means."""

import base64
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest
from django.test import override_settings

from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.kinds import KINDS, Far
from tests.github import FakeGitHub
from tests.recorder import Recorder
from tests.stripe import FakeStripe

KEY = "once"
PATIENT = timedelta(seconds=20)


@pytest.fixture
def far() -> Iterator[Recorder]:
    with Recorder() as recorder, override_settings(EGRESS_ALLOW=["127.0.0.1"]):
        yield recorder


def call(name: str, arguments: dict, config: dict, secrets: dict) -> dict:
    kind = KINDS[name]
    return kind.deliver(Far("far", config, secrets, PATIENT), kind.read(arguments), KEY)


def post(system: str, far: Recorder, text: str = "It is night.", **secrets: str) -> dict:
    return call(f"{system}.post", {"text": text}, {}, {"webhook_url": f"{far.url}/hook/SECRET-123", **secrets})


def by_token(far: Recorder, text: str = "It is night.") -> dict:
    return call("slack.post", {"text": text}, {"api_url": far.url, "channel": "C1"}, {"token": "SECRET-123"})


class TestSlack:
    def test_a_bot_posts_into_the_channel_of_the_connection(self, far):
        far.next((200, {}, {"ok": True, "channel": "C1", "ts": "1.2"}))
        assert by_token(far) == {"channel": "C1", "ts": "1.2"}
        sent = far.seen[0]
        assert (sent.path, sent.headers["authorization"]) == ("/chat.postMessage", "Bearer SECRET-123")
        assert (sent.json["channel"], sent.json["unfurl_links"], sent.json["unfurl_media"]) == ("C1", False, False)

    @pytest.mark.parametrize("way", [by_token, lambda far, text: post("slack", far, text)])
    def test_a_text_calls_nobody_and_hides_no_address(self, far, way):
        far.next((200, {}, {"ok": True}))
        with suppress(Refused):  # a webhook wants `ok`; what was sent is what counts
            way(far, "<!channel> <https://evil.example|your bank> & more")
        assert far.seen[0].json["text"] == "&lt;!channel&gt; &lt;https://evil.example|your bank&gt; &amp; more"

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            ({"ok": False, "error": "channel_not_found"}, Refused),
            ({"ok": False, "error": "ratelimited"}, NotSent),
            ({"ok": False, "error": "fatal_error"}, OutcomeUnknown),
            ({"ok": "true"}, Refused),
            ({}, Refused),
            ([], OutcomeUnknown),
            (b"<html>", OutcomeUnknown),
        ],
    )
    def test_a_good_status_is_no_yes(self, far, answer, error):
        far.next((200, {}, answer))
        with pytest.raises(error) as refusal:
            by_token(far)
        assert "SECRET" not in str(refusal.value)

    def test_a_webhook_says_ok_or_it_was_none(self, far):
        far.next((200, {}, b"ok"), (200, {}, b"no_service"))
        assert post("slack", far) == {}
        with pytest.raises(Refused, match="no_service"):
            post("slack", far)

    @pytest.mark.parametrize(("config", "secrets"), [({}, {}), ({}, {"token": "SECRET-123"})])
    def test_a_connection_without_channel_or_webhook_says_so(self, config, secrets):
        with pytest.raises(Refused):
            call("slack.post", {"text": "x"}, config, secrets)


class TestFeishuAndWecom:
    @pytest.mark.parametrize(
        ("system", "good"), [("feishu", {"code": 0, "msg": "success"}), ("wecom", {"errcode": 0, "errmsg": "ok"})]
    )
    def test_zero_is_yes(self, far, system, good):
        far.next((200, {}, good))
        assert set(post(system, far).values()) == {0}

    @pytest.mark.parametrize(
        ("system", "answer", "error"),
        [
            ("feishu", {"code": 19024, "msg": "Key Words Not Found"}, Refused),
            ("feishu", {"code": 11232, "msg": "too many"}, NotSent),
            ("feishu", {"StatusCode": 0}, OutcomeUnknown),
            ("wecom", {"errcode": 93000, "errmsg": "invalid webhook url"}, Refused),
            ("wecom", {"errcode": 45009, "errmsg": "api freq out of limit"}, NotSent),
            ("wecom", {"errcode": -1, "errmsg": "system busy"}, OutcomeUnknown),
            ("wecom", {"errcode": True}, OutcomeUnknown),
        ],
    )
    def test_any_other_number_is_a_no(self, far, system, answer, error):
        far.next((200, {}, answer))
        with pytest.raises(error) as refusal:
            post(system, far)
        assert "SECRET" not in str(refusal.value)
        if error is NotSent:
            assert refusal.value.retry_after == timedelta(seconds=60)

    def test_feishu_is_signed_when_the_bot_wants_it(self, far):
        far.next((200, {}, {"code": 0}))
        post("feishu", far, secret="s3cret")
        sent = far.seen[0].json
        mark = hmac.new(f"{sent['timestamp']}\ns3cret".encode(), b"", hashlib.sha256).digest()
        assert sent["sign"] == base64.b64encode(mark).decode()

    @pytest.mark.parametrize(
        ("system", "text"),
        [
            ("feishu", '<at user_id="all">'),
            ("feishu", '<at\tuser_id="all">'),
            ("feishu", '<at\nuser_id="all">'),
            ("feishu", '< AT user_id="all">'),
            ("feishu", "夜" * 6001),
            ("wecom", "夜" * 683),
            ("wecom", ""),
        ],
    )
    def test_what_they_would_cut_or_call_out_is_refused_before(self, system, text):
        with pytest.raises(NotValid):
            KINDS[f"{system}.post"].read({"text": text})

    @pytest.mark.parametrize("system", ["slack", "feishu", "wecom"])
    def test_the_channel_is_never_an_argument(self, system):
        with pytest.raises(NotValid):
            KINDS[f"{system}.post"].read({"text": "x", "channel": "C2"})


REFUND = {"payment": "ch_1", "amount": 4820, "currency": "eur"}


class TestRefund:
    @pytest.fixture
    def bank(self) -> FakeStripe:
        return FakeStripe()

    @pytest.fixture
    def stripe(self, bank) -> Iterator[Recorder]:
        with Recorder(bank.answer) as recorder, override_settings(EGRESS_ALLOW=["127.0.0.1"]):
            yield recorder

    def refund(self, stripe: Recorder, **changed) -> dict:
        return call("stripe.refund", {**REFUND, **changed}, {"api_url": stripe.url}, {"key": "SECRET-123"})

    def test_the_amount_is_an_integer_and_the_key_goes_with_it(self, stripe, bank):
        assert self.refund(stripe) == {"id": "re_1", "amount": 4820, "currency": "eur", "status": "succeeded"}
        sent = stripe.calls("POST")[0]
        assert sent.headers["idempotency-key"] == KEY
        assert bank.refunds[0]["form"] == {"charge": "ch_1", "amount": "4820", "metadata[nightdesk_key]": KEY}

    def test_an_intent_is_named_as_one(self, stripe, bank):
        self.refund(stripe, payment="pi_1", reason="duplicate")
        assert (bank.refunds[0]["form"]["payment_intent"], bank.refunds[0]["form"]["reason"]) == ("pi_1", "duplicate")

    def test_a_good_status_without_an_object_leaves_open_whether_it_was_refunded(self, stripe, bank):
        stripe.next(None, (200, {}, ["as if"]))
        with pytest.raises(OutcomeUnknown):
            self.refund(stripe)

    def test_another_currency_than_the_payment_s_is_refused(self, stripe, bank):
        bank.currency = "usd"
        with pytest.raises(Refused, match="usd"):
            self.refund(stripe)
        assert bank.refunds == []

    def test_the_probe_finds_it_by_its_key_on_any_page(self, stripe, bank):
        bank.page = 2
        kind, far = KINDS["stripe.refund"], Far("bank", {"api_url": stripe.url}, {"key": "SECRET-123"}, PATIENT)
        for number in range(5):
            kind.deliver(far, kind.read({**REFUND, "amount": number + 1}), f"k{number}")
        assert kind.probe is not None
        assert kind.probe(far, kind.read(REFUND), ["k0"])["id"] == "re_1"
        assert kind.probe(far, kind.read(REFUND), ["other"]) is None

    def test_a_refusal_names_no_customer(self, stripe):
        with pytest.raises(Refused, match="resource_missing") as refusal:
            self.refund(stripe, payment="ch_2")
        assert "secret@" not in str(refusal.value)

    def test_a_key_that_is_too_long_goes_by_its_hash(self, stripe):
        kind = KINDS["stripe.refund"]
        far = Far("bank", {"api_url": stripe.url}, {"key": "SECRET-123"}, PATIENT)
        kind.deliver(far, kind.read(REFUND), "夜" * 100)
        assert len(stripe.calls("POST")[0].headers["idempotency-key"]) <= 255

    @pytest.mark.parametrize(
        ("amount", "currency", "words"),
        [
            (4820, "eur", "48.20 EUR"),
            (5, "usd", "0.05 USD"),
            (4820, "jpy", "4,820 JPY"),
            (4820, "kwd", "4.820 KWD"),
            (1234567, "eur", "12,345.67 EUR"),
        ],
    )
    def test_the_title_says_the_amount_as_people_read_it(self, amount, currency, words):
        kind = KINDS["stripe.refund"]
        typed = kind.read({**REFUND, "amount": amount, "currency": currency})
        assert kind.headline(typed) == f"Refund {words} of ch_1"

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            *(("amount", value) for value in (48.2, "4820", 0, -1, True)),
            *(("currency", value) for value in ("EUR", "euro", "")),
            *(("payment", value) for value in ("re_1", "ch_1/../x", "")),
        ],
    )
    def test_what_could_be_another_sum_is_refused(self, name, value):
        with pytest.raises(NotValid):
            KINDS["stripe.refund"].read({**REFUND, name: value})


MERGE = {"repo": "acme/shop", "number": 7, "sha": "a" * 40}


class TestMerge:
    @pytest.fixture
    def hub(self) -> FakeGitHub:
        return FakeGitHub()

    @pytest.fixture
    def github(self, hub) -> Iterator[Recorder]:
        with Recorder(hub.answer) as recorder, override_settings(EGRESS_ALLOW=["127.0.0.1"]):
            yield recorder

    def merge(self, github: Recorder, **changed) -> dict:
        return call("github.merge", {**MERGE, **changed}, {"api_url": github.url}, {"token": "SECRET-123"})

    def test_merges_the_head_that_was_looked_at(self, github, hub):
        assert self.merge(github, method="squash")["sha"] == "m1"
        assert github.calls("PUT")[0].json == {"sha": "a" * 40, "merge_method": "squash"}

    def test_a_head_that_has_moved_is_refused_for_good(self, github, hub):
        hub.head = "b" * 40
        with pytest.raises(Refused, match="Head branch was modified"):
            self.merge(github)
        assert hub.merges == []

    def test_what_is_merged_already_is_the_same_effect(self, github, hub):
        assert self.merge(github)["sha"] == self.merge(github)["sha"] == "m1"
        assert len(hub.merges) == 1

    def test_the_merge_of_another_head_is_not_ours(self, github, hub):
        hub.merges, hub.head = ["b" * 40], "b" * 40
        kind = KINDS["github.merge"]
        assert kind.probe is not None
        assert kind.probe(Far("hub", {"api_url": github.url}, {}, PATIENT), kind.read(MERGE), [KEY]) is None

    @pytest.mark.parametrize("wrong", [{"sha": "main"}, {"sha": "A" * 40}, {"sha": ""}, {"method": "force"}])
    def test_a_branch_is_no_head(self, wrong):
        with pytest.raises(NotValid):
            KINDS["github.merge"].read({**MERGE, **wrong})


@pytest.mark.parametrize("type", ["nightdesk.run.dead", "approvals.action.settled", "a..b", "a b", "", "x" * 256])
def test_only_types_of_its_own_are_published(type):
    with pytest.raises(NotValid):
        KINDS["event.publish"].read({"type": type})
