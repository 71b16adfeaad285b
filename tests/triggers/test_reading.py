"""Any bytes at all become a reading that both databases can store, or a refusal that says why."""

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from triggers.cloudevents import read_events
from triggers.errors import BadDelivery
from triggers.reading import Reading, depth_of, read_body, read_json, unzip

KINDS = [
    *("", "application/json", "application/json; charset=utf-16", "application/json; charset=latin-1", "text/plain"),
    *("application/x-www-form-urlencoded", "application/xml; charset=punycode", "a/b; charset=undefined", "x+json"),
    *("application/json; charset=utf-7", "application/json; charset=no-such", "text/plain; charset=idna"),
]
ATTRIBUTES = ["specversion", "id", "source", "type", "time", "hops", "severity", "data", "data_base64"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def text_of(body: bytes, reading: Reading) -> str:
    """What `Event.data_text` will be."""
    return reading.text if reading.text is not None else body.decode("utf-8-sig")


def loads(text: str) -> Any:
    assert "\x00" not in text
    text.encode()  # no half of a surrogate pair
    return json.loads(text, parse_constant=pytest.fail)


def outcome(read: Callable[..., Any], *given_: Any) -> Any:
    """What it gave, or its refusal."""
    try:
        return read(*given_)
    except BadDelivery as refused:
        return refused


@given(st.binary(max_size=300), st.sampled_from(KINDS))
@example(b'{"a": "\\u0000 \\ud800"}', "application/json")
@example(b"1e400", "application/json")
@example(b"\xef\xbb\xbf{}", "application/json")
@example(b"payload=%EF%BB%BF%7B%7D", "application/x-www-form-urlencoded")
@example(b"[" * 2000 + b"]" * 2000, "application/json")
@example(b'"\\', "application/json")
def test_bytes_are_read_or_refused_in_words(body: bytes, kind: str) -> None:
    found = outcome(read_body, body, kind)
    if isinstance(found, BadDelivery):
        assert found.http in (400, 415)
        assert found.detail
    elif text := text_of(body, found):
        loads(text)


@given(VALUES)
def test_json_comes_back_as_it_was(value: Any) -> None:
    body = json.dumps(value).encode()
    reading = read_json(body)
    if not reading.sanitized:
        assert loads(text_of(body, reading)) == json.loads(body)


@given(st.binary(max_size=200), st.sampled_from(["application/cloudevents+json", "application/cloudevents-batch+json"]))
def test_any_bytes_as_a_cloudevent_are_read_or_refused(body: bytes, kind: str) -> None:
    found = outcome(read_events, body, {"content-type": kind})
    assert isinstance(found, list) or found.http in (400, 413, 415, 422)


@given(st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES))
@example({"id": "1", "source": "/s", "type": "t", "time": "0001-01-01T00:00:00+23:00"})
@example({"id": "\ud800", "source": "/s", "type": "t"})
def test_any_attributes_are_read_or_refused(attributes: dict[str, Any]) -> None:
    body = json.dumps({"specversion": "1.0", **attributes}).encode()
    found = outcome(read_events, body, {"content-type": "application/cloudevents+json"})
    if isinstance(found, BadDelivery):
        assert found.http in (400, 422)
    elif found[0].data_json:
        loads(found[0].data_json)


def test_depth_counts_brackets_outside_strings_only() -> None:
    assert depth_of(b'{"a": "[[[[", "b": [{}]}') == 3
    assert depth_of(b'"\\"[[[" [') == 1
    assert depth_of(b'"never closed [[[') == 0


def test_a_hundred_and_twenty_eight_levels_are_read_and_no_more() -> None:
    assert read_json(b"[" * 128 + b"]" * 128).text is None
    with pytest.raises(BadDelivery) as refused:
        read_json(b"[" * 129 + b"]" * 129)
    assert refused.value.code == "too_deep"


def test_integers_may_be_long_but_not_endless() -> None:
    assert read_json(b"1" * 4300).value == int("1" * 4300)
    with pytest.raises(BadDelivery) as refused:
        read_json(b"1" * 4301)
    assert refused.value.code == "number_too_long"
    assert read_json(b'"' + b"1" * 5000 + b'"').text is None, "digits in a text are no number"


def test_gzip_is_expanded_up_to_its_bound() -> None:
    assert unzip(gzip.compress(b"x" * 100), 100) == b"x" * 100
    assert unzip(b"no gzip", 100) == b"no gzip"
    for broken in (
        gzip.compress(b"x" * 101),
        gzip.compress(b"x" * 50)[:-4],
        b"\x1f\x8b\x00",
        gzip.compress(b"x" * 50)[:12] + b"?" * 20,
    ):
        with pytest.raises(BadDelivery):
            unzip(broken, 100)
