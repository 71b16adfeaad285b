"""An error as it is kept: for people to read, and to be raised again when a replay comes past it. What it quotes of
passwords and keys is taken out of it first, as it is of every line of the log."""

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Any

from project.lib.redaction import without_secrets
from project.lib.text import made_storable
from triggers.errors import StepFailed
from triggers.results import culprit

TRACE = 20_000  # characters of a traceback that are kept
MESSAGE = 10_000  # and of an error's own words
ROOT = Path(__file__).parent.parent
DESK = tuple(f"{ROOT / name}{os.sep}" for name in ("triggers", "approvals", "project"))
SHIPPED = f"{ROOT / 'project' / 'handlers'}{os.sep}"  # the handlers among it
PATHS = sysconfig.get_paths()
LIBRARIES = (*(f"{PATHS[name]}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")), "<")


def describe(error: BaseException) -> dict[str, Any]:
    """`{type, message, traceback}` of an error, as pages show it and every database can store it."""
    trace = "".join(traceback.format_exception(error))[-2 * TRACE :]  # a secret across the cut is still seen whole
    message = (str(error) or (type(error).__doc__ or "").strip())[: 2 * MESSAGE]
    return {
        "type": type(error).__name__,
        "message": made_storable(without_secrets(message))[:MESSAGE],
        "traceback": made_storable(without_secrets(trace))[-TRACE:],
    }


def place_of(error: BaseException) -> str:
    """The innermost frame of the handler's own code, not of the desk or a library: `triage_issue.py in read_issue`.

    Of a handler that is a library's itself, where the desk called it."""
    frames = traceback.extract_tb(error.__traceback__)
    called = [frame for frame in frames if not is_desk(frame.filename)]
    own = [frame for frame in called if not frame.filename.startswith(LIBRARIES)]
    for frame in (*own[-1:], *called[:1], *frames[-1:]):
        return f"{os.path.basename(frame.filename)} in {frame.name}"
    return ""


def is_desk(filename: str) -> bool:
    return filename.startswith(DESK) and not filename.startswith(SHIPPED)


def whole(error: Exception) -> dict[str, Any]:
    """`describe()`, and what `raised_again()` needs: its class, its arguments and whatever else of it JSON can say."""
    kind = type(error)
    kept = {name: value for name, value in vars(error).items() if is_kept(value)}
    arguments = [value for value in error.args if is_kept(value)]
    more = {"class": f"{kind.__module__}:{kind.__qualname__}", "args": arguments, "facts": kept}
    said = str(more)
    keeps = len(said) <= MESSAGE and without_secrets(said) == said
    return describe(error) | (more if keeps else {"class": more["class"]})


def is_kept(value: Any) -> bool:
    return not culprit(value) and made_storable(str(value)) == str(value)


def raised_again(error: dict[str, Any]) -> Exception:
    """The same error, as near as it can be made: of its own class while that is loaded, else StepFailed."""
    kind = class_of(error.get("class", ""))
    if kind is None:
        return StepFailed(f"{error['type']}: {error['message']}")
    made: Exception = kind.__new__(kind)
    made.args = tuple(error.get("args", [error["message"]]))
    vars(made).update(error.get("facts", {}))
    return made


def class_of(name: str) -> type[Exception] | None:
    """The class of this name, when its module is loaded; nothing is imported for it."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
