"""A rule is tried on the last 30 days before it is saved, and nothing that is high becomes less by one person alone.

claude-code #27688, #44323, codex #3085: a saved rule that never matches, or the wrong things."""

import re
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.urls import reverse

from approvals import amending, policy_forms
from approvals.errors import NeedsSecondAdmin, NotValid
from approvals.models import PolicyChange, PolicyRule, PolicyVersion
from project.lib import clock
from project.people.models import Proof
from tests import builders
from tests.conftest import person
from tests.ruled import gone, rule, team
from triggers.errors import BadFilter, SlugTaken, Stale
from triggers.models import Audit

pytestmark = pytest.mark.django_db
NINE_TO_FIVE = [{"days": ["mon"], "from": "09:00", "to": "17:00"}]


@pytest.fixture
def other(db):
    return person("otto", "viewer", "admin")


@pytest.fixture
def fresh(sign_in):
    """`fresh(owner)`: a browser of somebody who has just given the password again."""

    def browser(user):
        client = sign_in(user)
        session = client.session
        Proof.objects.all().give(user, str(session.session_key))
        return client

    return browser


def merge(**more):
    return builders.action("github.merge", tier="high", **more)


def pr(**more):
    return builders.action("github.create_pr", tier="medium", **more)


def create(slug, by, when, effect="require", **fields):
    return amending.save("create", slug, None, by=by, when=when, effect=effect, **fields)


class TestTheBacktest:
    def test_says_what_would_have_waited_and_what_no_longer(self, owner):
        comments = [builders.action("github.comment", tier="low", status="approved") for _ in range(3)]
        pr()
        more = amending.amended(
            "create", "all-comments", None, when="action.kind == 'github.comment'", effect="require"
        )
        assert (more.backtest.more, more.backtest.fewer, more.backtest.looked_at) == (3, 0, 4)
        assert {one.action.pk for one in more.backtest.changes} == {one.pk for one in comments}
        fewer = amending.amended("create", "free", None, when="action.kind == 'github.create_pr'", effect="allow")
        assert (fewer.backtest.more, fewer.backtest.fewer) == (0, 1)

    def test_what_would_have_been_denied_and_what_would_have_asked_for_more(self, owner):
        pr()
        denied = amending.amended("create", "no", None, when="action.kind == 'github.create_pr'", effect="deny")
        assert (denied.backtest.denied, denied.backtest.fewer) == (1, 0)
        two = amending.amended("create", "two", None, when="true", effect="require", quorum=2)
        assert (two.backtest.asks_more, two.backtest.differs, len(two.backtest.changes)) == (1, 1, 1)

    def test_a_quorum_that_is_loosened_asks_for_fewer(self, owner):
        row = create("two", owner, "true", quorum=2)
        pr()
        found = amending.amended("change", "two", row, quorum=1).backtest
        assert (found.asks_otherwise, found.differs, len(found.changes)) == (1, 1, 1)

    def test_a_group_that_is_dropped_is_not_more(self, owner):
        create("one", owner, "true", reviewers=["reviewer"])
        row = create("two", owner, "true", reviewers=["admin"])
        pr()
        found = amending.amended("archive", "two", row).backtest
        assert (found.asks_more, found.asks_otherwise, found.differs, len(found.changes)) == (0, 1, 1, 1)

    def test_four_eyes_that_are_given_up_are_counted_too(self, owner):
        row = create("eyes", owner, "true", four_eyes=True)
        pr()
        found = amending.amended("change", "eyes", row, four_eyes=False).backtest
        assert (found.asks_otherwise, found.differs, len(found.changes)) == (1, 1, 1)

    def test_what_would_no_longer_be_denied_is_counted_too(self, owner):
        row = create("no", owner, "true", effect="deny")
        pr()
        builders.action("github.comment", tier="low", status="approved")
        found = amending.amended("archive", "no", row).backtest
        assert (found.let, found.more, found.differs, len(found.changes)) == (2, 0, 2, 2)

    def test_looks_back_thirty_days_and_no_further(self, owner):
        pr(created_at=clock.now() - timedelta(days=31))
        pr(created_at=clock.now() - timedelta(days=29))
        draft = amending.amended("create", "no", None, when="true", effect="deny")
        assert (draft.backtest.looked_at, draft.backtest.denied) == (1, 1)

    def test_an_action_whose_payload_is_gone_cannot_be_told_by_a_rule_that_reads_it(self, owner):
        gone = builders.run(event=builders.event(data={"n": 1}, pruned_at=clock.now()))
        pr(run=gone)
        told = amending.amended("create", "no", None, when="action.kind != ''", effect="deny")
        assert (told.backtest.denied, told.backtest.untold) == (1, 0)
        blind = amending.amended("create", "no", None, when="event.data.n == 1", effect="deny")
        assert (blind.backtest.denied, blind.backtest.untold) == (0, 1)

    def test_is_bounded(self, owner, monkeypatch):
        monkeypatch.setattr("approvals.backtest.MOST", 2)
        monkeypatch.setattr("approvals.backtest.SHOWN", 1)
        for _ in range(3):
            pr()
        found = amending.amended("create", "no", None, when="true", effect="deny").backtest
        assert (found.looked_at, found.all_of_them, found.denied, len(found.changes)) == (2, False, 2, 1)

    def test_asks_at_the_hour_at_which_each_was_proposed(self, owner):
        at = clock.now() - timedelta(days=1)
        pr(created_at=at)
        hour = f"time.hour == {at.hour}"
        assert amending.amended("create", "h", None, when=hour, effect="deny").backtest.denied == 1
        assert amending.amended("create", "h", None, when=f"!({hour})", effect="deny").backtest.denied == 0

    def test_writes_nothing(self, owner):
        pr()
        amending.amended("create", "no", None, when="true", effect="deny")
        assert (PolicyRule.objects.count(), PolicyVersion.newest(), Audit.objects.count()) == (0, 0, 0)


class TestEveryChangeIsAVersion:
    def test_with_its_audit_row(self, owner):
        row = create("one", owner, "action.kind == 'github.create_pr'", tier="medium")
        assert PolicyVersion.newest() == 1
        row = amending.save("change", "one", row, by=owner, version=1, quorum=2)
        assert (row.version, PolicyVersion.newest()) == (2, 2)
        amending.save("archive", "one", row, by=owner, version=2)
        assert PolicyVersion.in_force() == (3, "[]")
        told = Audit.objects.filter(kind="policyrule", ref="one").order_by("pk")
        assert [(row.verb, row.by, row.detail["policy"]) for row in told] == [
            ("create", owner, 1),
            ("change", owner, 2),
            ("archive", owner, 3),
        ]

    def test_somebody_who_read_an_older_one_is_told(self, owner):
        row = create("one", owner, "true")
        amending.save("change", "one", row, by=owner, version=1, quorum=2)
        with pytest.raises(Stale):
            amending.save("change", "one", PolicyRule.objects.get(), by=owner, version=1, quorum=3)

    def test_a_name_is_taken_once(self, owner):
        create("one", owner, "true")
        with pytest.raises(SlugTaken):
            create("one", owner, "true")


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("when", "said"),
        [
            ("action.kind ==", "column 15"),
            ("headers.x == 'a'", "reads `action`, `event`, `run` and `time`"),
            ("action.arguments.all(a, a.all(b, b > 1))", "comprehension inside"),
            ("exec('x')", "no function"),
        ],
    )
    def test_a_condition_that_does_not_compile_with_its_place(self, owner, when, said):
        with pytest.raises(BadFilter) as refused:
            create("one", owner, when)
        assert said in refused.value.detail
        assert refused.value.facts["field"] == "when"

    @pytest.mark.parametrize(
        ("field", "given"),
        [
            ("when", {"when": " "}),
            ("effect", {"effect": "maybe"}),
            ("tier", {"effect": "allow", "tier": "medium"}),
            ("tier", {"effect": "deny", "tier": "high"}),
            ("tier", {"tier": "low"}),
            ("reviewers", {"reviewers": ["nobody-knows"]}),
            ("reviewers", {"effect": "allow", "reviewers": ["reviewer"]}),
            ("quorum", {"quorum": 21}),
            ("expires", {"expires": 5}),
            ("windows", {"windows": [{"days": ["day"]}]}),
            ("zone", {"zone": "Mars/Olympus"}),
            ("order", {"order": -1}),
        ],
    )
    def test_what_makes_no_sense_names_its_field(self, owner, field, given):
        with pytest.raises(NotValid) as refused:
            create("one", owner, **{"when": "true", **given})
        assert refused.value.facts["field"] == field

    def test_the_database_refuses_a_rule_that_allows_more_than_low(self):
        row = rule("one", "true", effect="allow")
        with pytest.raises(IntegrityError), transaction.atomic():
            PolicyRule.objects.filter(pk=row.pk).update(tier="high")


class TestLooseningHigh:
    def test_taking_away_a_rule_that_asks_for_high_waits_for_a_second_admin(self, owner, other):
        row = create("all-high", owner, "true", tier="high")
        change = amending.save("archive", "all-high", row, by=owner, version=1)
        assert isinstance(change, PolicyChange)
        assert PolicyRule.objects.kept().exists(), "nothing happened yet"
        with pytest.raises(NeedsSecondAdmin):
            amending.confirm(change, by=owner)
        amending.confirm(change, by=other)
        assert not PolicyRule.objects.kept().exists()
        assert PolicyVersion.in_force()[1] == "[]"

    def test_so_does_changing_it_and_one_that_denies(self, owner):
        row = create("all-high", owner, "action.kind == 'x'", tier="high")
        assert isinstance(amending.save("change", "all-high", row, by=owner, version=1, when="false"), PolicyChange)
        row = create("never", owner, "action.kind == 'x'", "deny")
        assert isinstance(amending.save("archive", "never", row, by=owner, version=1), PolicyChange)

    def test_another_place_in_the_list_is_no_loosening(self, owner):
        row = create("all-high", owner, "true", tier="high")
        assert isinstance(amending.save("change", "all-high", row, by=owner, version=1, order=5), PolicyRule)

    def test_so_does_a_change_after_which_fewer_or_others_would_decide_what_is_high(self, owner):
        merge()
        gone("high-any-reviewer")
        row = create("two-of-us", owner, "action.kind == 'github.merge'", quorum=2, reviewers=["admin"])
        assert isinstance(row, PolicyRule), "to ask for more needs nobody else"
        for change in (
            amending.save("change", "two-of-us", row, by=owner, version=1, quorum=1),
            amending.save("change", "two-of-us", row, by=owner, version=1, reviewers=["reviewer"]),
            amending.save("archive", "two-of-us", row, by=owner, version=1),
        ):
            assert isinstance(change, PolicyChange)
            assert "fewer or other people" in change.reasons[-1]
        assert PolicyRule.objects.kept().get().quorum == 2

    def test_so_does_a_change_after_which_an_action_would_be_less_than_high(self, owner):
        pr()
        row = create("odd", owner, "action.arguments.amount > 500")  # cannot be asked about a pull request: high
        change = amending.save("change", "odd", row, by=owner, version=1, when="has(action.arguments.amount)")
        assert isinstance(change, PolicyChange)
        assert "would be less" in change.reasons[-1]

    @pytest.mark.parametrize("when", ["true", "action.kind == 'github.merge'", "action.kind.startsWith('external.')"])
    @pytest.mark.parametrize("asks", [{"quorum": 2}, {"reviewers": ["admin"]}])
    def test_so_does_a_rule_that_names_people_for_what_may_be_high_though_none_was_of_late(self, owner, when, asks):
        row = create("people", owner, when, **asks)
        for verb, less in (("archive", {}), ("change", {"when": "false"}), ("change", {"quorum": 0, "reviewers": []})):
            assert isinstance(amending.save(verb, "people", row, by=owner, version=1, **less), PolicyChange), less
        more = amending.save("change", "people", row, by=owner, version=1, quorum=3)
        assert isinstance(more, PolicyRule), "to ask for more needs nobody else"

    @pytest.mark.parametrize("when", ["action.kind == 'github.create_pr' && true", "action.tier == 'medium'"])
    def test_one_for_a_kind_or_tier_that_is_less_is_changed_by_one(self, owner, when):
        row = create("people", owner, when, quorum=2)
        assert isinstance(amending.save("archive", "people", row, by=owner, version=1), PolicyRule)

    @pytest.mark.parametrize(
        ("times", "less", "more"),
        [
            ({"windows": NINE_TO_FIVE}, {"windows": []}, {"expires": 600}),
            ({"windows": NINE_TO_FIVE}, {"zone": "Asia/Tokyo"}, {"quorum": 2}),
            ({"expires": 600}, {"expires": 0}, {"expires": 300}),
            ({"expires": 600}, {"expires": 601}, {"windows": NINE_TO_FIVE}),
        ],
    )
    def test_so_does_a_rule_that_sets_times_for_what_may_be_high(self, owner, times, less, more):
        row = create("hours", owner, "action.kind == 'stripe.refund'", **times)
        for verb, change in (("archive", {}), ("change", less)):
            waits = amending.save(verb, "hours", row, by=owner, version=1, **change)
            assert isinstance(waits, PolicyChange)
            assert "sets times for what may be high" in waits.reasons[0]
        assert isinstance(amending.save("change", "hours", row, by=owner, version=1, **more), PolicyRule)

    def test_so_does_one_that_lets_low_through_in_its_hours_and_so_holds_high_back(self, owner):
        row = create("hours", owner, "true", "allow", windows=NINE_TO_FIVE)
        assert isinstance(amending.save("archive", "hours", row, by=owner, version=1), PolicyChange)

    @pytest.mark.parametrize("high", ["action.kind == 'github.comment'", "action.arguments.repo == 'acme/shop'"])
    @pytest.mark.parametrize("when", ["action.kind == 'github.comment'", "action.tier == 'low'"])
    def test_so_does_one_for_a_kind_that_another_rule_makes_high(self, owner, when, high):
        row = create("people", owner, when, quorum=2)
        create("all-high", owner, high, tier="high")
        change = amending.save("archive", "people", row, by=owner, version=1)
        assert isinstance(change, PolicyChange)
        assert "names people for what may be high" in change.reasons[0]

    def test_one_for_another_kind_than_that_which_a_rule_makes_high_is_changed_by_one(self, owner):
        row = create("people", owner, "action.kind == 'github.create_pr'", quorum=2)
        create("all-high", owner, "action.kind == 'github.comment'", tier="high")
        assert isinstance(amending.save("archive", "people", row, by=owner, version=1), PolicyRule)

    def test_a_newer_change_of_the_same_rule_takes_the_place_of_the_older(self, owner, other):
        row = create("all-high", owner, "true", tier="high")
        first = amending.save("archive", "all-high", row, by=owner, version=1)
        second = amending.save("archive", "all-high", row, by=other, version=1)
        first.refresh_from_db()
        assert (first.status, second.status) == ("outdated", "waiting")

    def test_a_rule_that_changed_meanwhile_is_looked_at_again(self, owner, other):
        row = create("all-high", owner, "true", tier="high")
        change = amending.save("archive", "all-high", row, by=owner, version=1)
        amending.save("change", "all-high", row, by=other, version=1, order=3)
        with pytest.raises(Stale):
            amending.confirm(change, by=other)

    def test_the_database_refuses_a_confirmation_by_the_one_who_asked(self, owner):
        row = create("all-high", owner, "true", tier="high")
        change = amending.save("archive", "all-high", row, by=owner, version=1)
        with pytest.raises(IntegrityError), transaction.atomic():
            change.move("confirm", ended_by=owner, ended_at=clock.now())


class TestTheApi:
    BODY = {"slug": "two", "when": "action.tier == 'medium'", "effect": "require", "quorum": 2}

    def send(self, client, verb, path, body=None):
        send = getattr(client, verb)
        return (
            send(f"/api/v1{path}", body, content_type="application/json")
            if body is not None
            else send(f"/api/v1{path}")
        )

    def test_an_admin_in_person_makes_changes_and_archives(self, owner, fresh):
        client = fresh(owner)
        made = self.send(client, "post", "/policies", self.BODY)
        assert (made.status_code, made.json()["version"]) == (201, 1)
        assert self.send(client, "get", "/policies").json()["items"][0]["slug"] == "two"
        patched = self.send(client, "patch", "/policies/two", {"version": 1, "quorum": 3})
        assert (patched.status_code, patched.json()["quorum"], patched.json()["when"]) == (
            200,
            3,
            self.BODY["when"],
        )
        assert self.send(client, "patch", "/policies/two", {"version": 1, "quorum": 4}).status_code == 409
        windows = [{"days": ["mon"], "from": "09:00", "to": "17:00"}]
        patched = self.send(client, "patch", "/policies/two", {"version": 2, "windows": windows})
        assert patched.json()["windows"] == windows
        assert self.send(client, "delete", "/policies/two").status_code == 204
        assert self.send(client, "get", "/policies/two").status_code == 404

    def test_a_change_that_loosens_high_is_taken_and_not_in_force(self, owner, other, fresh):
        client = fresh(owner)
        self.send(client, "post", "/policies", {**self.BODY, "tier": "high"})
        taken = self.send(client, "delete", "/policies/two")
        assert (taken.status_code, taken.json()["status"]) == (202, "waiting")
        path = f"/policy-changes/{taken.json()['change']}/confirm"
        assert self.send(client, "post", path).json()["code"] == "needs_second_admin"
        assert self.send(fresh(other), "post", path).json()["ended_by"] == "otto"
        assert self.send(client, "get", "/policies").json()["items"] == []

    def test_nobody_else_and_no_token_may(self, ann, owner, fresh, sign_in, with_token):
        refused = [
            (self.send(sign_in(owner), "post", "/policies", self.BODY), 403, "step_up_required"),
            (self.send(fresh(ann), "post", "/policies", self.BODY), 403, "forbidden"),
            (self.send(with_token(owner, "configure"), "post", "/policies", self.BODY), 403, "forbidden"),
        ]
        for answer, status, code in refused:
            assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert not PolicyRule.objects.exists()

    def test_a_draft_is_tried_only_by_whoever_may_make_rules(self, ann, owner, sign_in):
        """Who asks which actions an expression matches reads what is in them, a letter at a time."""
        pr()
        draft = {**self.BODY, "quorum": 0, "tier": "high"}
        told = self.send(sign_in(owner), "post", "/policy-backtests", draft)
        assert (told.status_code, told.json()["asks_more"], told.json()["looked_at"]) == (200, 1, 1)
        assert told.json()["changes"][0]["after"] == "waits for a person, high risk"
        assert self.send(sign_in(ann), "post", "/policy-backtests", draft).status_code == 403


class TestThePages:
    FORM = {"when": "true", "effect": "require", "quorum": "2", "zone": "UTC", "order": "100", "slug": "two"}

    def test_an_empty_policy_teaches_by_examples(self, owner, sign_in):
        page = sign_in(owner).get("/policies").content.decode()
        assert page.count("Take it over") == len(policy_forms.EXAMPLES) > 2
        for slug in policy_forms.EXAMPLES:
            page = sign_in(owner).get(f"/policies/new?example={slug}")
            form, confirm = page.context["form"], f"next=/policies/new%3Fexample%3D{slug}"
            assert f'{confirm}" target="_blank"' in page.content.decode()  # what was typed or taken over stays open
            amending.checked(
                {**amending.USUAL, **{k: v for k, v in form.initial.items() if k not in ("words", "slug")}}
            )

    def test_a_draft_is_shown_before_it_is_saved(self, owner, fresh):
        action = pr()
        client = fresh(owner)
        page = client.post("/policies/new", {**self.FORM, "do": "save"})
        assert "1 would have asked for more" in page.content.decode()
        assert f"A-{action.pk}" in page.content.decode()
        assert not PolicyRule.objects.exists()
        seen = page.context["draft"].seen
        assert client.post("/policies/new", {**self.FORM, "do": "save", "seen": seen}).status_code == 302
        assert PolicyRule.objects.get().quorum == 2
        assert "Asks 2 people" in client.get("/policies").content.decode()

    def test_it_says_how_many_more_and_fewer_would_have_waited_and_lists_them(self, owner, fresh):
        comments = [builders.action("github.comment", tier="low", status="approved") for _ in range(2)]
        draft = {**self.FORM, "when": "action.kind == 'github.comment'", "quorum": "0", "do": "try"}
        told = fresh(owner).post("/policies/new", draft).content.decode()
        assert "2 more would have waited, 0 fewer; here they are" in told
        assert all(f"A-{action.pk}" in told for action in comments)
        pr()
        draft |= {"when": "action.kind == 'github.create_pr'", "effect": "allow"}
        assert "0 more would have waited, 1 fewer; here they are" in fresh(owner).post("/policies/new", draft).text

    def test_what_was_seen_is_what_is_saved(self, owner, fresh):
        client = fresh(owner)
        seen = client.post("/policies/new", {**self.FORM, "do": "try"}).context["draft"].seen
        client.post("/policies/new", {**self.FORM, "quorum": "3", "do": "save", "seen": seen})
        assert not PolicyRule.objects.exists()

    def test_the_condition_is_checked_while_it_is_typed(self, owner, fresh):
        page = fresh(owner).post("/policies/new", {**self.FORM, "when": "action.kind ==", "do": "try"})
        assert page.status_code == 422
        assert "line 1, column 15" in page.content.decode()

    def test_a_new_rule_is_tried_before_it_has_a_name(self, owner, fresh):
        client, unnamed = fresh(owner), {**self.FORM, "slug": "", "do": "try"}
        page = client.post("/policies/new", unnamed)
        assert page.status_code == 200
        assert page.context["draft"].backtest is not None
        for wrong, said in (
            ({"when": "action.kind =="}, "does not compile"),
            ({"reviewers": "reviewerz"}, "There is no role or team"),
            ({"quorum": "many"}, "Enter a whole number"),
        ):
            told = client.post("/policies/new", {**unnamed, **wrong}).content.decode()
            panel = told[told.index('id="trials"') :]
            assert said in panel[: panel.index("</div>")], wrong
        assert client.post("/policies/new", {**unnamed, "do": "save"}).status_code == 422
        assert not PolicyRule.objects.exists()

    @pytest.mark.parametrize(
        ("when", "said"),
        [
            ('action.knd == "stripe.refund"', "`action` has no `knd`; did you mean `kind`?"),
            ('action.kind == "http.request" && has(action.argument.n)', "did you mean `arguments`?"),
            ("time.hours > 8", "did you mean `hour`?"),
            ('run["handlers"] == "x"', "did you mean `handler`?"),
        ],
    )
    def test_a_name_that_does_not_exist_is_refused_with_the_nearest(self, owner, when, said):
        with pytest.raises(BadFilter, match=re.escape(said)):
            amending.amended("create", "one", None, when=when, effect="require")

    @pytest.mark.parametrize(
        ("when", "nearest"),
        [
            ('action.kind == "stripe.refnd"', ["stripe.refund"]),
            ('run.attempt > 1 || "gihub.merge" != action.kind', ["github.merge"]),
            (
                '!(action.kind in ["github.coment", "github.merge", "stripe.refnd"])',
                ["github.comment", "stripe.refund"],
            ),
            ('action.kind == "external.deploy"', []),
            ('action.title == "stripe.refnd"', []),
        ],
    )
    def test_a_kind_that_nobody_knows_is_warned_of(self, owner, when, nearest):
        warns = " ".join(amending.amended("create", "one", None, when=when, effect="deny").warns)
        assert re.findall(r"did you mean `([^`]+)`", warns) == nearest

    def test_without_a_fresh_sign_in_nothing_is_saved_and_nothing_lost(self, owner, sign_in):
        client = sign_in(owner)
        seen = client.post("/policies/new", {**self.FORM, "do": "try"}).context["draft"].seen
        page = client.post("/policies/new", {**self.FORM, "do": "save", "seen": seen})
        assert (page.status_code, PolicyRule.objects.exists()) == (403, False)
        assert page.context["form"]["quorum"].value() == "2"

    def test_a_reviewer_reads_and_does_not_change(self, ben, owner, sign_in):
        rule("one", "true", quorum=2)
        client = sign_in(ben)
        assert client.get("/policies/one").status_code == 200
        for path in ("/policies/new", "/policies/one", "/policies/one/archive"):
            assert client.post(path, {**self.FORM, "do": "save"}).status_code == 403

    def test_a_second_admin_confirms_on_the_page(self, owner, other, fresh):
        row = create("all-high", owner, "true", tier="high")
        client = fresh(owner)
        page = client.get("/policies/all-high/archive")
        asked = client.post("/policies/all-high/archive", {"seen": page.context["draft"].seen})
        where = asked["location"]
        assert "second admin must confirm" in client.get("/policies").content.decode()
        assert client.post(where, {"do": "confirm"}).status_code == 403
        assert fresh(other).post(where, {"do": "confirm"}).status_code == 302
        row.refresh_from_db()
        assert row.archived_at is not None

    def test_the_card_says_which_rule_stopped_it_and_who_is_still_needed(self, ann, ben, sign_in):
        team("legal", person("lea", "viewer"))
        rule("law", "action.kind == 'github.create_pr'", reviewers=["legal"])
        rule("two", "true", reviewers=["reviewer"])
        page = sign_in(ben).get(f"/actions/{pr(by=ann).pk}").content.decode()
        for words in ("/policies/law", "github.create_pr", "0 of 1 from legal", "0 of 1 from reviewer", "0 of 2"):
            assert words in page

    def test_the_card_says_why_a_rule_could_not_be_asked_and_that_nobody_is_there(self, ann, ben, sign_in):
        team("ghosts")
        rule("odd", "action.arguments.amount > 500", reviewers=["ghosts"])
        rule("ghosts", "true", reviewers=["ghosts"])
        page = sign_in(ben).get(f"/actions/{pr(by=ann).pk}").content.decode()
        assert "this is high: `action.arguments.amount` is missing" in page
        assert "Nobody who may approve it is there" in page

    def test_a_member_of_a_named_team_decides_by_page_and_api_without_being_a_reviewer(self, ann, sign_in):
        lea = person("lea", "viewer")
        team("legal", lea)
        rule("law", "true", reviewers=["legal"])
        action = pr(by=ann, groups=[{"reviewers": ["legal"], "quorum": 1}])
        seen = {"verdict": "approve", "digest": action.digest, "revision": 1}
        client = sign_in(lea)
        assert "acme/shop" in client.get(f"/actions/{action.pk}").content.decode()
        answer = client.post(f"/api/v1/actions/{action.pk}/decisions", seen, content_type="application/json")
        assert (answer.status_code, answer.json()["status"]) == (201, "approved")


def test_what_a_change_would_have_done_tells_no_viewer_what_was_asked_for(owner, sign_in):
    """Any viewer may open the page of a change that waits; headlines are for those who may read arguments."""
    row = rule("two", "true", reviewers=["reviewer"], quorum=2)
    builders.action("github.merge", tier="high", title="Merge the secret branch")
    change = amending.save("change", "two", row, by=owner, version=1, quorum=1)
    page = reverse("policy-change", args=[change.pk])
    assert "Merge the secret branch" in sign_in(owner).get(page).text
    told = sign_in(person("vic", "viewer")).get(page)
    assert (told.status_code, "Merge the secret branch" in told.text, "github.merge" in told.text) == (200, False, True)


@pytest.mark.parametrize("path", ["/policies/new", "/policies/two/archive", "/api/v1/policy-backtests"])
def test_an_admin_who_may_not_read_arguments_tries_a_rule_without_headlines(fresh, path):
    rule("two", "true", reviewers=["reviewer"], quorum=2)
    builders.action("github.merge", tier="high", title="Merge the secret branch")
    body = {"slug": "x", "when": "true", "effect": "deny", "quorum": 0}
    for who, reads in (
        (person("adam", "viewer", "admin"), False),
        (person("olga", "viewer", "admin", "operator"), True),
    ):
        client = fresh(who)
        if "api" in path:
            told = client.post(path, body, content_type="application/json")
        else:
            told = (
                client.get(path) if "archive" in path else client.post(path, {**TestThePages.FORM, **body, "do": "try"})
            )
        assert (told.status_code, "Merge the secret branch" in told.text, "github.merge" in told.text) == (
            200,
            reads,
            not reads,
        )
