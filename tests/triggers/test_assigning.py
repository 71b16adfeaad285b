"""A cause of dead letters is given to one person: the list says who, is narrowed by it, and the log keeps it."""

from django.urls import reverse

from project.lib import clock
from project.people import roles
from project.people.models import User
from triggers import redrive
from triggers.models import Audit, DeadLetter

NOBODY = "/nobody"


def group_of(letter):
    return reverse("dead-letter-group", args=[letter.fingerprint])


def give(browser, letter, name):
    return browser.post(reverse("cause-assign", args=[letter.fingerprint]), {"to": name}, follow=True)


def listed(browser, who):
    page = browser.get(reverse("dead-letters"), {"assignee": who})
    return [cause["fingerprint"] for cause in page.context["groups"]]


def test_whoever_looks_after_a_cause_stands_in_the_list_on_its_page_and_on_each_letter(desk, operator, ann):
    letter = desk.letter
    answer = give(operator, letter, "ann").content.decode()
    assert "ann looks after this cause." in answer
    assert '<option value="ann" selected>' in answer
    for page in (reverse("dead-letters"), reverse("dead-letter", args=[letter.pk])):
        assert "ann looks after it" in operator.get(page).content.decode(), page
    assert '"assignee": "ann"' in operator.get(reverse("dead-letters") + "?format=json").getvalue().decode()


def test_the_list_is_narrowed_to_what_somebody_has_and_to_what_nobody_has(desk, operator):
    now = clock.now()
    other = DeadLetter.objects.create(
        kind="event", event=desk.ignored, fingerprint="f" * 16, error_type="Boom", first_at=now, last_at=now
    )
    give(operator, desk.letter, "ann")
    assert listed(operator, "ann") == [desk.letter.fingerprint]
    assert listed(operator, NOBODY) == [other.fingerprint]
    assert len(listed(operator, ["ann", NOBODY])) == 2
    assert listed(operator, "eve") == []
    give(operator, desk.letter, "")
    assert listed(operator, "ann") == []
    assert len(listed(operator, NOBODY)) == 2


def test_each_change_is_in_the_log_once_with_its_page(desk, operator, ann):
    for name in ("ann", "ann", ""):
        give(operator, desk.letter, name)
    rows = Audit.objects.filter(kind="cause", ref=desk.letter.fingerprint).order_by("pk")
    assert [(row.verb, row.by, row.detail["to"]) for row in rows] == [("assign", ann, "ann"), ("assign", ann, "")]
    assert f'href="{group_of(desk.letter)}"' in operator.get(reverse("audit") + "?subject=cause").content.decode()


def test_only_operators_give_and_only_to_operators(desk, operator, ben, sign_in):
    gone = User.objects.create_user("gone", is_active=False)
    roles.grant(gone, "operator")
    for name in ("ben", "gone", "nobody", "\x00"):
        assert "no active person with the role operator" in give(operator, desk.letter, name).content.decode()
    assert sign_in(ben).post(reverse("cause-assign", args=[desk.letter.fingerprint]), {"to": "ben"}).status_code == 403
    assert not Audit.objects.filter(kind="cause").exists()
    give(operator, desk.letter, "ann")
    looked = sign_in(ben).get(group_of(desk.letter)).content.decode()
    assert "assign-to" not in looked
    assert "Who looks after it" in looked


def test_a_cause_nobody_knows_is_given_to_nobody(desk, operator):
    answer = operator.post(reverse("cause-assign", args=["e" * 16]), {"to": "ann"})
    assert answer.status_code == 302
    assert not Audit.objects.filter(kind="cause").exists()


def test_a_letter_of_tomorrow_is_looked_after_too(desk, operator):
    give(operator, desk.letter, "ann")
    now = clock.now()
    new = DeadLetter.objects.create(
        kind="event",
        event=desk.event,
        fingerprint=desk.letter.fingerprint,
        error_type="KeyError",
        first_at=now,
        last_at=now,
    )
    assert "ann looks after it" in operator.get(reverse("dead-letter", args=[new.pk])).content.decode()


def test_the_page_of_a_cause_says_when_it_was_last_run_again_and_what_came_of_it(desk, operator, ann):
    address = group_of(desk.letter)
    assert "Last run again" not in operator.get(address).content.decode()
    again = redrive.redrive(desk.letter, by=ann)
    page = operator.get(address).content.decode()
    told = page[page.index("Last run again") :].partition("</dl>")[0]
    assert (f"R-{again.pk}" in told, "Queued" in told) == (True, True)
