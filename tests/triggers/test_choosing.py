"""Lists from either end, and rows that are chosen one by one for a bulk job."""

import json

from project.lib import clock
from tests import builders
from triggers.models import Bulk, DeadLetter, Event


def numbers(browser, address: str) -> list[int]:
    return [row.pk for row in browser.get(address).context["list"].rows]


def test_a_list_is_read_from_either_end(operator):
    made = [builders.event().pk for _ in range(3)]
    assert numbers(operator, "/events") == made[::-1]
    assert numbers(operator, "/events?sort=oldest") == made
    assert numbers(operator, f"/events?sort=oldest&after={made[0]}") == made[1:]
    page = operator.get("/events?sort=oldest&source=github").content.decode()
    assert 'href="?source=github"' in page  # the way back to the newest keeps the filter


def test_a_file_has_the_order_of_its_list(operator):
    made = [builders.event().pk for _ in range(3)]
    told = json.loads(operator.get("/events?sort=oldest&format=json").getvalue())
    assert [row["seq"] for row in told] == made


def test_an_order_nobody_knows_is_said_and_left_out(operator):
    builders.event()
    page = operator.get("/events?sort=colour")
    assert page.status_code == 200
    assert "“sort” can only be oldest; it was left out." in page.content.decode()


def test_chosen_rows_are_what_the_bulk_job_takes(operator):
    made = [builders.event().pk for _ in range(3)]
    page = operator.get("/events").content.decode()
    assert all(f'name="id" value="{pk}" form="chosen"' in page for pk in made)
    trigger = builders.trigger()
    wish = operator.get(f"/bulk/new?verb=run_again&id={made[0]}&id={made[2]}")
    assert wish.context["count"] == 2
    form = {"verb": "run_again", "id": [made[0], made[2]], "triggers": trigger.slug, "upto": made[2]}
    operator.post("/bulk", form)
    job = Bulk.objects.get()
    assert sorted(job.items.values_list("ref", flat=True)) == [made[0], made[2]]


def test_only_what_can_be_taken_can_be_chosen(operator, ben, sign_in):
    ended, live = builders.run(status="succeeded", finished_at=clock.now()), builders.run()
    page = operator.get("/runs").content.decode()
    assert f'name="id" value="{live.pk}"' in page
    assert f'name="id" value="{ended.pk}"' not in page
    assert "data-choose" not in sign_in(ben).get("/runs").content.decode()


def test_letters_of_a_cause_are_chosen_too(operator):
    event = builders.event()
    letters = [DeadLetter.objects.create(**letter(event)) for _ in range(2)]
    page = operator.get("/dead-letters/g/abc").content.decode()
    assert all(f'name="id" value="{row.pk}" form="chosen"' in page for row in letters)
    wish = operator.get(f"/bulk/new?verb=dismiss&status=open&id={letters[0].pk}")
    assert wish.context["count"] == 1


def letter(event: Event) -> dict[str, object]:
    run = builders.run(event=event, status="dead", finished_at=event.received_at)
    at = event.received_at
    told = {"kind": "run", "run": run, "event": event, "fingerprint": "abc", "error_type": "Boom", "message": "no"}
    return {**told, "handler": run.handler, "first_at": at, "last_at": at}


def test_a_cause_has_a_line_of_its_last_day(operator):
    DeadLetter.objects.create(**letter(builders.event()))
    page = operator.get("/dead-letters").content.decode()
    assert 'class="spark"' in page
    assert "By the hour, of the last 24" in page
