"""Credentials that travel inside a body: taken out of what is kept of it, and put back for a second look. Pure.

Of a body only the texts themselves are replaced, so everything else stays the bytes that came. Where one is spelt in a
way we did not look for, the whole body is written anew instead."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

from triggers.errors import BadDelivery
from triggers.reading import read_body
from triggers.sources.places import at

HIDDEN = "[hidden]"  # stands where a credential stood
TAKEN = ":body"  # what was taken out is sealed under this name, beside the headers; no header can have it
WHOLE = -1  # in place of where it stood: all of the body is what was taken
Taken = list[tuple[int, str]]  # where HIDDEN stands now, and in base64 what stood there; in order
Found = Sequence[tuple[str, str]]  # the last name of a path, and the text that stands there


def found_in(paths: Iterable[str], data: Any) -> Found:
    """The credentials of a body that was read."""
    values = [(path.rpartition(".")[2], at(data, path)) for path in paths]
    return [(name, value) for name, value in values if isinstance(value, str) and value and value != HIDDEN]


def hide_in(paths: Iterable[str], data: Any) -> None:
    """Replace them in the value itself."""
    for path in paths:
        parent, _, name = path.rpartition(".")
        holder = at(data, parent) if parent else data
        if isinstance(holder, dict) and isinstance(holder.get(name), str) and holder[name]:
            holder[name] = HIDDEN


def without(found: Found, body: bytes, data: Any, content_type: str = "application/json") -> tuple[bytes, Taken]:
    """The body without them, and what was taken out; `data` is what is read of it, with its credentials hidden."""
    if not found:
        return body, []
    spans = sorted({span for name, value in found for span in places(name, value, body)})
    kept, taken, end = bytearray(), [], 0
    for start, stop in spans:
        kept += body[end:start]
        taken.append((len(kept), base64.b64encode(body[start:stop]).decode()))
        kept += HIDDEN.encode()
        end = stop
    kept += body[end:]
    if spans and reads_as(bytes(kept), content_type, data):
        return bytes(kept), taken
    return json.dumps(data, ensure_ascii=False).encode(), all_of(body)


def all_of(body: bytes) -> Taken:
    return [(WHOLE, base64.b64encode(body).decode())]


def reads_as(body: bytes, content_type: str, data: Any) -> bool:
    try:
        return bool(read_body(body, content_type).value == data)
    except BadDelivery:
        return False


def places(name: str, value: str, body: bytes) -> Iterator[tuple[int, int]]:
    """Where the value stands under its name: in JSON, in a form, and in JSON that is a field of a form."""
    spelt = {json.dumps(value, ensure_ascii=plain)[1:-1] for plain in (True, False)}
    spelt |= {text.replace("/", r"\/") for text in spelt}
    inside = either(spelt)
    coded = either({coding(text) for text in spelt for coding in (quote_plus, quote, whole_quote)})
    word = re.escape(name.encode())
    for pattern in (
        rb'"' + word + rb'"\s*:\s*"(' + inside + rb')"',
        rb"(?:^|&)" + word + rb"=(" + coded + rb")(?=&|$)",
        rb"%22" + word + rb"%22(?:%3a|:)(?:%20|\+)*%22(" + coded + rb")%22",
    ):
        for match in re.finditer(pattern, body, re.IGNORECASE):
            yield match.span(1)


def either(texts: Iterable[str]) -> bytes:
    return b"|".join(re.escape(text.encode("utf-8", "surrogatepass")) for text in sorted(texts, key=len, reverse=True))


def whole_quote(text: str) -> str:
    return quote(text, safe="")


def put_back(body: bytes, taken: Iterable[tuple[int, str]]) -> bytes:
    """The body as it came."""
    out, end = bytearray(), 0
    for start, text in taken:
        if start == WHOLE:
            return base64.b64decode(text)
        out += body[end:start] + base64.b64decode(text)
        end = start + len(HIDDEN)
    return bytes(out + body[end:])
