"""What came in is found by its words within seconds, on either database, by whoever may see it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from project import desk
from project.people.models import User
from tests import builders
from triggers import search
from triggers.models import Event, EventWords

pytestmark = pytest.mark.django_db(transaction=True)
API = "/api/v1"


def came(data: Any, **fields: Any) -> int:
    return builders.event(data=data, **fields).pk


def found(question: str, *, payloads: bool = True) -> list[int]:
    return list(
        Event.objects.filter(search.matching(question, payloads=payloads)).order_by("pk").values_list("pk", flat=True)
    )


@pytest.mark.parametrize(
    "question",
    [
        "77120",
        "order_id:77120",
        "order id 771",
        "ANN@example.org",
        "ann example",
        "acme/shop",
        "shop",
        "straße",
        "STRASSE",
        "取消",
        "已取消",
        "naïve",
        "second",
        "-42170815",
        "x1y2",
        "1.5",
        "a&b | !c <-> 'd\" * (",
    ],
)
def test_whole_words_and_beginnings_are_found_wherever_they_stand(question: str) -> None:
    data = {
        "order_id": 77120,
        "by": "Ann@Example.org",
        "repo": {"name": "acme/shop-front"},
        "where": ["Lange Straße", "naïve"],
        "note": "订单已取消",
        "lines": "first\nsecond",
        "n": -42170815,
        "hash": "x1y2z3",
        "rate": 1.5,
        "odd": "a&b | !c <-> 'd\" * (e)",
    }
    wanted = came(data)
    escaped = builders.event(raw=json.dumps(data).encode("ascii")).pk
    other = came({"order_id": 99, "note": "订单", "n": 43})
    desk.tick()
    assert found(question) == [wanted, escaped]
    assert other not in found(question)


@pytest.mark.parametrize(
    "question", ["7120", "77120 nobody", "id:order", "消取", "'; DROP TABLE--", '"', "*", "(", "\\"]
)
def test_what_is_not_there_is_not_found(question: str) -> None:
    came({"order_id": 77120, "note": "取消"})
    desk.tick()
    assert found(question) == []


def test_parts_of_a_type_or_subject_are_found_at_once() -> None:
    wanted = came({}, type="github.issues.opened", subject="orders/77120")
    assert found("issues.op") == found("7712") == [wanted]


def test_a_viewer_finds_facts_and_no_payload(ann: User, ben: User, with_token: Callable[..., Client]) -> None:
    came({"card": "4711"}, subject="orders/7")
    desk.tick()
    reader, operator = with_token(ben, "read"), with_token(ann, "read", "operate")

    def seen(client: Client, question: str) -> int:
        return len(client.get(f"{API}/events", {"q": question}).json()["items"])

    assert (seen(reader, "4711"), seen(operator, "4711")) == (0, 1)
    assert (seen(reader, "orders"), seen(operator, "orders 4711")) == (1, 1)


def test_the_page_finds_numbers_and_words_and_keeps_payloads_from_viewers(ann: User, ben: User, sign_in: Any) -> None:
    wanted = came({"card": "4711"})
    came({})
    desk.tick()
    for question, rows in ((f"E-{wanted}", 1), ("4711", 1), ("nothing", 0)):
        assert sign_in(ann).get("/events", {"q": question}).content.decode().count("data-row") == rows
    assert sign_in(ben).get("/events", {"q": "4711"}).content.decode().count("data-row") == 0


def test_words_and_other_filters_narrow_together_and_pages_go_on(ann: User, sign_in: Any) -> None:
    wanted = [came({"city": "Paris"}, status="ignored" if at % 2 else "routed") for at in range(10)]
    desk.tick()
    browser = sign_in(ann)
    first = browser.get(f"{API}/events", {"q": "paris", "status": "ignored", "limit": 3}).json()
    rest = browser.get(f"{API}/events", {"q": "paris", "status": "ignored", "after": first["next"]}).json()
    assert [item["seq"] for item in [*first["items"], *rest["items"]]] == wanted[1::2][::-1]
    assert rest["next"] is None


def test_an_event_that_becomes_visible_late_is_found_too(later: Callable[..., None]) -> None:
    came({"n": "first"})
    desk.tick()
    late = came({"n": "late"}, received_at=Event.objects.get().received_at)
    desk.tick()
    assert found("late") == [late]
    assert search.index() == 0


def test_two_rounds_at_once_and_large_payloads_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    came({"words": ["again"] * 5 + [f"w{number}" for number in range(search.MOST_WORDS)], "last": "never"})
    builders.event(raw=b"\xff\xfe no text", data_json=None)
    events = search.wordless(search.BEGINNING)
    desk.tick()
    monkeypatch.setattr(search, "wordless", lambda reached: events)
    assert search.index() == 2, "read before the other round wrote"
    assert EventWords.objects.count() == 2
    assert len(found("again")) == 1
    assert found("never") == [], "only so many words of one payload"


def test_a_letter_that_becomes_eighteen_is_no_reason_to_stop() -> None:
    """As it is folded; PostgreSQL takes a MiB of different words."""
    words = [f"\ufdfa{chr(0x4E00 + n % 0x5000)}\ufdfa{n}" for n in range(30_000)]
    builders.event(raw=json.dumps({"words": words}, ensure_ascii=False).encode())
    after = came({"n": "after"})
    desk.tick()
    assert found("after") == [after]


def test_an_event_the_index_takes_in_no_form_leaves_the_others_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _, after = (came({"n": name}) for name in ("before", "poison", "after"))
    kept = EventWords.objects.bulk_create

    def create(rows: list[EventWords], **how: Any) -> Any:
        if any("poison" in row.whole for row in rows):
            raise DatabaseError("too long for what it is")
        return kept(rows, **how)

    monkeypatch.setattr(search.EventWords.objects, "bulk_create", create)
    desk.tick()
    assert [found(name) for name in ("before", "poison", "after")] == [[before], [], [after]]
    assert search.index() == 0, "it is not tried again"


def test_the_door_writes_no_words(client: Client) -> None:
    """BG-01: searching costs the door nothing, and a question never walks the table of events."""
    came({"city": "Paris"})
    assert not EventWords.objects.exists()
    desk.tick()
    with CaptureQueriesContext(connection) as asked:
        found("paris")
    assert len(asked) == 3
    assert "LIMIT" in asked[0]["sql"]
    assert str(search.FOUND) in asked[1]["sql"]
