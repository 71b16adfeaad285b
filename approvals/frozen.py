"""The envelope of an action: one canonical text that is shown, digested, decided on and delivered."""

import re
from typing import Any

from approvals.errors import NotValid
from project.lib import canonical

NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # as RFC 8785 writes it; PostgreSQL cannot store one


def envelope(
    *,
    kind: str,
    kind_version: int,
    connection: str | None,
    connection_version: int,
    arguments: dict[str, Any],
    preconditions: dict[str, Any] | None = None,
) -> tuple[str, str]:
    """The RFC 8785 text and its digest.

    Raises NotValid for what JSON readers would not agree on: integers beyond 2**53 - 1, NUL, lone surrogates."""
    value = {
        "kind": kind,
        "kind_version": kind_version,
        "connection": connection,
        "connection_version": connection_version,
        "arguments": arguments,
        "preconditions": preconditions or {},
    }
    try:
        text = canonical.text(value)
    except canonical.NotCanonical as error:
        raise NotValid(f"{kind}: no canonical form ({error}); write large integers as text") from error
    except (UnicodeError, RecursionError):
        raise NotValid(f"{kind}: the arguments hold half a character, or are nested too deeply") from None
    if NUL.search(text):
        raise NotValid(f"{kind}: the arguments hold a NUL character")
    return text, canonical.digest_of_text(text)


def readable(text: str) -> str:
    """Words from outside, made storable: NUL and lone surrogates become U+FFFD."""
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def storable(value: Any) -> Any:
    """The same JSON value with every text, also of keys, made storable."""
    if isinstance(value, dict):
        return {readable(str(name)): storable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable(part) for part in value]
    return readable(value) if isinstance(value, str) else value
