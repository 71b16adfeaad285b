"""What arrives makes its type known: since when, how often, in which shape; what differs later is told, or refused."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from project import desk
from project.people import roles
from project.people.models import User
from tests import builders
from tests.handlers import registered, work
from triggers import dispatch, event_types, learning, shapes
from triggers.errors import NotValid
from triggers.fitting import checker_of
from triggers.models import ConfigVersion, DeadLetter, Event, EventType, Run

pytestmark = pytest.mark.django_db
API = "/api/v1/event-types"
ORDER = "shop.order"
PATIENT = 25  # events after which a schema is kept


def order(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "state": "paid" if number % 2 else "new", "lines": [{"sku": f"sku-{number}", "n": 1}], **more}


def come(*values: Any, type: str = ORDER, **fields: Any) -> list[Event]:
    return [builders.event(type, data=value, **fields) for value in values]


def known(type: str = ORDER) -> EventType:
    learning.learn()
    return EventType.objects.get(type=type)


@pytest.fixture
def orders() -> EventType:
    builders.source()
    come(*(order(number) for number in range(PATIENT)))
    return known()


def test_an_unknown_type_is_made_by_the_round_of_the_desk() -> None:
    builders.source()
    first, last = come(order(1), order(2))
    desk.tick()
    row = EventType.objects.get(type=ORDER)
    assert (row.count, row.sample, row.sources, row.mode, row.version) == (2, last.pk, ["github"], "warn", 1)
    assert (row.first_at, row.last_at) == (first.received_at, last.received_at)
    desk.tick()
    row.refresh_from_db()
    assert row.count == 2, "each event is counted once"


def test_the_schema_says_types_what_is_always_there_and_small_sets(orders: EventType) -> None:
    assert orders.is_settled
    assert orders.schema == {
        "$schema": shapes.DIALECT,
        "type": "object",
        "required": ["id", "lines", "state"],
        "properties": {
            "id": {"type": "integer"},
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["n", "sku"],
                    "properties": {"n": {"type": "integer"}, "sku": {"type": "string"}},
                },
            },
            "state": {"type": "string", "enum": ["new", "paid"]},
        },
    }


def test_drift_says_where_what_and_since_which_event(orders: EventType) -> None:
    odd, gone, again = come(order(1, id="one", note="hi"), {"id": 3, "state": "paid"}, order(5, note=None))
    drift = {(one["path"], one["what"]): (one["since"], one["count"]) for one in known().drift}
    assert drift == {
        ("data.id", "is string"): (odd.pk, 1),
        ("data.note", "is new"): (odd.pk, 2),
        ("data.lines", "is missing"): (gone.pk, 1),
    }
    assert known().schema == orders.schema, "what is kept stays until a person says otherwise"
    assert again.pk


def test_a_new_value_of_a_small_set_is_told_without_quoting_it(orders: EventType) -> None:
    come(order(1, state="secret-word"))
    drift = known().drift
    assert [(one["path"], one["what"]) for one in drift] == [("data.state", "is none of the known values")]
    assert "secret-word" not in json.dumps(drift)


def test_names_that_are_data_and_deep_values_stay_bounded() -> None:
    builders.source()
    deep: Any = 1
    for _ in range(100):
        deep = {"inner": deep}
    come({f"user-{number}": number for number in range(500)}, deep, [1] * 5000, "text", None, type="shop.odd")
    row = known("shop.odd")
    assert row.count == 5
    assert len(json.dumps(row.shape)) < 20_000
    assert "user-1" not in json.dumps(row.schema)


def test_data_that_is_none_and_the_desks_own_events_teach_nothing() -> None:
    builders.source()
    come(1, type="nightdesk.run.dead", source_slug="/nightdesk")
    builders.event("shop.ping", raw=b"", data_json="")
    builders.event("shop.text", raw=b"\xff\xfe", data_json=None)
    learning.learn()
    assert {row.type: (row.count, row.schema) for row in EventType.objects.all()} == {
        "shop.ping": (1, {}),
        "shop.text": (1, {}),
    }


def test_a_sender_who_invents_types_fills_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MOST_TYPES", 3)
    builders.source()
    for number in range(10):
        come(1, type=f"shop.t{number}")
    learning.learn()
    assert EventType.objects.count() == 3


def test_types_that_were_invented_once_make_room_for_those_that_come(
    monkeypatch: pytest.MonkeyPatch, later: Any
) -> None:
    monkeypatch.setattr(learning, "MOST_TYPES", 3)
    builders.source()
    come(1, 2, type="shop.real")
    for number in range(2):
        come(1, type=f"shop.t{number}")
    learning.learn()
    EventType.objects.filter(type="shop.t1").update(description="kept by a person")
    later(days=2)
    come(1, type="shop.new")
    learning.learn()
    assert set(EventType.objects.values_list("type", flat=True)) == {"shop.real", "shop.t1", "shop.new"}


def test_a_schema_lists_no_people() -> None:
    builders.source()
    for number in range(30):
        data = {
            "mail": f"{'ann' if number % 2 else 'ben'}@example.org",
            "phone": f"+49 30 123456{number % 2}",
            "tier": "low",
        }
        builders.event("shop.order", data=data)
    learning.learn()
    row = EventType.objects.get()
    assert "enum" in row.schema["properties"]["tier"]
    assert not any(word in repr((row.schema, row.shape)) for word in ("example.org", "123456"))


def test_a_gap_that_may_be_an_open_transaction_is_waited_for() -> None:
    at = builders.event().received_at
    heads = [(5, "a", "s", at, True), (6, "a", "s", at, True), (8, "a", "s", at, True)]
    long_ago, just_now = at.replace(year=2020), at.replace(year=2100)
    assert [head[0] for head in learning.before_a_gap(4, heads, long_ago)] == [5, 6]
    assert [head[0] for head in learning.before_a_gap(4, heads, just_now)] == [5, 6, 8]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, min_size=1, max_size=15))
def test_what_was_seen_always_fits_the_schema_made_of_it(values: list[Any]) -> None:
    shape: dict[str, Any] = {}
    for value in values:
        shapes.grow(shape, value)
    check = checker_of(shapes.schema_of(shapes.trimmed(shape)))
    assert all(check.is_valid(value) for value in values)


class TestPeopleKeepASchema:
    def test_over_the_api_with_a_version(
        self, orders: EventType, owner: User, sign_in: Callable[[User], Client]
    ) -> None:
        come(order(1, note="hi"))
        assert known().drift
        browser = sign_in(owner)
        shown = browser.get(f"{API}/{ORDER}").json()
        assert (shown["count"], shown["version"], len(shown["drift"])) == (PATIENT + 1, 1, 1)
        schema = {**shown["schema"], "properties": {**shown["schema"]["properties"], "note": {"type": "string"}}}
        body = {"version": 1, "schema": schema, "description": "An order was paid."}
        answer = browser.patch(f"{API}/{ORDER}", body, content_type="application/json")
        assert answer.status_code == 200, answer.content
        told = answer.json()
        assert (told["version"], told["drift"], told["description"]) == (2, [], "An order was paid.")
        again = browser.patch(f"{API}/{ORDER}", body, content_type="application/json")
        assert (again.status_code, again.json()["code"], again.json()["version"]) == (409, "stale", 2)
        assert list(orders.versions.order_by("version").values_list("version", "by__username")) == [
            (1, None),
            (2, "owner"),
        ]

    def test_lists_take_filters_and_every_type_has_its_address(
        self, ann: User, with_token: Callable[..., Client]
    ) -> None:
        builders.source()
        come(1, type="shopify.orders/create")
        learning.learn()
        come(1)
        learning.learn()
        client = with_token(ann, "read")
        assert [row["type"] for row in client.get(API).json()["items"]] == [ORDER, "shopify.orders/create"]
        assert [row["type"] for row in client.get(f"{API}?type={ORDER}").json()["items"]] == [ORDER]
        assert client.get(f"{API}/shopify.orders/create").json()["count"] == 1
        assert client.get(f"{API}/nothing").status_code == 404
        body = {"version": 1, "mode": "refuse"}
        assert client.patch(f"{API}/{ORDER}", body, content_type="application/json").status_code == 403

    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            ({"$ref": "https://example.com/order.json"}, "refers to nothing but"),
            ({"$ref": "file:///etc/passwd"}, "refers to nothing but"),
            ({"$ref": "#"}, "refers to nothing but"),
            ({"$defs": {"a": {"$ref": "#/$defs/a"}}}, "may not refer to anything"),
            ({"$id": "https://example.com/x", "type": "object"}, "no names of their own"),
            ({"type": "strin"}, "no JSON schema"),
            ({"pattern": "(?=a)(a+)+$"}, "no JSON schema"),
            ({"pattern": r"(a)\1"}, "no JSON schema"),
            ({"pattern": "(a{900}){900}"}, "no JSON schema"),
            ({"description": "x" * 70_000}, "at most"),
            ([], "a JSON object"),
        ],
    )
    def test_a_schema_that_could_do_harm_is_refused_when_it_is_saved(
        self, orders: EventType, schema: Any, words: str
    ) -> None:
        with pytest.raises(NotValid, match=words):
            event_types.change(orders, by=None, version=1, schema=schema)
        assert EventType.objects.get(pk=orders.pk).version == 1

    def test_nothing_can_be_refused_without_a_schema(self) -> None:
        builders.source()
        builders.event("shop.ping", raw=b"", data_json="")
        with pytest.raises(NotValid, match="nothing to refuse by"):
            event_types.change(known("shop.ping"), by=None, version=1, mode="refuse")


@pytest.mark.django_db(transaction=True)
class TestATypeRefuses:
    @pytest.fixture
    def send(self, ann: User, with_token: Callable[..., Client]) -> Callable[..., Any]:
        """`send(data)`: a CloudEvent by token; what its sender hears of it."""
        builders.source("api", kind="cloudevents", provider="")
        come(*(order(number) for number in range(PATIENT)), source_slug="api")
        row = known()
        event_types.change(row, by=ann, version=row.version, mode="refuse")
        client = with_token(ann, "ingest")

        def post(data: Any, id: str = "e-1") -> Any:
            event = {"specversion": "1.0", "id": id, "source": "/shop", "type": ORDER, "subject": "s", "data": data}
            answer = client.post("/api/v1/events", json.dumps(event), content_type="application/cloudevents+json")
            return answer.status_code, answer.json()["events"][0]

        return post

    def test_what_does_not_fit_is_kept_as_invalid_with_a_dead_letter(self, send: Callable[..., Any]) -> None:
        with registered("story", lambda run: "ran"):
            builders.trigger("story", source="api")
            status, told = send(order(1, id="one"))
            assert (status, told["status"]) == (202, "invalid")
            event = Event.objects.get(pk=told["seq"])
            assert (event.status, event.outcomes[0]["clause"]) == ("invalid", "data.id")
            letter = DeadLetter.objects.get()
            assert (letter.kind, letter.event, letter.error_type, letter.place) == (
                "event",
                event,
                "SchemaRefused",
                "data.id",
            )
            assert send(order(1, id="one"))[1]["status"] == "duplicate"
            assert Run.objects.count() == 0
            assert send(order(2), id="e-2")[1]["status"] == "accepted"
            assert work() == 1

    def test_it_is_edited_and_admitted_and_whoever_did_it_has_asked(
        self, send: Callable[..., Any], ann: User, sign_in: Callable[[User], Client]
    ) -> None:
        with registered("story", lambda run: run.event.data["id"]):
            builders.trigger("story", source="api")
            _, told = send(order(1, id="one"))
            letter = DeadLetter.objects.get()
            browser = sign_in(ann)
            assert "Edit and admit" in browser.get(f"/dead-letters/{letter.pk}").text
            assert "Data of the event" in browser.get(f"/dead-letters/{letter.pk}/edit").text
            wrong = {"data": json.dumps(order(1, id="still")), "reason": "typo"}
            browser.post(f"/dead-letters/{letter.pk}/reruns", wrong)
            letter.refresh_from_db()
            assert (letter.status, letter.attempts) == ("open", 2), "the same letter again"
            right = {"data": json.dumps(order(1, id=7)), "reason": "typo"}
            browser.post(f"/dead-letters/{letter.pk}/reruns", right)
            event = Event.objects.get(pk=told["seq"])
            assert (event.status, event.data["id"]) == ("routed", 7)
            assert b'"one"' in bytes(event.raw or b""), "the exact bytes stay"
            work()
            run = Run.objects.get()
            assert (run.result, run.requester) == (7, ann)

    def test_a_mended_schema_lets_it_in_as_it_was_sent(
        self, send: Callable[..., Any], owner: User, sign_in: Any
    ) -> None:
        _, told = send(order(1, note="new member"))
        assert told["status"] == "accepted", "more members than known are drift, no fault"
        _, told = send(order(2, state="refunded"), id="e-2")
        assert told["status"] == "invalid"
        row = EventType.objects.get(type=ORDER)
        schema = {**row.schema, "required": ["id"], "properties": {}}
        event_types.change(row, by=owner, version=row.version, schema=schema)
        letter = DeadLetter.objects.get()
        answer = sign_in(owner).post(f"/api/v1/dead-letters/{letter.pk}/redrive", {}, content_type="application/json")
        assert answer.status_code == 202, answer.content
        assert Event.objects.get(pk=told["seq"]).status == "ignored"

    def test_a_long_way_to_what_does_not_fit_is_cut_and_the_letter_opens(
        self, send: Callable[..., Any], ann: User
    ) -> None:
        row, schema = known(), {"type": "object", "additionalProperties": {"type": "integer"}}
        event_types.change(row, by=ann, version=row.version, schema=schema)
        _, told = send({"k" * 400: "no number"})
        event, letter = Event.objects.get(pk=told["seq"]), DeadLetter.objects.get()
        assert (event.status, letter.place) == ("invalid", f"data.{'k' * 250}")

    def test_one_too_large_for_the_door_is_refused_a_moment_later(self, send: Callable[..., Any]) -> None:
        _, told = send(order(1, id="one", note="x" * 300_000))
        assert told["status"] == "accepted"
        dispatch.match_stored(None)
        assert Event.objects.get(pk=told["seq"]).status == "invalid"

    def test_a_schema_that_cannot_be_read_any_more_keeps_out_its_own_type_and_no_other(
        self, send: Callable[..., Any], owner: User, sign_in: Any
    ) -> None:
        sound = known().schema
        EventType.objects.filter(type=ORDER).update(schema={"type": 7})
        ConfigVersion.bump()
        seq = send(order(1))[1]["seq"]
        come(order(2), source_slug="api", type="shop.other")
        event, letter = Event.objects.get(pk=seq), DeadLetter.objects.get()
        assert (event.status, letter.place) == ("invalid", "schema")
        assert "cannot be read" in letter.message
        learning.learn()
        row = known()
        event_types.change(row, by=owner, version=row.version, schema=sound)
        sign_in(owner).post(f"/api/v1/dead-letters/{letter.pk}/redrive", {}, content_type="application/json")
        assert Event.objects.get(pk=seq).status == "ignored"

    def test_it_wakes_nobody(self, send: Callable[..., Any]) -> None:
        with registered("waits", lambda run: run.wait_for("it", type=ORDER, source="api", subject="s").data["id"]):
            builders.run("waits")
            work()
            send(order(1, id="one"))
            work()
            assert Run.objects.get(handler="waits").status == "waiting"
            send(order(9), id="e-2")
            work()
            assert Run.objects.get(handler="waits").result == 9


class TestPages:
    def test_the_list_and_one_type(
        self, orders: EventType, ann: User, owner: User, sign_in: Callable[[User], Client]
    ) -> None:
        [odd] = come(order(1, note="hi"))
        learning.learn()
        assert "Differs" in sign_in(ann).get("/event-types").text
        page = sign_in(owner).get(f"/event-types/{ORDER}").text
        assert "data.note" in page
        assert f'href="/events/{odd.pk}"' in page
        assert "note" in sign_in(owner).get(f"/event-types/{ORDER}?schema=seen").text

    def test_a_young_type_has_a_page_too(self, owner: User, sign_in: Callable[[User], Client]) -> None:
        builders.source()
        come(order(1))
        learning.learn()
        assert "Still learning" in sign_in(owner).get(f"/event-types/{ORDER}").text

    def test_an_admin_tries_a_schema_before_it_is_saved(
        self, orders: EventType, owner: User, sign_in: Callable[[User], Client]
    ) -> None:
        browser, strict = sign_in(owner), {"type": "object", "properties": {"id": {"maximum": 20}}}
        form = {"version": 1, "mode": "refuse", "description": "", "schema": json.dumps(strict)}
        assert "4 of the newest 50 would be refused" in browser.post(f"/event-types/{ORDER}", form | {"try": "1"}).text
        assert EventType.objects.get(pk=orders.pk).version == 1
        assert browser.post(f"/event-types/{ORDER}", form).status_code == 302
        row = EventType.objects.get(pk=orders.pk)
        assert (row.version, row.mode, row.schema) == (2, "refuse", strict)
        stale = form | {"description": "an older page"}
        assert browser.post(f"/event-types/{ORDER}", stale).status_code == 409
        bad = form | {"version": 2, "schema": '{"$ref": "https://example.com"}'}
        refused = browser.post(f"/event-types/{ORDER}", bad)
        assert (refused.status_code, "refers to nothing but" in refused.text) == (422, True)

    def test_an_admin_who_may_not_see_payloads_tries_without_a_word_of_them(
        self, orders: EventType, ben: User, sign_in: Callable[[User], Client]
    ) -> None:
        roles.grant(ben, roles.ADMIN)
        typed = json.dumps({"properties": {"lines": {"maxItems": 0}}})
        form = {"version": 1, "mode": "refuse", "description": "", "schema": typed, "try": "1"}
        page = sign_in(ben).post(f"/event-types/{ORDER}", form).text
        assert "<code>data.lines</code>" in page
        assert "sku-3" not in page

    def test_who_may_not_see_payloads_sees_no_values(
        self, orders: EventType, ben: User, sign_in: Callable[[User], Client]
    ) -> None:
        browser = sign_in(ben)
        assert "enum" not in browser.get(f"{API}/{ORDER}").text
        assert "paid" not in browser.get(f"/event-types/{ORDER}").text
        assert browser.post(f"/event-types/{ORDER}", {}).status_code == 403
