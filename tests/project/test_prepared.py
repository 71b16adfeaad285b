"""A statement that is compiled once does what the ORM would do each time, and refuses what has more than one form."""

from datetime import timedelta

import pytest

from project.lib import clock
from project.lib.prepared import Both, Insert, InsertHeld, Select, Update
from project.lib.states import IllegalMove
from tests import builders
from triggers.models import Run, Step

pytestmark = pytest.mark.django_db


def test_it_reads_the_same_rows_with_what_is_selected_along():
    run, other = builders.run("story"), builders.run("story", priority=3)
    by_number = Select(lambda pk: Run.objects.select_related("event", "trigger").filter(pk=pk), pk=int)
    for each in (run, other, run):
        [found] = by_number(pk=each.pk)
        assert (found, found.priority, found.event) == (each, each.priority, each.event)
        assert found.__dict__["queued_at"] == Run.objects.get(pk=each.pk).queued_at
    assert by_number(pk=0) == []


def test_the_tuples_hold_python_values_not_the_databases_own():
    run = builders.run("story", error={"type": "Lost"})
    rows = Select(
        lambda handler, at: Run.objects.filter(handler=handler, queued_at__lte=at).values_list("queued_at", "error"),
        handler=str,
        at=type(run.queued_at),
    )
    assert rows(handler="story", at=run.queued_at) == [(run.queued_at, {"type": "Lost"})]
    assert rows(handler="story", at=run.queued_at - timedelta(seconds=1)) == []
    assert rows(handler="other", at=run.queued_at) == []


def test_it_changes_the_row_that_is_meant_and_says_how_many():
    run, other = builders.run("story"), builders.run("story")
    rename = Update(lambda pk, to: (Run.objects.filter(pk=pk), {"reason": to}), pk=int, to=str)
    assert rename(pk=run.pk, to="it's 100 %") == 1
    assert rename(pk=0, to="nobody") == 0
    assert [each.reason for each in Run.objects.order_by("pk")] == ["it's 100 %", other.reason]


def test_a_row_written_at_once_is_the_row_the_model_would_write():
    run, now = builders.run("story"), clock.now()
    facts = {"run": run, "seq": 1, "fence": 1, "started_at": now, "error": {"type": "Lost", "message": "ß"}}
    Insert(Step, *(field.attname for field in Step._meta.concrete_fields if not field.primary_key))(
        Step(name="one", **facts)
    )
    Step.objects.create(name="two", **facts)
    one, two = Step.objects.order_by("pk").values()
    assert {**one, "id": 0, "name": ""} == {**two, "id": 0, "name": ""}


@pytest.mark.django_db(transaction=True)
def test_a_row_is_written_beside_one_that_is_held_or_not_at_all():
    run, before = builders.run("story"), clock.now()
    add = Insert(Step, *(field.attname for field in Step._meta.concrete_fields if not field.primary_key))
    locked = Run.objects.select_for_update(no_key=True)
    beside = InsertHeld(add, lambda pk: locked.filter(pk=pk).values_list("handler", "error"), pk=int)
    step = Step(run=run, name="one", seq=1, fence=1, started_at=before, error={"type": "Lost"})
    assert beside(step, pk=0) == []
    assert not Step.objects.exists()
    [(handler, error, now)] = beside(step, pk=run.pk)
    assert (handler, error) == ("story", None)
    assert before <= now <= clock.now()
    [found] = Step.objects.all()
    assert (found.name, found.error, found.started_at, found.blob) == ("one", {"type": "Lost"}, before, None)


def test_two_questions_are_answered_at_once_each_with_its_own_values():
    run, other = builders.run("story", priority=3), builders.run("tale", priority=4)
    rows = Run.objects.values_list("pk", "priority")
    least = Select(lambda pk, most: rows.filter(pk=pk, priority__lte=most).order_by("pk")[:1], pk=int, most=int)
    beyond = Select(lambda most, pk: rows.filter(priority__gt=most).exclude(pk=pk), pk=int, most=int)
    both = Both(least, beyond)
    assert both(pk=run.pk, most=3) == [(run.pk, 3), (other.pk, 4)]
    assert both(pk=other.pk, most=3) == []


def test_a_statement_that_has_more_than_one_form_is_refused_when_it_is_made():
    many = Select(lambda most: Run.objects.all()[:most], most=int)
    with pytest.raises(TypeError, match="one form"):
        many(most=3)


def test_a_parameter_that_is_not_used_is_a_slip():
    with pytest.raises(TypeError, match="every parameter"):
        Select(lambda pk, fence: Run.objects.filter(pk=pk), pk=int, fence=int)(pk=1, fence=1)


def test_a_move_that_empties_a_field_leaves_the_next_one_free_to_fill_it():
    first, second = (builders.run("story", status="running", leased_until=clock.now()) for _ in range(2))
    first.move("wait", leased_until=None, wake_at=None)
    at = clock.now() + timedelta(hours=1)
    second.move("wait", leased_until=None, wake_at=at)
    assert [run.wake_at for run in Run.objects.order_by("pk")] == [None, at]
    with pytest.raises(IllegalMove):
        second.move("wait", leased_until=None, wake_at=at)
