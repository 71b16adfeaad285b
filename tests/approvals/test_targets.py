"""What each kind binds of its target, and how it looks at it without changing anything."""

import base64
from collections.abc import Mapping
from dataclasses import replace

import pytest

from approvals.connectors import github, github_merge, http, stripe
from approvals.errors import NotSent, Refused
from approvals.kinds import Far, Unbound
from tests.fars import MERGE, PULL, REFUND
from tests.github import FakeGitHub
from tests.recorder import Recorder, Reply
from tests.stripe import FakeStripe


@pytest.fixture(autouse=True)
def _loopback(settings):
    settings.EGRESS_ALLOW = ["127.0.0.1"]


class TestHttp:
    @pytest.fixture
    def page(self):
        """One address; `page.next(...)` says what it answers."""
        with Recorder() as page:
            yield page

    def asked(self, page: Recorder, method: str = "PUT", **more):
        return http.HttpRequest(method=method, url=f"{page.url}/tea?token=SECRET", **{"json": {"cups": 2}, **more})

    def far(self, expected: str = "") -> Far:
        return Far("shop", {}, {}, expected=expected)

    def test_an_etag_is_the_version_and_a_get_shows_the_state(self, page):
        page.next((200, {"etag": '"7"'}, {"cups": 1, "sugar": 3}))
        now = http.current(self.far(), self.asked(page))
        assert (now.version, now.state) == ('"7"', {"cups": 1, "sugar": 3})
        assert "SECRET" not in now.target
        assert [call.method for call in page.seen] == ["GET"]
        assert "idempotency-key" not in page.seen[0].headers

    def test_last_modified_will_do(self, page):
        page.next((200, {"last-modified": "Sun, 29 Nov 2026 10:00:00 GMT"}, b"text"))
        assert http.current(self.far(), self.asked(page)).version.startswith("Sun, 29 Nov")

    @pytest.mark.parametrize("answer", [(200, {}, {}), (302, {"location": "/x"}, {}), (403, {}, {}), (405, {}, {})])
    def test_without_a_version_or_a_look_nothing_is_bound(self, page, answer):
        page.next(answer)
        assert isinstance(http.current(self.far(), self.asked(page)), Unbound)

    @pytest.mark.parametrize(
        "header",
        ["Accept", "Accept-Encoding", "Range", "If-None-Match", "If-Match", "If-Modified-Since", "If-Range", "X-Any"],
    )
    def test_who_asks_has_no_say_in_the_look(self, page, header):
        page.next((200, {"etag": '"7"'}, {"cups": 1}))
        http.current(Far("shop", {"hosts": [page.url]}, {"X-Key": "k"}), self.asked(page))
        page.next((200, {"etag": '"7"'}, {"cups": 1}))
        http.current(Far("shop", {"hosts": [page.url]}, {"X-Key": "k"}), self.asked(page, headers={header: "odd/odd"}))
        first, other = (dict(call.headers) for call in page.seen)
        assert first == other
        assert first["x-key"] == "k"

    @pytest.mark.parametrize("header", ["If-Match", "if-match", "IF-NONE-MATCH"])
    def test_who_asks_has_no_say_in_the_condition(self, page, header):
        version = "absent" if "none" in header.lower() else '"7"'
        page.next((200, {}, {}))
        http.deliver(self.far(version), self.asked(page, headers={header: '"mine"'}), "k")
        assert '"mine"' not in page.seen[0].headers.values()

    def test_what_is_not_there_is_bound_as_absent(self, page):
        page.next(404)
        assert http.current(self.far(), self.asked(page)).version == "absent"

    @pytest.mark.parametrize("fault", [500, 429, "drop"])
    def test_trouble_is_no_answer(self, page, fault):
        page.next(fault)
        with pytest.raises(NotSent):
            http.current(self.far(), self.asked(page))

    @pytest.mark.parametrize("method", ["GET", "POST"])
    def test_what_changes_nothing_that_a_get_shows_is_not_looked_at(self, page, method):
        assert http.current(self.far(), self.asked(page, method, json=None)) is None
        assert page.seen == []

    @pytest.mark.parametrize(
        ("version", "header"),
        [('"7"', ("if-match", '"7"')), ("absent", ("if-none-match", "*")), ('W/"7"', None), ("", None)],
    )
    def test_the_far_side_is_told_what_it_must_still_be(self, page, version, header):
        page.next((200, {}, {}))
        http.deliver(self.far(version), self.asked(page), "k")
        told = {name: page.seen[0].headers.get(name) for name in ("if-match", "if-none-match")}
        assert told == {"if-match": None, "if-none-match": None} | dict([header] if header else [])

    def test_a_state_that_moved_in_the_last_moment_was_surely_not_changed(self, page):
        page.next(412)
        with pytest.raises(NotSent):
            http.deliver(self.far('"7"'), self.asked(page), "k")

    def test_a_412_nobody_asked_for_is_a_refusal(self, page):
        page.next(412)
        with pytest.raises(Refused):
            http.deliver(self.far(), self.asked(page), "k")

    @pytest.mark.parametrize(
        ("method", "sent", "becomes"),
        [
            ("PUT", {"cups": 2}, {"cups": 2}),
            ("PATCH", {"cups": 2}, {"cups": 2, "sugar": 3}),
            ("PATCH", [{"op": "remove"}], [{"op": "remove"}]),
            ("DELETE", None, None),
        ],
    )
    def test_what_it_becomes(self, page, method, sent, becomes):
        assert http.after(self.asked(page, method, json=sent), {"cups": 1, "sugar": 3}) == becomes


class TestPullRequest:
    def test_each_file_is_bound_as_it_is_on_the_base(self):
        text = {"a.md": "old"}

        def answer(method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
            assert (method, path.partition("?")[2]) == ("GET", "ref=main")
            content = base64.b64encode(text["a.md"].encode()).decode()
            return 200, {}, {"sha": f"sha of {text['a.md']}", "encoding": "base64", "content": content}

        with Recorder(answer) as far:
            look = Far("x", {"api_url": far.url}, {})
            wish = github.PullRequest(**PULL)
            first = github.files_now(look, wish)
            assert first.state == {"a.md": "old"}
            assert github.files_after(wish, first.state) == {"a.md": "x"}
            text["a.md"] = "somebody else's"
            assert github.files_now(look, wish).version != first.version

    def test_a_file_that_is_not_there_is_bound_too(self):
        with Recorder(FakeGitHub().answer) as far:
            assert github.files_now(Far("x", {"api_url": far.url}, {}), github.PullRequest(**PULL)).state == {
                "a.md": None
            }

    @pytest.mark.parametrize(
        ("there", "shown"),
        [
            (
                {"sha": "b1", "size": 2_000_000, "encoding": "none", "content": ""},
                "2,000,000 bytes that cannot be shown",
            ),
            ({"sha": "b2", "size": 2, "encoding": "base64", "content": "//8="}, "2 bytes that cannot be shown"),
            ([{"sha": "b3"}, {"sha": "b4"}], "a folder of 2 entries"),
        ],
        ids=["too large", "no text", "a folder"],
    )
    def test_what_cannot_be_shown_is_not_taken_for_nothing(self, there, shown):
        answers = iter([(200, {}, there), (404, {}, {})])
        with Recorder(lambda *call: next(answers)) as far:
            look, wish = Far("x", {"api_url": far.url}, {}), github.PullRequest(**PULL)
            full, empty = (github.files_now(look, wish) for _ in range(2))
        assert full.state == {"a.md": shown}
        assert full.version != empty.version


class TestMerge:
    @pytest.mark.parametrize("moved", [{"base": {"ref": "release"}}, {"state": "closed"}, {"head": {"sha": "b" * 40}}])
    def test_another_base_head_or_state_is_another_target(self, moved):
        pull = {"state": "open", "base": {"ref": "main"}, "head": {"sha": "a" * 40}, "title": "Fix"}
        answers = iter([pull, {**pull, "title": "Fix it"}, {**pull, **moved}])
        with Recorder(lambda *call: (200, {}, next(answers))) as far:
            look, wish = Far("x", {"api_url": far.url}, {}), github_merge.Merge(**MERGE)
            first, retitled, other = (github_merge.pull_now(look, wish).version for _ in range(3))
        assert first == retitled != other


class TestRefund:
    @pytest.mark.parametrize("payment", ["ch_1", "pi_1"])
    def test_another_refund_meanwhile_is_another_target(self, payment):
        bank = FakeStripe()
        with Recorder(bank.answer) as far:
            look, wish = Far("x", {"api_url": far.url}, {"key": "k"}), stripe.Refund(**REFUND | {"payment": payment})
            before = stripe.payment_now(look, wish)
            stripe.deliver(replace(look), wish, "somebody else")
            assert stripe.payment_now(look, wish).version != before.version
