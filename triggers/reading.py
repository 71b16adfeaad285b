"""Bodies to JSON text: bounded, exact, and clean enough for every database. Pure."""

import gzip
import io
import json
import math
import re
import zlib
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn
from urllib.parse import parse_qs

import orjson

from project.lib.text import REPLACED, UNSTORABLE, decoded
from triggers.errors import BadDelivery

DEEPEST = 128  # levels of lists and objects
MOST_DIGITS = 4300  # of an integer: Python's own limit for reading one
FIELDS = 1000  # of a form
STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # one that never ends is read to the end, once
NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
GZIP = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


class Reading(NamedTuple):
    """A body as JSON. `text` None: the bytes themselves are clean JSON; empty: no data."""

    value: Any
    text: str | None
    sanitized: int = 0


def unzip(body: bytes, most: int) -> bytes:
    """The expanded body (as it is, when it is no gzip); raises BadDelivery over `most` bytes or when it is broken."""
    if not body.startswith(GZIP):
        return body
    try:
        expanded = gzip.GzipFile(fileobj=io.BytesIO(body)).read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadDelivery("The gzip body is broken.") from error
    if len(expanded) > most:
        raise BadDelivery(f"The expanded body is over {most} bytes.", code="too_large", http=413, limit=most)
    return expanded


def read_json(body: bytes, charset: str = "utf-8") -> Reading:
    """Read a JSON body of any kind; raises BadDelivery for what is no JSON, too deep or beyond number."""
    body = body.removeprefix(BOM)
    if not body:
        return Reading(None, "")
    refuse_depth(body)
    if charset not in ("utf-8", "utf8", "us-ascii", "ascii"):
        return read_slowly(decode(body, charset), keep=True)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return read_slowly(decode(body, "utf-8"))
    return read_slowly(decode(body, "utf-8")) if b"\\u0000" in body else Reading(value, None)


def read_exactly(body: bytes, charset: str = "utf-8") -> Any:
    """The value of a JSON body that is taken apart and written again: integers of any size stay what they are.

    Nothing in it is cleaned yet."""
    body = body.removeprefix(BOM)
    refuse_depth(body)
    return parse(decode(body, charset))


def refuse_depth(body: bytes) -> None:
    if body.count(b"[") + body.count(b"{") > DEEPEST and depth_of(body) > DEEPEST:
        raise BadDelivery(f"The JSON is nested over {DEEPEST} levels deep.", code="too_deep")


def depth_of(body: bytes) -> int:
    """The deepest level of brackets outside strings, in one pass."""
    brackets = STRINGS.sub(b"", body).translate(None, NO_BRACKETS)
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0)


def decode(body: bytes, charset: str) -> str:
    try:
        return decoded(body, charset)
    except (ValueError, LookupError) as error:
        raise BadDelivery(f"The body is not {charset[:40]} text.") from error


def read_slowly(text: str, *, keep: bool = False) -> Reading:
    """A body that orjson refuses or that must be cleaned."""
    value = parse(text)
    cleaned, count = clean(value)
    if not count and not keep:
        return Reading(value, None)
    return Reading(cleaned, json.dumps(cleaned, ensure_ascii=False), count)


def parse(text: str) -> Any:
    """Python's reader knows lone surrogates and integers of any size, but also NaN, which is no JSON."""
    try:
        return json.loads(text, parse_constant=no_json, parse_int=whole, parse_float=finite)
    except (ValueError, RecursionError) as error:
        raise BadDelivery(f"The body is not JSON: {error}"[:300]) from error


def no_json(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def whole(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise BadDelivery(f"A number has over {MOST_DIGITS} digits.", code="number_too_long")
    return int(digits)


def finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else no_json(digits[:20])


def clean(value: Any) -> tuple[Any, int]:
    """`value` with every NUL and lone surrogate as U+FFFD, and how many there were; at most DEEPEST levels."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        pairs = [clean(item) for item in value]
        return [item for item, _ in pairs], sum(count for _, count in pairs)
    if isinstance(value, dict):
        fresh, total = {}, 0
        for key, item in value.items():
            (name, in_key), (content, inside) = clean_text(key), clean(item)
            fresh[name], total = content, total + in_key + inside
        return fresh, total
    return value, 0


def clean_text(text: str) -> tuple[str, int]:
    return UNSTORABLE.subn(REPLACED, text)


def read_form(body: bytes) -> Reading:
    """A form: its field `payload` as JSON when it has one (GitHub, Slack), else its fields as an object."""
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=FIELDS)
    except ValueError as error:
        raise BadDelivery("The form cannot be read.") from error
    if "payload" in fields:
        text = fields["payload"][-1].removeprefix("\ufeff")
        inner = read_json(text.encode())
        return inner if inner.text is not None else Reading(inner.value, text)
    cleaned, count = clean({name: values[0] if len(values) == 1 else values for name, values in fields.items()})
    return Reading(cleaned, json.dumps(cleaned, ensure_ascii=False), count)


def read_text(body: bytes, charset: str = "utf-8") -> Reading:
    """Any other text, as one JSON string; what is no text keeps only its bytes."""
    try:
        text, count = clean_text(decode(body, charset))
    except BadDelivery:
        return Reading(None, "")
    return Reading(text, json.dumps(text, ensure_ascii=False), count)


@lru_cache(maxsize=1000)
def media_type(header: str) -> tuple[str, str]:
    """`application/json; charset=ISO-8859-1` -> ("application/json", "iso-8859-1"); utf-8 when nothing is said."""
    kind, _, rest = header.partition(";")
    found = re.search(r"charset\s*=\s*\"?([^\s;\"]+)", rest, re.IGNORECASE)
    return kind.strip().lower(), (found[1].lower() if found else "utf-8")


def read_body(body: bytes, content_type: str) -> Reading:
    """Read a body by its content type; raises BadDelivery, 415 for multipart."""
    kind, charset = media_type(content_type)
    if kind.startswith("multipart/"):
        raise BadDelivery("multipart bodies are not taken here.", code="unsupported_media_type", http=415)
    if kind == "application/x-www-form-urlencoded":
        return read_form(body)
    if kind in ("application/json", "text/json") or kind.endswith("+json"):
        return read_json(body, charset)
    if "/" not in kind:  # nothing was said, or nothing that means anything
        return guess(body, charset)
    if kind == "text/plain" and looks_like_json(body):
        return read_json(body, charset)
    return read_text(body, charset)


def guess(body: bytes, charset: str) -> Reading:
    """A body of which nobody said what it is: JSON if it looks like it or is it, else the text it is."""
    if looks_like_json(body):
        return read_json(body, charset)
    try:
        return read_json(body, charset)
    except BadDelivery:
        return read_text(body, charset)


def looks_like_json(body: bytes) -> bool:
    return body.removeprefix(BOM).lstrip()[:1] in (b"{", b"[")
