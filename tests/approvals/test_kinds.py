"""Each kind does its work once at the far side, however often and however unluckily it is called."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import override_settings

from approvals import kinds
from approvals.connectors.github import branch, marker
from approvals.connectors.http import stays_home
from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.kinds import KINDS, Far
from tests.github import FakeGitHub
from tests.recorder import Recorder

KEY = "pr-acme/shop-12"
BRANCH = f"nightdesk/{KEY}"
COMMENT = {"repo": "acme/shop", "number": 12, "body": "Thank you."}
PULL = {
    "repo": "acme/shop",
    "base": "main",
    "title": "Fix the typo",
    "body": "Closes #12",
    "files": [{"path": "docs/a.md", "content": "hällo\n"}],
}
PATIENT = timedelta(seconds=20)  # a busy machine is no far side that hangs
HASTY = timedelta(seconds=1)


@pytest.fixture
def github() -> FakeGitHub:
    return FakeGitHub()


@pytest.fixture
def far(github: FakeGitHub) -> Iterator[Recorder]:
    with Recorder(github.answer) as recorder, override_settings(EGRESS_ALLOW=["127.0.0.1"]):
        yield recorder


def away(far: Recorder, timeout: timedelta = PATIENT) -> Far:
    return Far("acme", {"api_url": far.url}, {"token": "SECRET-123"}, timeout)


def deliver(name: str, far: Recorder, arguments: dict, key: str = KEY, timeout: timedelta = PATIENT) -> dict:
    kind = KINDS[name]
    return kind.deliver(away(far, timeout), kind.read(arguments), key)


def probe(name: str, far: Recorder, arguments: dict, *keys: str) -> dict | None:
    kind = KINDS[name]
    assert kind.probe
    return kind.probe(away(far), kind.read(arguments), list(keys or [KEY]))


class TestComment:
    def test_ends_with_our_hidden_mark(self, far, github):
        result = deliver("github.comment", far, COMMENT)
        assert result == {"id": 1, "url": "https://gh/12"}
        assert github.comments[0]["body"] == "Thank you.\n\n<!-- nightdesk:pr-acme/shop-12 -->"
        assert far.seen[0].headers["authorization"] == "Bearer SECRET-123"

    @pytest.mark.parametrize("fault", ["drop", "hang"])
    def test_a_lost_answer_is_in_doubt_and_the_probe_settles_it(self, far, github, fault):
        far.next(fault)
        with pytest.raises(OutcomeUnknown):
            deliver("github.comment", far, COMMENT, timeout=HASTY if fault == "hang" else PATIENT)
        found = probe("github.comment", far, COMMENT)
        assert (found is not None) == (fault == "drop")
        assert len(github.comments) == (fault == "drop")

    def test_the_probe_reads_every_page(self, far, github):
        github.page = 3
        for number in range(8):
            github.add_comment({"body": f"chatter {number}"}, {}, "12")
        assert probe("github.comment", far, COMMENT) is None
        deliver("github.comment", far, COMMENT)
        found = probe("github.comment", far, COMMENT)
        assert found is not None
        assert found["id"] == 9

    def test_the_probe_asks_for_every_key_that_was_sent(self, far):
        deliver("github.comment", far, COMMENT, key="k.g2")
        assert probe("github.comment", far, COMMENT, "k", "k.g2")
        assert probe("github.comment", far, COMMENT, "k") is None

    def test_a_key_cannot_close_the_mark_early(self):
        assert marker("a-->b<script>").count("-->") == 1
        assert "<script>" not in marker("<script>")

    @pytest.mark.parametrize(
        ("reply", "error"),
        [
            ((500, {}, {}), OutcomeUnknown),
            ((502, {}, {}), OutcomeUnknown),
            ((408, {}, {}), OutcomeUnknown),
            ((409, {}, {}), OutcomeUnknown),
            ((429, {"retry-after": "7"}, {}), NotSent),
            ((403, {"x-ratelimit-remaining": "0"}, {}), NotSent),
            ((403, {}, {"message": "Resource not accessible"}), Refused),
            ((401, {}, {}), Refused),
            ((404, {}, {}), Refused),
            *(((status, {}, {}), Refused) for status in (400, 402, 405, 410, 413, 415, 418, 422, 451)),
            ((425, {}, {}), OutcomeUnknown),
            ((302, {"location": "http://127.0.0.1/"}, {}), Refused),
            ((201, {}, b"<html>"), OutcomeUnknown),
        ],
    )
    def test_every_answer_has_one_meaning(self, far, reply, error):
        far.next(reply)
        with pytest.raises(error) as refusal:
            deliver("github.comment", far, COMMENT)
        assert "SECRET" not in str(refusal.value)
        if reply[0] == 429:
            assert refusal.value.retry_after == timedelta(seconds=7)

    def test_a_far_side_that_is_down_got_nothing(self, far):
        with Recorder() as gone:
            pass
        with pytest.raises(NotSent):
            deliver("github.comment", gone, COMMENT)


class TestPullRequest:
    def test_is_one_commit_on_a_branch_named_by_the_key(self, far, github):
        result = deliver("github.create_pr", far, PULL)
        assert result == {"number": 1, "url": "https://gh/pull/1", "branch": "nightdesk/pr-acme/shop-12"}
        assert github.pulls[0]["base"] == "main"
        tree = next(iter(github.trees.values()))
        assert (tree["base_tree"], tree["tree"][0]["path"]) == ("t0", "docs/a.md")

    @pytest.mark.parametrize("calls_before", range(8))
    @pytest.mark.parametrize("fault", ["drop", "drop_before", 500, 429])
    def test_a_fault_at_any_call_and_another_try_make_one_pull_request(self, far, github, calls_before, fault):
        far.next(*[None] * calls_before, fault)
        try:
            deliver("github.create_pr", far, PULL)
        except (NotSent, OutcomeUnknown) as error:
            found = probe("github.create_pr", far, PULL)
            if isinstance(error, NotSent):
                assert found is None
            if found is None:
                deliver("github.create_pr", far, PULL)
        assert len(github.pulls) == 1
        assert set(github.refs) == {"main", "nightdesk/pr-acme/shop-12"}

    def test_a_second_delivery_finds_the_first(self, far, github):
        first = deliver("github.create_pr", far, PULL)
        assert deliver("github.create_pr", far, PULL) == first
        assert len(github.pulls) == 1

    def test_a_branch_that_holds_something_else_is_refused_and_nothing_is_opened(self, far, github):
        github.push(BRANCH, "somebody's own", on="c0")
        with pytest.raises(Refused, match="holds something else"):
            deliver("github.create_pr", far, PULL)
        assert github.pulls == []

    def test_a_branch_with_our_files_on_something_else_is_refused(self, far, github):
        github.push("wild", "a tree", on="c0")
        deliver("github.create_pr", far, {**PULL, "base": "wild"})
        github.pulls.clear()
        with pytest.raises(Refused, match="holds something else"):
            deliver("github.create_pr", far, PULL)
        assert github.pulls == []

    def test_a_branch_that_went_on_after_our_commit_is_refused(self, far, github):
        deliver("github.create_pr", far, PULL)
        github.pulls.clear()
        github.push(BRANCH, "one more thing", on=github.refs[BRANCH])
        with pytest.raises(Refused, match="holds something else"):
            deliver("github.create_pr", far, PULL)

    def test_a_branch_of_an_earlier_try_is_used_though_the_base_went_on(self, far, github):
        deliver("github.create_pr", far, PULL)
        github.pulls.clear()
        github.push("main", "other files", on="c0")
        deliver("github.create_pr", far, PULL)
        assert len(github.pulls) == 1

    def test_a_merged_one_counts_a_closed_one_does_not(self, far, github):
        deliver("github.create_pr", far, PULL)
        github.pulls[0].update(state="closed", merged_at=None)
        assert probe("github.create_pr", far, PULL) is None
        github.pulls[0].update(merged_at="2026-01-01T00:00:00Z")
        assert probe("github.create_pr", far, PULL)

    @pytest.mark.parametrize("key", ["a b", "x..y", "ümlaut", "a.lock", "-a", "a//b", "a@{b", "x" * 250, "R-1/open it"])
    def test_any_key_makes_a_branch_git_accepts_and_no_other_key_makes(self, key):
        name = branch(key)
        assert name.isascii()
        assert not any(bad in name for bad in (" ", "..", "//", "@{", ".lock", "/-"))
        assert name != branch(key + "x")
        assert len(name) < 250

    @pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../b", ".git/config", "a//b", "a\\b", ""])
    def test_a_file_stays_inside_the_repository(self, path):
        with pytest.raises(NotValid):
            KINDS["github.create_pr"].read({**PULL, "files": [{"path": path, "content": ""}]})


class TestHttpRequest:
    def call(self, far: Recorder, key: str = KEY, **arguments) -> dict:
        kind = KINDS["http.request"]
        crm = Far("crm", {"hosts": [far.url]}, {"Authorization": "Bearer SECRET-123"}, PATIENT)
        return kind.deliver(crm, kind.read(arguments), key)

    def test_sends_the_key_and_the_credentials_of_the_connection(self, far):
        far.next((201, {}, {"ok": True}))
        result = self.call(far, url=f"{far.url}/x", json={"a": 1})
        assert (result["status"], result["body"]) == (201, '{"ok": true}')
        sent = far.seen[0]
        assert (sent.method, sent.json, sent.headers["idempotency-key"]) == ("POST", {"a": 1}, KEY)
        assert sent.headers["authorization"] == "Bearer SECRET-123"

    def test_a_repeat_carries_the_same_key(self, far):
        far.next("drop")
        with pytest.raises(OutcomeUnknown):
            self.call(far, url=far.url)
        far.next((200, {}, {}))
        self.call(far, url=far.url)
        assert [seen.headers["idempotency-key"] for seen in far.seen] == [KEY, KEY]

    @pytest.mark.parametrize("key", ["späti", "a\tb", "snow☃", "x" * 200])
    def test_any_key_fits_into_a_header(self, far, key):
        far.next((200, {}, {}))
        self.call(far, key=key, url=far.url)
        assert far.seen[0].headers["idempotency-key"].isascii()

    @pytest.mark.parametrize(
        "arguments",
        [
            {"url": "file:///etc/passwd"},
            {"url": "http://u:p@example.org/"},
            {"url": "http://x/", "json": 1, "body": "2"},
            {"url": "http://x/", "headers": {"Idempotency-Key": "mine"}},
            {"url": "http://x/", "method": "TRACE"},
            {"url": "http://x/", "colour": "red"},
            {"url": "http://x/", "timeout": 31},
        ],
    )
    def test_what_makes_no_sense_is_refused_before_anybody_is_asked(self, arguments):
        with pytest.raises(NotValid):
            KINDS["http.request"].read(arguments)

    def test_a_header_of_the_connection_stands_for_the_argument_s(self, far):
        far.next((200, {}, {}))
        self.call(far, url=far.url, headers={"authorization": "mine"})
        assert far.seen[0].headers["authorization"] == "Bearer SECRET-123"

    @pytest.mark.parametrize(
        ("hosts", "url"),
        [
            ([], "https://api.example.org/"),
            (["api.example.org"], "https://api.example.org.evil.example/"),
            (["api.example.org"], "http://api.example.org/"),
            (["api.example.org"], "https://api.example.org:8443/"),
            (["http://api.example.org"], "https://api.example.org/"),
        ],
    )
    def test_credentials_go_nowhere_but_to_the_hosts_of_the_connection(self, hosts, url):
        kind = KINDS["http.request"]
        with pytest.raises(NotValid) as refusal:
            kind.deliver(Far("crm", {"hosts": hosts}, {"X-Key": "SECRET-123"}), kind.read({"url": url}), KEY)
        assert "does not lead to api.example.org" in refusal.value.detail

    @pytest.mark.parametrize("entry", ["API.example.org", "api.example.org:443", "https://api.example.org/v1"])
    def test_a_host_may_be_written_in_several_ways(self, entry):
        asked = KINDS["http.request"].read({"url": "https://Api.Example.org./v1/x"})
        stays_home({"hosts": [entry]}, True, asked)

    def test_without_credentials_a_connection_without_hosts_leads_anywhere(self):
        stays_home({}, False, KINDS["http.request"].read({"url": "https://anywhere.example/"}))

    def test_the_inside_of_the_network_is_refused_for_good(self, far):
        with override_settings(EGRESS_ALLOW=[]), pytest.raises(Refused):
            self.call(far, url=far.url)
        assert far.seen == []


class TestNotify:
    def send(self, urls: list[str], **arguments) -> dict:
        kind = KINDS["notify.send"]
        return kind.deliver(Far("x", {}, {"urls": urls}), kind.read({"text": "hello", **arguments}), KEY)

    def test_reaches_our_people(self, far):
        far.next((200, {}, {}))
        assert self.send([f"json://127.0.0.1:{far.port}/x"], title="Night") == {"told": 1, "of": 1}
        assert (far.seen[0].json["title"], far.seen[0].json["message"]) == ("Night", "hello")

    def test_a_service_that_says_no_is_asked_again_later(self, far):
        far.next(500)
        with pytest.raises(NotSent):
            self.send([f"json://127.0.0.1:{far.port}/x"])

    def test_one_of_several_is_enough(self, far):
        far.next((200, {}, {}))
        told = self.send([f"json://127.0.0.1:{far.port}/x", "json://127.0.0.1:1/"])
        assert told == {"told": 1, "of": 2}

    def test_an_address_is_never_an_argument(self):
        with pytest.raises(NotValid):
            KINDS["notify.send"].read({"text": "x", "channel": "mailto://evil"})

    def test_nobody_to_tell_is_said(self):
        with pytest.raises(Refused):
            self.send([])


def test_a_wrong_argument_is_named_and_its_value_is_not_repeated():
    with pytest.raises(NotValid) as refusal:
        KINDS["github.comment"].read({"repo": "SECRET-123 is no repo", "number": 1, "body": "x"})
    assert "repo" in refusal.value.detail
    assert "SECRET" not in refusal.value.detail


def test_a_headline_is_one_line():
    kind = KINDS["notify.send"]
    line = kind.headline(kind.read({"title": "a\nb\u202ec" + "x" * 150, "text": "x"}))
    assert line.isprintable()
    assert len(line) <= kinds.TITLE_LENGTH


def test_the_catalogue_is_what_the_docs_list():
    table = {name: (kind.tier.value, kind.safety) for name, kind in KINDS.items()}
    assert (
        table.items()
        >= {
            "github.comment": ("low", "probe"),
            "github.create_pr": ("medium", "probe"),
            "http.request": ("medium", "keyed"),
            "notify.send": ("low", "unsafe"),
            "email.send": ("medium", "unsafe"),
            "event.publish": ("low", "keyed"),
            "feishu.post": ("low", "unsafe"),
            "github.merge": ("high", "probe"),
            "kafka.publish": ("low", "unsafe"),
            "human.question": ("medium", "natural"),
            "slack.post": ("low", "unsafe"),
            "stripe.refund": ("high", "keyed"),
            "wecom.post": ("low", "unsafe"),
        }.items()
    )


def test_only_a_question_owes_an_answer():
    questions = [name for name, kind in KINDS.items() if kind.is_question]
    assert questions == ["human.question"]
    with pytest.raises(NotValid):
        KINDS["github.comment"].asked(COMMENT)
