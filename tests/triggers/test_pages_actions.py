"""What people press on the machine's pages: run again, cancel, choose, dismiss, admit."""

import json

import pytest
from django.urls import reverse

from approvals.models import Act
from project.lib import clock
from tests import builders
from triggers import search
from triggers.models import Audit, Event, Run, Wait


def test_a_letter_runs_again_from_its_failed_step_and_leads_to_the_new_run(desk, operator, ann):
    answer = operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), {"from": "failed_step"})
    desk.letter.refresh_from_db()
    new = desk.letter.redriven_as
    assert answer.url == reverse("run", args=[new.pk])
    assert (new.rerun_of, new.requester) == (desk.dead, ann)
    assert [step.name for step in new.steps.all()] == ["read the issue"]
    assert f"R-{new.pk}" in operator.get(reverse("dead-letter", args=[desk.letter.pk])).content.decode()


def test_the_second_press_says_that_it_was_done_already(desk, operator):
    page = reverse("dead-letter-redrive", args=[desk.letter.pk])
    operator.post(page)
    answer = operator.post(page, follow=True)
    assert Run.objects.filter(rerun_of=desk.dead).count() == 1
    assert "already" in answer.content.decode()


def test_an_editor_left_as_it_was_edits_nothing(desk, operator):
    """JS-04: numbers beyond 2^53 are not rounded on the way through the page."""
    text = desk.dead.event.data_text
    operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), {"from": "start", "data": text})
    assert Run.objects.get(rerun_of=desk.dead).data_json is None


def test_edited_data_goes_into_the_new_run_and_the_difference_is_shown(desk, operator):
    edited = '{"id": 3544790567247868103}'
    operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), {"from": "start", "data": edited})
    new = Run.objects.get(rerun_of=desk.dead)
    assert json.loads(new.data_json) == {"id": 3544790567247868103}
    assert json.loads(desk.dead.event.data_text) == {"id": 3544790567247868102}
    text = operator.get(reverse("run", args=[new.pk]) + "?tab=payload").content.decode()
    assert "3544790567247868102" in text
    assert "3544790567247868103" in text


def test_data_that_is_no_json_is_said_and_not_lost(desk, operator):
    answer = operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), {"data": '{"mine": oops'})
    assert answer.status_code == 422
    text = answer.content.decode()
    assert "is not JSON" in text
    assert "{&quot;mine&quot;: oops" in text
    desk.letter.refresh_from_db()
    assert desk.letter.status == "open"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"n": NaN}', "NaN is not JSON"),
        ('"\\ud800"', "half a surrogate pair"),
        ('"\\u0000"', "NUL"),
        ("[" * 200 + "]" * 200, "nested over 128 levels"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_edited_data_that_no_database_keeps_is_said_and_not_run(desk, operator, text, said):
    answer = operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), {"data": text})
    assert answer.status_code == 422
    assert said in answer.content.decode()
    desk.letter.refresh_from_db()
    assert desk.letter.status == "open"


def test_a_letter_is_dismissed_only_with_a_note(desk, operator, ann):
    page = reverse("dead-letter-dismiss", args=[desk.letter.pk])
    operator.post(page, {"reason": "  "})
    desk.letter.refresh_from_db()
    assert desk.letter.status == "open"
    operator.post(page, {"reason": "fixed by hand"})
    desk.letter.refresh_from_db()
    assert (desk.letter.status, desk.letter.reason, desk.letter.settled_by) == ("dismissed", "fixed by hand", ann)


def test_a_run_is_cancelled_and_says_by_whom(desk, operator, ann):
    operator.post(reverse("run-cancel", args=[desk.waiting.pk]))
    desk.waiting.refresh_from_db()
    assert desk.waiting.status == "cancelled"
    assert Audit.objects.filter(verb="cancel", by=ann).exists()
    again = operator.post(reverse("run-cancel", args=[desk.waiting.pk]), follow=True)
    assert "ended" in again.content.decode()


def test_a_run_runs_again_from_a_step_and_both_stay(desk, operator):
    operator.post(reverse("run-again", args=[desk.done.pk]), {"from_step": "diagnose"})
    new = Run.objects.get(rerun_of=desk.done)
    assert [step.name for step in new.steps.order_by("seq")] == ["read the issue", "log"]
    history = operator.get(reverse("run", args=[new.pk]) + "?tab=history").content.decode()
    assert f"R-{desk.done.pk}" in history


def test_an_event_that_matched_nothing_can_be_run_all_the_same(desk, operator):
    answer = operator.post(reverse("event-run-again", args=[desk.ignored.pk]), {"trigger": "triage-issue"})
    run = Run.objects.get(event=desk.ignored)
    assert answer.url == reverse("run", args=[run.pk])
    assert f"R-{run.pk}" in operator.get(reverse("event", args=[desk.ignored.pk])).content.decode()


def test_why_a_trigger_did_not_match_is_on_the_page_of_the_event(desk, operator):
    text = operator.get(reverse("event", args=[desk.ignored.pk])).content.decode()
    assert "event.data.ref == &quot;main&quot;" in text
    assert "Not matched" in text


def test_a_blocked_run_waits_for_a_choice(desk, operator):
    error = {"type": "Blocked", "message": "step “a” was a call, the code now asks for a sleep", "traceback": ""}
    run = builders.run(event=builders.event(), trigger=desk.trigger, status="blocked", error=error)
    text = operator.get(reverse("run", args=[run.pk])).content.decode()
    assert "the code now asks for a sleep" in text
    operator.post(reverse("run-unblock", args=[run.pk]), {"choice": "continue"})
    run.refresh_from_db()
    assert run.status == "queued"


def test_a_waiting_run_says_for_what_and_offers_to_decide(desk, operator):
    text = operator.get(reverse("run", args=[desk.waiting.pk])).content.decode()
    action = desk.waiting.actions.get()
    assert "Waits for a person" in text
    assert reverse("action", args=[action.pk]) in text
    assert "Decide now" in text
    assert Wait.objects.filter(run=desk.waiting, status="pending").exists()


def test_whoever_may_only_look_sees_no_button_and_is_refused(desk, ben, sign_in):
    browser = sign_in(ben)
    assert (
        "Run again</button></form>" not in browser.get(reverse("dead-letter", args=[desk.letter.pk])).content.decode()
    )
    for address in (
        reverse("dead-letter-redrive", args=[desk.letter.pk]),
        reverse("dead-letter-dismiss", args=[desk.letter.pk]),
        reverse("run-cancel", args=[desk.waiting.pk]),
        reverse("run-again", args=[desk.done.pk]),
        reverse("event-run-again", args=[desk.event.pk]),
    ):
        assert browser.post(address, {"reason": "x", "trigger": "triage-issue"}).status_code == 403
    assert Run.objects.filter(rerun_of__isnull=False).count() == 0


def test_filters_live_in_the_address_and_what_they_cannot_use_is_said(desk, operator):
    page = operator.get(reverse("events") + "?status=ignored&colour=red&since=yesterday")
    text = page.content.decode()
    assert [event.pk for event in page.context["list"].rows] == [desk.ignored.pk]
    assert "“colour” is no filter" in text
    assert "“since” is a time such as" in text
    assert "1 of" in text


@pytest.mark.parametrize(
    "query", ["after=x", "rows=-1", "rows=999999999999999999999", "since=2026-99-99", "event=E-x", "q=%00"]
)
def test_no_address_breaks_a_list(desk, operator, query):
    for name in ("events", "runs", "dead-letters"):
        assert operator.get(f"{reverse(name)}?{query}").status_code == 200


def test_fifty_rows_more_at_a_time_and_none_twice(desk, operator):
    """PG-01: rows that arrive while one reads move nothing to another page."""
    for number in range(120):
        builders.event(subject=f"many/{number}")
    first = operator.get(reverse("events"))
    assert len(first.context["list"].rows) == 50
    more = operator.get(reverse("events") + first.context["list"].more)
    assert [row.pk for row in more.context["list"].rows][:50] == [row.pk for row in first.context["list"].rows]
    assert len(more.context["list"].rows) == 100
    last = first.context["list"].rows[-1].pk
    builders.event(subject="new")
    below = operator.get(f"{reverse('events')}?after={last}").context["list"].rows
    assert below[0].pk < last
    assert not {row.pk for row in below} & {row.pk for row in first.context["list"].rows}


def test_a_refused_delivery_that_still_proves_nothing_stays_refused(desk, operator):
    refusal = desk.source.refusals.get(reason="not_authentic")
    answer = operator.post(reverse("refusal-admit", args=["github", refusal.pk]), follow=True)
    assert answer.status_code == 200
    refusal.refresh_from_db()
    assert refusal.admitted_at is None


def test_parts_of_words_are_looked_for_in_the_newest_rows_and_words_and_numbers_anywhere(desk, operator, monkeypatch):
    monkeypatch.setattr(search, "REACH", 3)
    old = builders.event(type="very.old")
    for number in range(5):
        builders.event(subject=f"new/{number}")
    search.index()
    part = operator.get(f"{reverse('events')}?q=ery.ol")
    assert part.context["list"].rows == []
    assert "parts of words in the newest 3 events" in part.content.decode()
    for question in (f"E-{old.pk}", "very.old"):
        rows = operator.get(f"{reverse('events')}?q={question}").context["list"].rows
        assert [row.pk for row in rows] == [old.pk]


def edit_page(desk):
    return reverse("dead-letter-edit", args=[desk.letter.pk])


def test_the_editor_lays_the_data_out_without_touching_a_number(desk, operator):
    text = operator.get(edit_page(desk)).content.decode()
    assert "{\n  &quot;id&quot;: 3544790567247868102\n}" in text
    assert "Nothing yet" in text


def test_showing_the_difference_changes_nothing_and_keeps_what_was_typed(desk, operator):
    typed = {"data": '{"id": 1}', "reason": "the wrong id", "from": "failed_step"}
    answer = operator.post(edit_page(desk), typed)
    text = answer.content.decode()
    assert answer.status_code == 200
    assert ("del", '-  "id": 3544790567247868102') in answer.context["difference"]
    assert ("add", '+  "id": 1') in answer.context["difference"]
    assert "the wrong id" in text
    assert 'value="failed_step" checked' in text
    assert not Run.objects.filter(rerun_of=desk.dead).exists()
    assert operator.head(edit_page(desk)).status_code == 200


def test_what_is_no_json_is_said_with_line_and_column(desk, operator):
    answer = operator.post(edit_page(desk), {"data": '{\n  "id": oops\n}'})
    assert answer.status_code == 422
    assert "Line 2, column 9" in answer.content.decode()
    assert "&quot;id&quot;: oops" in answer.content.decode()


@pytest.mark.parametrize("place", ["dead-letter-edit", "dead-letter-redrive"])
def test_an_escape_json_does_not_know_is_said_with_line_and_column(desk, operator, place):
    answer = operator.post(reverse(place, args=[desk.letter.pk]), {"data": '{"a":\n "\\x"}'})
    assert answer.status_code == 422
    assert "Line 2, column 3" in answer.content.decode()
    assert "&quot;\\x&quot;}" in answer.content.decode()


@pytest.mark.parametrize("place", ["dead-letter-edit", "dead-letter-redrive"])
def test_a_draft_that_is_too_large_is_said_and_read_no_further(desk, operator, place):
    draft = '{"a": "' + '\\"' * 300_000
    answer = operator.post(reverse(place, args=[desk.letter.pk]), {"data": draft})
    assert answer.status_code == 422
    assert "This is over 512 KB" in answer.content.decode()


def test_data_that_was_removed_is_no_mistake_of_who_looks(desk, operator):
    Event.objects.filter(pk=desk.dead.event_id).update(data_json="", pruned_at=clock.now())
    assert operator.get(edit_page(desk)).status_code == 200
    assert operator.post(edit_page(desk), {"data": ""}).status_code == 200


def test_the_new_run_says_who_edited_its_data_and_why_and_the_original_stays(desk, operator, ann):
    before = desk.dead.event.data_text
    typed = {"data": '{"id": 1}', "from": "start", "reason": "the wrong id"}
    operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), typed)
    new = Run.objects.get(rerun_of=desk.dead)
    page = operator.get(reverse("run", args=[new.pk])).content.decode()
    assert "Run again with edited data by ann" in page
    assert "the wrong id" in page
    desk.dead.refresh_from_db()
    assert (desk.dead.status, desk.dead.data_json, desk.dead.event.data_text) == ("dead", None, before)
    assert "edited data" not in operator.get(reverse("run", args=[desk.dead.pk])).content.decode()
    assert "Run again with edited data" in operator.get(reverse("dead-letter", args=[desk.letter.pk])).content.decode()


def test_a_run_that_repeats_an_edited_one_names_the_edit(desk, operator):
    operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), {"data": "[1]", "from": "start"})
    edited = Run.objects.get(rerun_of=desk.dead)
    Run.objects.filter(pk=edited.pk).update(status="succeeded", finished_at=edited.queued_at)
    operator.post(reverse("run-again", args=[edited.pk]))
    page = operator.get(reverse("run", args=[Run.objects.get(rerun_of=edited).pk])).content.decode()
    assert f">R-{edited.pk}</a> by ann" in page


def test_null_is_an_edit_too(desk, operator):
    operator.post(reverse("dead-letter-redrive", args=[desk.letter.pk]), {"data": "null", "from": "start"})
    assert Run.objects.get(rerun_of=desk.dead).data_json == "null"


def test_a_letter_that_is_settled_is_not_edited_any_more(desk, operator):
    operator.post(reverse("dead-letter-dismiss", args=[desk.letter.pk]), {"reason": "a test"})
    assert operator.get(edit_page(desk)).url == reverse("dead-letter", args=[desk.letter.pk])


def test_the_editor_is_for_those_who_may_run_again_and_see_payloads(desk, ben, sign_in):
    assert sign_in(ben).get(edit_page(desk)).status_code == 403


def test_what_was_delivered_is_offered_and_sent_again_only_when_ticked(desk, operator, ann):
    builders.step(desk.dead, 2, name="open the fix", kind="act", result_json='{"action":1,"result":{}}')
    action = builders.action(run=desk.dead, status="delivered", settled_at=clock.now())
    Act.objects.create(run=desk.dead, name="open the fix", action=action, digest=action.digest)
    text = operator.get(edit_page(desk)).content.decode()
    assert "Send once more what was delivered?" in text
    assert f"A-{action.pk}" in text
    page = reverse("dead-letter-redrive", args=[desk.letter.pk])
    refused = operator.post(page, {"data": "[2]", "send_again": "no such step"})
    assert refused.status_code == 422
    assert "no step" in refused.content.decode()
    operator.post(page, {"from": "failed_step", "send_again": "open the fix"})
    new = Run.objects.get(rerun_of=desk.dead)
    assert new.send_again == ["open the fix"]
    assert [kept.name for kept in new.steps.all()] == ["read the issue"]
