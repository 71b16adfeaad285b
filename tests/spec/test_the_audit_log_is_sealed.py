"""What was written into the audit log stays as it was: rows are chained after their commit, and any change shows."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django_celery_beat.models import PeriodicTask

from approvals import nods
from approvals.act import act
from approvals.errors import NotSent
from approvals.models import Action, Decision
from approvals.models.action import EVERYBODY
from approvals.unlogged import unlogged
from project import audited, checks_live, desk, periodic, tasks, trouble
from project.lib import clock
from project.people.models import User
from tests import builders, nodding, ruled
from tests.races.together import together
from triggers import sealing
from triggers.models import Audit, Source

migration = importlib.import_module("approvals.migrations.0019_since_when_the_log_has_it_all")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def github(ann: User) -> Source:
    """A source that Ann has changed three times."""
    source = builders.source()
    for word in ("one", "two", "three"):
        Audit.write("change", source, by=ann, fields=["name"], word=word)
    return source


def rewrite(sql: str, *values: object) -> None:
    """As somebody would who has the database to himself: without the guard, which is put back afterwards."""
    guard = "DISABLE TRIGGER" if connection.vendor == "postgresql" else "DROP"
    with connection.cursor() as cursor:
        if guard == "DROP":
            [made] = cursor.execute("SELECT sql FROM sqlite_master WHERE name = 'sealed_rows_stay'").fetchone()
            cursor.execute("DROP TRIGGER sealed_rows_stay")
        else:
            made = "ALTER TABLE triggers_audit ENABLE TRIGGER sealed_rows_stay"
            cursor.execute("ALTER TABLE triggers_audit DISABLE TRIGGER sealed_rows_stay")
        cursor.execute(sql, values)
        cursor.execute(made)


def asked(**fields: Any) -> Action:
    """An order that was asked for, and of which the log tells so."""
    action = builders.action("shop.order", **fields)
    Audit.write("propose", action)
    return action


def test_a_round_of_the_desk_seals_what_was_committed_and_nothing_twice(github: Source) -> None:
    desk.tick()
    numbers = list(Audit.objects.order_by("pk").values_list("number", flat=True))
    assert numbers == [1, 2, 3]
    first = sealing.head()
    assert (first.number, Audit.objects.get(number=3).hash) == (3, first.hash)
    desk.tick()
    assert sealing.head() == first == sealing.verify()
    Audit.write("archive", github)
    assert sealing.seal() == 1
    assert sealing.verify().number == 4


def test_more_rows_than_a_piece_are_one_chain(github: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "PIECE", 2)
    assert sealing.seal() == 3
    assert sealing.verify().number == 3


def test_a_row_that_becomes_visible_late_is_sealed_after_those_with_higher_ids(github: Source) -> None:
    late = Audit.objects.order_by("pk").first()
    assert late is not None
    Audit.objects.filter(pk=late.pk).delete()  # its transaction has not committed yet
    sealing.seal()
    late.save(force_insert=True)
    sealing.seal()
    assert list(Audit.objects.order_by("number").values_list("pk", flat=True))[-1] == late.pk
    assert sealing.verify().number == 3


def test_a_sealed_row_cannot_be_changed_an_unsealed_one_only_before(github: Source) -> None:
    Audit.objects.filter(verb="change").update(verb="changed")
    sealing.seal()
    with pytest.raises(IntegrityError, match="never changed"), transaction.atomic():
        Audit.objects.filter(number=2).update(verb="archive")
    assert sealing.verify().number == 3


@pytest.mark.parametrize(
    ("crime", "words"),
    [
        ("UPDATE triggers_audit SET verb = 'archive' WHERE number = 2", r"number 2 \(row .*\) was changed"),
        ("UPDATE triggers_audit SET by_id = NULL WHERE number = 1", r"number 1 \(row .*\) was changed"),
        ("UPDATE triggers_audit SET detail = '{}' WHERE number = 3", r"number 3 \(row .*\) was changed"),
        ("DELETE FROM triggers_audit WHERE number = 1", "number 1 is missing"),
        ("DELETE FROM triggers_audit WHERE number = 2", "number 2 is missing"),
        ("DELETE FROM triggers_audit WHERE number = 3", "everything after number 2 is missing"),
        ("DELETE FROM triggers_audit", "everything after number 0 is missing"),
        ("UPDATE triggers_audit SET number = number + 10 WHERE number = 3", "number 3 is missing"),
    ],
)
def test_whatever_was_changed_or_removed_is_found(github: Source, crime: str, words: str) -> None:
    sealing.seal()
    rewrite(crime)
    with pytest.raises(sealing.BrokenChain, match=words):
        sealing.verify()


def test_a_row_that_was_put_in_is_found(github: Source) -> None:
    sealing.seal()
    forged = Audit(at=Audit.objects.get(number=3).at, verb="approve", kind="action", ref="7", number=4)
    forged.hash = sealing.link("0" * 64, forged, 4)
    forged.save()
    with pytest.raises(sealing.BrokenChain, match=r"number 4 .* put in"):
        sealing.verify()


def test_who_rewrites_the_whole_chain_does_not_pass_through_a_head_that_was_written_down(github: Source) -> None:
    sealing.seal()
    written_down = sealing.head()
    rewrite("UPDATE triggers_audit SET number = NULL, hash = ''")
    rewrite("DELETE FROM triggers_pulse WHERE name = %s", sealing.HEAD)
    Audit.objects.filter(detail__word="two").update(verb="nothing of importance")
    sealing.seal()
    assert sealing.verify().number == 3, "alone the new chain is whole"
    with pytest.raises(sealing.BrokenChain, match="number 3 does not have the hash that was written down"):
        sealing.verify(known=written_down)


def test_numbers_that_no_canonical_text_can_hold_are_sealed_too(github: Source) -> None:
    Audit.write("ring", github, event=2**63, share=0.1)
    assert sealing.seal() == 4
    assert sealing.verify().number == 4


@pytest.mark.postgres
def test_two_that_seal_at_once_make_one_chain(github: Source) -> None:
    for number in range(40):
        Audit.write("change", github, number=number)
    sealed = together(*[sealing.seal] * 4)
    assert sum(sealed) == 43
    assert sealing.verify().number == 43


def test_the_command_walks_the_chain_and_names_the_first_broken_link(
    github: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    sealing.seal()
    Audit.write("archive", github)
    call_command("verify_audit")
    told = capsys.readouterr().out
    assert f"3 rows are as they were sealed; head {sealing.head()}" in told
    assert "1 row is not sealed yet" in told
    call_command("verify_audit", known=str(sealing.head()))
    rewrite("UPDATE triggers_audit SET verb = 'archive' WHERE number = 2")
    with pytest.raises(CommandError, match="broken at its first wrong link: number 2") as refused:
        call_command("verify_audit")
    assert refused.value.returncode == 1
    with pytest.raises(CommandError, match="number 2"):
        call_command("verify_audit", known="3:" + "a" * 64)
    with pytest.raises(CommandError, match="--known takes what this command printed"):
        call_command("verify_audit", known="three")


@pytest.mark.parametrize("fields", [{"revision": 2}, {"digest": "sha256:other"}, {"verdict": "reject"}, None])
def test_the_command_names_what_was_done_without_a_nod_to_these_bytes(
    ann: User, ben: User, fields: dict[str, Any] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written past every door: a decision about something else, or none at all."""
    with nodding.serving():
        action = asked(by=ann)
        nodding.say(action, ben)
        asked(by=ann, tier="low", status="approved")
        call_command("verify_audit")
        assert "everything that was done and needs a nod has one" in capsys.readouterr().out
    Action.objects.filter(pk=action.pk).update(status="delivered", settled_at=action.created_at)
    rows = Decision.objects.filter(action=action)
    rows.update(**fields) if fields else rows.delete()
    with pytest.raises(CommandError, match=rf"fewer yeses than it needed: A-{action.pk}$"):
        call_command("verify_audit")


@pytest.mark.parametrize(
    "changed",
    [
        lambda action, eve: action.update(needed=2, given=2),
        lambda action, eve: action.update(requester_chain=list(User.objects.values_list("pk", flat=True))),
        lambda action, eve: Decision.objects.update(by=eve),
        lambda action, eve: Audit.objects.filter(verb="approve").delete(),
    ],
    ids=["one yes of two", "of who had asked", "of somebody else than the log says", "of which the log says nothing"],
)
def test_the_command_counts_each_yes_again(ann: User, ben: User, eve: User, changed: Callable[..., object]) -> None:
    with nodding.serving("high"):
        action = asked(by=ann, tier="high", four_eyes=True)
        nodding.say(action, ben, stepped_up=True, reason="seen")
        call_command("verify_audit")
    changed(Action.objects.filter(pk=action.pk), eve)
    with pytest.raises(CommandError, match=rf"fewer yeses than it needed: A-{action.pk}$"):
        call_command("verify_audit")


def test_an_answer_of_who_asked_is_no_missing_nod(ann: User) -> None:
    """It grants nothing, also where a rule made the question high, and where so much is behind it that anybody may."""
    ruled.rule("careful", "action.kind == 'human.question'", tier="high", reviewers=["viewer"])
    for chain in ([ann.pk], [ann.pk, EVERYBODY]):
        asked = {"arguments": {"question": "Which size?"}, "take_back_for": 0, "requester_chain": chain}
        action = builders.action("human.question", by=ann, tier="high", **asked)
        nodding.say(action, ann, answer="M", stepped_up=True, reason="I know it")
        nodding.settle()
    assert set(Action.objects.values_list("status", flat=True)) == {"delivered"}
    assert not list(nods.without_a_nod())


def test_a_desk_that_has_done_nothing_yet_needs_no_mark_to_miss_a_row() -> None:
    migration.mark(apps, None)
    assert not Audit.objects.exists()
    Audit.objects.filter(ref=str(asked().pk)).delete()
    assert len(list(unlogged())) == 1


class TestARowTakenOutBeforeItWasSealed:
    """The chain begins at the seal: what is gone by then leaves no hole in it, but the deed is still there."""

    @pytest.fixture
    def action(self, ben: User, capsys: pytest.CaptureFixture[str]) -> Action:
        """The first one of its desk: asked for, approved, tried twice and done."""
        builders.connection("shop", practice=False)
        with nodding.serving() as shop, nodding.handling(lambda run: act(run, "order", kind="shop.order")):
            shop.faults[:] = [NotSent("busy")]
            builders.run("story")
            nodding.settle()
            nodding.say(Action.objects.awaiting().get(), ben)
            nodding.settle()
            Action.objects.filter(status="approved").update(not_before=clock.now())
            nodding.settle()
        call_command("verify_audit")
        assert "and the log has everything that became of it" in capsys.readouterr().out
        last = Action.objects.latest("pk")
        assert (last.status, last.attempts.count()) == ("delivered", 2)
        return last

    @pytest.mark.parametrize(
        ("verb", "told"),
        [("propose", "the proposal of"), ("start", "a try of"), ("deliver", "the end of")],
    )
    def test_is_missed(self, action: Action, verb: str, told: str) -> None:
        """Also where it is the only start that there ever was."""
        Audit.objects.filter(kind="action", ref=str(action.pk), verb=verb).delete()
        sealing.seal()
        sealing.verify()
        with pytest.raises(CommandError, match=rf"lacks what happened: {told} A-{action.pk}$"):
            call_command("verify_audit")

    def test_is_not_looked_for_from_before_the_log_told_of_it(self, action: Action) -> None:
        """The upgrade of a desk that has older actions says since when; that row is sealed as any other."""
        Audit.objects.filter(verb="start").delete()
        migration.mark(apps, None)
        call_command("verify_audit")
        with nodding.serving():
            Audit.objects.filter(verb="propose", ref=str(asked().pk)).delete()
        with pytest.raises(CommandError, match=r"lacks what happened: the proposal of A-"):
            call_command("verify_audit")
        sealing.seal()
        with pytest.raises(IntegrityError), transaction.atomic():
            Audit.objects.filter(kind="audit").update(at=clock.now())

    def test_is_missed_too_where_it_was_a_no(self, action: Action, ann: User, ben: User) -> None:
        with nodding.serving(), nodding.handling(lambda run: act(run, "order", kind="shop.order")):
            builders.run("story")
            nodding.settle()
            refused = Action.objects.awaiting().get()
            nodding.say(refused, ben, "reject")
        no = Audit.objects.filter(kind="action", ref=str(refused.pk), verb="reject", by=ben).order_by("pk").first()
        no.delete()
        with pytest.raises(CommandError, match=rf"a verdict on A-{refused.pk}"):
            call_command("verify_audit")


def test_the_desk_itself_looks_every_day_and_every_page_says_what_it_found(
    ann: User, ben: User, sign_in: Callable[[User], Client]
) -> None:
    periodic.ensure()
    daily = PeriodicTask.objects.get(name="audit")
    assert (daily.task, daily.interval.period, daily.interval.every) == ("project.tasks.audit", "seconds", 86400)
    with nodding.serving():
        action = asked(by=ann)
        nodding.say(action, ben)
    tasks.audit()
    trouble.forget()
    assert "The audit log does not fit" not in sign_in(ben).get("/runs").text
    Decision.objects.all().delete()
    tasks.audit()
    trouble.forget()
    assert "The audit log does not fit what was done." in sign_in(ben).get("/runs").text
    assert f"fewer yeses than it needed: A-{action.pk}" in checks_live.audit()
    sealing.seal()
    rewrite("UPDATE triggers_audit SET verb = 'archive' WHERE number = 1")
    assert "broken at its first wrong link: number 1" in audited.look()[0]
    trouble.forget()


def test_the_page_says_how_far_the_log_is_sealed(
    owner: User, github: Source, sign_in: Callable[[User], Client]
) -> None:
    browser = sign_in(owner)
    assert "Nothing is sealed yet" in browser.get("/audit").content.decode()
    sealing.seal()
    Audit.write("archive", github)
    page = browser.get("/audit").content.decode()
    assert "Sealed up to number 3" in page
    assert sealing.head().hash in page
    assert "1 row is not sealed yet" in page
    assert sealing.head().hash in browser.get("/settings/checks").content.decode()
