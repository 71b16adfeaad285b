"""How much goes without people, and how long they take: the same numbers on the home page and for Prometheus."""

from datetime import timedelta

import pytest
from django.test import Client

from approvals import decide, tiers
from project import figures, measures
from project.lib import clock
from project.measures import Measures
from tests import builders
from tests.approvals.test_pages import text_of
from tests.nodding import say
from triggers.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(db) -> Run:
    return builders.run("triage-issue")


def done(run: Run, tier: str, *, waited: float = 0, ago: float = 60, **fields):
    """Asked `ago` seconds before now, and decided after `waited`."""
    at = clock.now() - timedelta(seconds=ago)
    decided = {"decided_at": at + timedelta(seconds=waited)} if tier in tiers.WAITING else {}
    ended = {"settled_at": at + timedelta(seconds=waited)} if fields.get("status") != "awaiting" else {}
    words = {"status": "delivered", "created_at": at, "given": 1, **decided, **ended, **fields}
    return builders.action(run=run, tier=tier, **words)


def counted(since: timedelta = measures.DAY) -> dict:
    return measures.measured(clock.now() - since)


def test_the_share_is_of_everything_that_was_asked_for(run):
    for tier in ("low", "low", "low", "medium"):
        done(run, tier, kind="github.comment")
    (each,) = counted().values()
    assert (each.asked, each.by_itself, each.share) == (4, 3, 0.75)


def test_what_a_rule_denied_asked_nobody_and_is_not_counted(run):
    done(run, "low", kind="github.comment")
    done(run, "medium", kind="github.comment", status="rejected", reason_code="policy_denied", decided_at=None)
    (each,) = counted().values()
    assert (each.asked, each.share) == (1, 1.0)


def test_each_kind_and_handler_is_counted_for_itself(run):
    done(run, "low", kind="github.comment")
    done(run, "medium", kind="github.create_pr", waited=10)
    done(builders.run("other"), "low", kind="github.comment")
    done(None, "low", kind="github.comment")
    assert set(counted()) == {
        ("github.comment", "triage-issue"),
        ("github.create_pr", "triage-issue"),
        ("github.comment", "other"),
        ("github.comment", ""),
    }


def test_the_wait_is_told_by_its_middle_and_its_worst(run):
    for seconds in [10] * 18 + [20, 600, 700]:
        done(run, "medium", waited=seconds, ago=1000)
    (each,) = counted().values()
    assert (each.median, each.p95) == (10, 600)


def test_what_expired_was_edited_and_was_taken_back_is_counted(run, ann, ben):
    done(run, "medium", status="expired", reason_code="expires_at", decided_at=None)
    done(run, "medium", status="expired", reason_code="execute_by")  # people had decided in time
    action = builders.action(
        run=run, by=ann, arguments={"repo": "acme/shop", "base": "main", "title": "T", "files": FILES}
    )
    say(action, ben, arguments={"repo": "acme/shop", "base": "main", "title": "Better", "files": FILES})
    decide.take_back(action, by=ben)
    say(action, ben)
    decide.take_back(action, by=ben)
    (each,) = counted().values()
    assert (each.expired, each.edited, each.taken_back) == (1, 1, 2)


FILES = [{"path": "a.md", "content": "x"}]


def test_what_is_older_is_history(run):
    done(run, "low", ago=measures.DAY.total_seconds() + 60)
    assert counted() == {}


def test_more_than_can_be_told_apart_is_one_row():
    rows = {(f"kind {number}", ""): Measures(asked=1) for number in range(measures.ROWS + 3)}
    bounded = measures.bounded(rows)
    assert len(bounded) == measures.ROWS + 1
    assert bounded[measures.OTHERS, measures.OTHERS].asked == 3


def test_home_shows_them_beside_what_articles_say(run, owner, sign_in):
    done(run, "low", kind="github.comment")
    done(run, "medium", kind="github.create_pr", waited=30)
    page = text_of(sign_in(owner).get("/"))
    assert "50 % 1 of 2 actions asked a person; articles say 70–85 %" in page
    assert "p95 30.0 s" in page
    assert "github.create_pr triage-issue 0 of 1" in page


def test_home_says_when_only_the_newest_were_looked_at(run, owner, sign_in, monkeypatch):
    monkeypatch.setattr(measures, "MOST", 3)
    page = sign_in(owner)
    for tier in ("low", "low"):
        done(run, tier)
    assert "newest" not in text_of(page.get("/"))
    figures.forget()
    for tier in ("low", "medium"):
        done(run, tier)
    told = text_of(page.get("/"))
    assert "of the newest 3 actions asked a person" in told
    assert "last 24 h, the newest 3 of each sort" in told


def test_home_of_an_empty_desk_says_what_will_be_there(owner, sign_in):
    assert "no action was asked for in 24 h; articles say 70–85 %" in text_of(sign_in(owner).get("/"))


def test_prometheus_reads_the_same_by_kind_and_handler(run, ann):
    done(run, "low", kind="github.comment")
    done(run, "medium", kind="github.create_pr", waited=30)
    told = Client().get("/metrics").content.decode()
    of_pull = '{handler="triage-issue",kind="github.create_pr"}'
    assert f"nightdesk_actions_asked{of_pull} 1.0" in told
    assert f"nightdesk_actions_auto_share{of_pull} 0.0" in told
    assert f"nightdesk_approval_wait_median_seconds{of_pull} 30.0" in told
    assert f"nightdesk_approval_wait_p95_seconds{of_pull} 30.0" in told
    for name in ("expired", "edited", "taken_back"):
        assert f"nightdesk_approvals_{name}{of_pull} 0.0" in told
    assert 'nightdesk_approval_wait_median_seconds{handler="triage-issue",kind="github.comment"}' not in told
