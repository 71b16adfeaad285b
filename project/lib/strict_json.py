"""JSON from outside, read so that whatever passes can be stored by every database and written out again."""

import json
import math
from typing import Any, NoReturn

from project.lib.problem import Problem
from project.lib.text import is_storable

DEEPEST = 128  # levels


class NotParsable(Problem):
    """The body is not JSON."""

    code = "not_parsable"
    http = 400


def loads(body: bytes) -> Any:
    """Raises NotParsable for what is no JSON, for NaN, NUL, lone surrogates and anything nested over 128 levels."""
    try:
        value = json.loads(body, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise NotParsable(f"The body is not JSON: {error}", line=error.lineno, column=error.colno) from error
    except (ValueError, RecursionError) as error:
        raise NotParsable(f"The body is not JSON: {error}") from error
    refuse_unstorable(value, 0)
    return value


def refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def refuse_unstorable(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise NotParsable(f"The body is nested over {DEEPEST} levels.")
    if isinstance(value, str):
        refuse_text(value)
    elif isinstance(value, float) and math.isinf(value):
        raise NotParsable("The body holds a number that is too large.")
    elif isinstance(value, list):
        for item in value:
            refuse_unstorable(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            refuse_text(key)
            refuse_unstorable(item, depth + 1)


def refuse_text(text: str) -> None:
    """No database of ours stores NUL, and a lone surrogate cannot be written as UTF-8."""
    if not is_storable(text):
        raise NotParsable("The body holds a NUL character or half a surrogate pair.")
