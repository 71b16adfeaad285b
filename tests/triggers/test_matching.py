"""An event wakes the triggers that ask for it; every other trigger says, in words, why not."""

import json
import string
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import cel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triggers.errors import BadFilter
from triggers.filters import FUNCTIONS, TYPES
from triggers.matching import (
    Rule,
    Verdict,
    compare,
    compile_filter,
    compile_pattern,
    evaluate,
    match,
    reads_of,
    type_matches,
)
from triggers.viewing import DOOR_BYTES, DOOR_ITEMS, event_view, too_big_for_door


@dataclass
class Delivery:
    """As much of an event as filters read."""

    data: Any = None
    ce_id: str = "72d3162e"
    source: str = "github"
    ce_source: str = "https://github.com/acme/shop"
    type: str = "github.issues.opened"
    subject: str = ""
    time: datetime | None = None
    headers: dict[str, str] = field(default_factory=dict)
    data_json: str | None = None
    severity: str = "info"
    hops: int = 0
    raw: bytes = b""

    def __post_init__(self) -> None:
        self.raw = json.dumps(self.data).encode()


def rule(text: str) -> Rule:
    return Rule(
        trigger_id=1,
        slug="triage",
        source="github",
        type_pattern="**",
        filter_plan=compile_filter(text),
        handler="triage-issue",
    )


def verdict(text: str, data: Any = None, **attributes: Any) -> Verdict:
    asked = rule(text)
    return match(asked, event_view(Delivery(data, **attributes), reads_of([asked])))


# --- types ---


@pytest.mark.parametrize(
    ("pattern", "given", "expected"),
    [
        ("github.issues.opened", "github.issues.opened", True),
        ("github.issues.opened", "github.issues.Opened", False),
        ("github.*.opened", "github.issues.opened", True),
        ("github.*", "github.issues.opened", False),
        ("github.*", "github", False),
        ("github.**", "github", True),
        ("github.**", "github.issues.opened", True),
        ("github.**", "githubby", False),
        ("**", "anything.at.all", True),
        ("**.opened", "github.issues.opened", True),
        ("**.opened", "github.issues.opened.twice", False),
        ("a.**.b.**.c", "a.b.c", True),
        ("a.**.b.**.c", "a.x.b.b.y.c", True),
        ("a.**.b.**.c", "a.x.c", False),
        ("*.*", "a", False),
    ],
)
def test_a_star_is_one_segment_and_two_are_any_number(pattern: str, given: str, expected: bool) -> None:
    assert type_matches(pattern, given) is expected


words = st.text(string.ascii_lowercase + "AZ09_-", min_size=1, max_size=4)
types = st.lists(words, min_size=1, max_size=6)


@given(types)
def test_a_type_matches_itself_and_two_stars(segments: list[str]) -> None:
    type = ".".join(segments)
    assert type_matches(type, type)
    assert type_matches("**", type)
    assert type_matches(".".join("*" for _ in segments), type)


def slow_match(wanted: list[str], given: list[str]) -> bool:
    """The meaning of a pattern, written down without any thought of speed."""
    if not wanted:
        return not given
    if wanted[0] == "**":
        return slow_match(wanted[1:], given) or (bool(given) and slow_match(wanted, given[1:]))
    return bool(given) and wanted[0] in ("*", given[0]) and slow_match(wanted[1:], given[1:])


@settings(max_examples=500)
@given(
    st.lists(st.sampled_from(["a", "b", "*", "**"]), min_size=1, max_size=6),
    st.lists(st.sampled_from("ab"), max_size=7),
)
def test_the_fast_matcher_means_the_same_as_the_definition(wanted: list[str], given: list[str]) -> None:
    if given:
        assert type_matches(".".join(wanted), ".".join(given)) is slow_match(wanted, given)


def test_many_stars_against_a_long_type_take_no_time() -> None:
    assert type_matches(".".join(["**", "a"] * 30), ".".join(["a"] * 120 + ["b"])) is False


@pytest.mark.parametrize("pattern", ["", "a..b", ".a", "a.", "a*", "a b", "a.***", "x" * 256])
def test_a_pattern_that_makes_no_sense_is_refused(pattern: str) -> None:
    with pytest.raises(BadFilter):
        compile_pattern(pattern)


def test_a_pattern_is_trimmed() -> None:
    assert compile_pattern(" github.** ") == "github.**"


# --- saving a filter ---


def test_a_filter_is_cut_at_its_top_level_ands() -> None:
    plan = compile_filter(
        'event.data.ref == "a && b" && (event.type == "x" && has(event.subject)) && (1 == 1 || 2 == 2)'
    )
    assert [clause["text"] for clause in plan["clauses"]] == [
        'event.data.ref == "a && b"',
        'event.type == "x"',
        "has(event.subject)",
        "1 == 1 || 2 == 2",
    ]
    assert plan["paths"] == [["event", "data", "ref"], ["event", "subject"], ["event", "type"]]


def test_a_clause_may_begin_and_end_with_true_or_false() -> None:
    plan = compile_filter("event.data.draft == false && true == event.data.open && !false && true")
    assert [clause["text"] for clause in plan["clauses"]] == [
        "event.data.draft == false",
        "true == event.data.open",
        "!false",
        "true",
    ]
    assert plan["clauses"][0].get("wanted") == "false"


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('event.data["a b"].c == 1', [["event", "data", "a b", "c"]]),
        ('headers["X-GitHub-Event"] == "push"', [["headers", "X-GitHub-Event"]]),
        ("event.data.commits[0].id == 'x'", [["event", "data", "commits"]]),
        ("event.data.ref.startsWith(event.data.base)", [["event", "data", "base"], ["event", "data", "ref"]]),
        (
            "event.data.labels.exists(l, l.name == 'bug')",
            [["event", "data", "labels"], ["event", "data", "labels", "*", "name"]],
        ),
        ("'x' in event.data", [["event", "data"]]),
        ("event.data.a[event.data.b] == 1", [["event", "data", "a"], ["event", "data", "b"]]),
    ],
)
def test_the_paths_a_filter_reads_are_known(text: str, paths: list[list[str]]) -> None:
    assert compile_filter(text)["paths"] == paths


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("event.type ==", "does not compile"),
        ("event.type = 'x'", "does not compile"),
        ("evnt.type == 'x'", "`evnt` is not known"),
        ("data.ref == 'x'", "`data` is not known"),
        ("lower(event.type) == 'x'", "no function `lower`"),
        ("event.type.lowerAscii() == 'x'", "no function `lowerAscii`"),
        ("event{a: 1} == event", "cannot build objects"),
        ("event.data.a.exists(x, x.b.exists(y, y == 1))", "comprehension inside a comprehension"),
        ("event.data.a.all(x, x in event.data.b.map(y, y))", "comprehension inside a comprehension"),
        ("event.data.a.exists(x)", "needs a variable"),
        ("(" * 60 + "true" + ")" * 60, "nests at most"),
        ("true" + " && true" * 400, "at most 2000 characters"),
        ("1", "`1` is neither true nor false"),
        ("'yes'", "neither true nor false"),
        ("event.type == 'x' && 1 + 1", "neither true nor false"),
        ("[1, 2]", "neither true nor false"),
        ("null", "neither true nor false"),
        ("1 / 0 == 1", "can never be evaluated"),
    ],
)
def test_a_filter_that_cannot_work_is_refused_when_it_is_saved(text: str, says: str) -> None:
    with pytest.raises(BadFilter, match=says):
        compile_filter(text)


def test_one_comprehension_after_another_is_fine() -> None:
    text = "event.data.l.filter(x, x > 1).exists(x, x == 3)"
    assert verdict(text, {"l": [1, 2, 3]}).matched


def test_every_function_and_type_we_allow_exists_in_the_evaluator() -> None:
    assert {name for name in TYPES if cel.evaluate(name, {}) != name} == set()
    moment = 'timestamp("2026-01-01T00:00:00Z")'
    for name in FUNCTIONS - {"has"}:
        called = [
            f'{name}("1")',
            f"{name}(1)",
            f'"a".{name}("a")',
            f"{moment}.{name}()",
            f"{name}({moment})",
            f'{name}("1s")',
        ]
        assert any(works(text) for text in called), name


def works(text: str) -> bool:
    try:
        cel.evaluate(text, {})
    except (RuntimeError, TypeError, ValueError):
        return False
    return True


@given(st.text(max_size=60))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    with suppress(BadFilter):
        assert compile_filter(text)["text"] == text.strip()


# --- matching ---


def test_no_filter_lets_everything_through() -> None:
    assert verdict("   ", {"ref": "dev"}).matched


def test_a_false_clause_is_named_with_the_value_it_met() -> None:
    said = verdict("event.type == 'github.issues.opened' && event.data.ref == \"main\"", {"ref": "dev"})
    assert said == Verdict("not_matched", 'event.data.ref == "main"', "`event.data.ref` was 'dev', wanted 'main'")


@pytest.mark.parametrize(
    ("text", "data", "detail"),
    [
        ("event.data.n > 3", {"n": 2}, "`event.data.n` was 2, wanted more than 3"),
        ("event.data.a in ['x', 'y']", {"a": "z"}, "`event.data.a` was 'z', wanted one of 'x', 'y'"),
        ("event.data.a != 'z'", {"a": "z"}, "`event.data.a` was 'z', wanted anything but 'z'"),
        ("event.data.draft", {"draft": False}, "`event.data.draft` was false"),
        ("event.data.a == event.data.b", {"a": 1, "b": 2}, "`event.data.a` was 1, `event.data.b` was 2"),
        ("has(event.data.a)", {}, "`event.data.a` is missing"),
        ("1 == 2", {}, "it is always false"),
        ("event.data.l.exists(x, x == 4)", {"l": [1]}, "`event.data.l` was [1]"),
    ],
)
def test_the_explanation_is_in_words(text: str, data: Any, detail: str) -> None:
    said = verdict(text, data)
    assert (said.outcome, said.detail) == ("not_matched", detail)


@pytest.mark.parametrize(
    ("text", "data", "detail"),
    [
        ("event.data.ref == 'main'", {}, "`event.data.ref` is missing"),
        ("event.data.ref != 'main'", {}, "`event.data.ref` is missing"),
        ("event.data.a.b.c == 1", {"a": {}}, "`event.data.a.b` is missing"),
        ("event.data.a.b == 1", {"a": None}, "`event.data.a` is missing (null)"),
        ("event.data.n > 3", {"n": None}, "`event.data.n` is missing (null)"),
        ("event.data.s.startsWith('x')", {"s": None}, "`event.data.s` is missing (null)"),
        ("event.data.a.b == 1", {"a": "text"}, "`event.data.a.b` is missing"),
        ("event.data.l.exists(x, x.name == 'k')", {"l": [{}]}, "`event.data.l[].name` is missing"),
        ("event.data.l.exists(x, x.name > 'k')", {"l": [{"name": None}]}, "`event.data.l[].name` is missing (null)"),
        ("event.data.l[2] == 1", {"l": [1]}, "an item of the list is missing"),
        ("event.subject == 'x'", {}, "`event.subject` is missing"),
        ("headers['x-none'] == 'x'", {}, '`headers["x-none"]` is missing'),
    ],
)
def test_what_is_missing_or_null_on_the_path_did_not_match(text: str, data: Any, detail: str) -> None:
    said = verdict(text, data)
    assert (said.outcome, said.detail) == ("not_matched", detail)


@pytest.mark.parametrize(
    ("text", "data", "says"),
    [
        ("event.data.n > 3", {"n": "four"}, "the types do not fit: `event.data.n` was 'four'"),
        ("event.data.n % event.data.z == 1", {"n": 1, "z": 0}, "division by zero"),
        ("event.data.n + 1 > 3", {"n": 2**63 - 1}, "the number is too large"),
        ("event.data.s.matches('(')", {"s": "x"}, "not a valid regex"),
        ("event.data.s", {"s": "x"}, "it gave 'x', neither true nor false"),
    ],
)
def test_any_other_error_could_not_be_evaluated(text: str, data: Any, says: str) -> None:
    said = verdict(text, data)
    assert said.outcome == "could_not_evaluate"
    assert says in said.detail


def test_a_clause_that_says_no_beats_one_that_cannot_be_evaluated() -> None:
    said = verdict("event.data.n > 3 && event.data.ref == 'main'", {"n": "four", "ref": "dev"})
    assert (said.outcome, said.clause) == ("not_matched", "event.data.ref == 'main'")


def test_one_side_of_an_or_is_enough() -> None:
    assert verdict("event.data.a == 1 || event.data.b == 2", {"b": 2}).matched


def test_a_null_may_be_asked_for() -> None:
    assert verdict("event.data.pull_request == null", {"pull_request": None}).matched


def test_the_names_of_headers_have_no_case() -> None:
    assert verdict('headers["X-GitHub-Event"] == "issues"', headers={"x-github-event": "issues"}).matched
    assert verdict('headers["x-github-event"] == "issues"', headers={"X-GitHub-Event": "issues"}).matched


def test_the_attributes_of_the_envelope_are_there() -> None:
    moment = datetime(2026, 3, 1, 12, tzinfo=UTC)
    text = (
        "event.source == 'github' && event.ce_source == 'https://github.com/acme/shop' && event.id == '72d3162e'"
        " && event.hops == 0 && event.severity == 'info' && timestamp(event.time).getHours() == 12"
    )
    assert verdict(text, time=moment).matched


def test_only_the_paths_that_are_read_reach_the_evaluator() -> None:
    asked = rule("event.data.issue.number == 7")
    view = event_view(Delivery({"issue": {"number": 7, "body": "long"}, "more": [1]}), reads_of([asked]))
    assert view.part == {"event": {"data": {"issue": {"number": 7}}}}


def test_a_long_value_is_cut_in_the_explanation() -> None:
    said = verdict("event.data.s == 'x'", {"s": "y" * 500})
    assert len(said.detail) < 140


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)
FILTERS = [
    "event.data.a == 1",
    "event.data.a.b > 1 && event.data.c == 'x'",
    "event.data.a.exists(x, x.b == 1)",
    "event.data.a.startsWith('x') || event.data.b",
    "size(event.data.a) > 1 && has(event.data.b.c)",
    "event.data.a[0] == event.data.b",
    "!event.data.a && event.data.b in event.data.c",
    "timestamp(event.data.a) > timestamp('2026-01-01T00:00:00Z')",
    "int(event.data.a) + event.data.b < 3",
]


@settings(max_examples=300)
@given(st.sampled_from(FILTERS), json_values)
def test_every_event_gets_a_verdict_and_only_a_true_filter_matches(text: str, data: Any) -> None:
    said = verdict(text, data)
    try:
        whole = cel.evaluate(text, {"event": {"data": data}})
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        whole = "error"
    assert said.matched == (whole is True)
    assert said.matched or said.detail


# --- what the door leaves to the worker ---


def test_large_data_and_long_lists_are_left_to_the_worker() -> None:
    asked = rule("event.data.l.exists(x, x == 1)")
    small, long = Delivery({"l": [0] * DOOR_ITEMS}), Delivery({"l": [0] * (DOOR_ITEMS + 1)})
    elsewhere = Delivery({"l": [], "m": [0] * 5000})
    for delivery, expected in [(small, False), (long, True), (elsewhere, False)]:
        assert too_big_for_door(event_view(delivery, reads_of([asked])), len(delivery.raw)) is expected
    assert too_big_for_door(event_view(small, reads_of([asked])), DOOR_BYTES + 1)


def test_a_crowd_of_small_objects_is_left_to_the_worker_too() -> None:
    asked = rule("'k1' in event.data")
    crowd = Delivery({f"k{number}": {"a": {}} for number in range(DOOR_ITEMS)})
    assert too_big_for_door(event_view(crowd, reads_of([asked])), len(crowd.raw))


PLAIN = st.one_of(st.text(max_size=3), st.integers(-5, 5), st.integers(), st.booleans(), st.none(), st.floats(-3, 3))


@given(
    value=PLAIN,
    literal=st.one_of(st.text("ab'\\é", max_size=3), st.integers(-5, 5), st.booleans()),
    sign=st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
)
def test_a_plain_comparison_says_what_the_evaluator_says(value: Any, literal: Any, sign: str) -> None:
    shown = json.dumps(literal)
    [question] = rule(f"event.data.a {sign} {shown}").questions
    view = event_view(Delivery({"a": value}))
    quick = compare(question, view) if question.compared else None
    assert quick is None or quick == evaluate(question.clause, view)
