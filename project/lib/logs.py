"""Log lines: one a record, said by whom and about what, without secrets, bounded, and not to be forged.

Code uses the standard `logging`; this module decides how a record is written. `about()` says which run, event or
action is being worked on, and every record made meanwhile carries it, also those of libraries."""

import logging
import re
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from project.lib.redaction import Redactor

LONGEST = 4000  # characters of one value
LONGEST_TRACE = 20_000  # of a traceback; its end says most
DEEPEST = 4  # levels of nested facts
MOST = 50  # facts of one record, items of one list
QUIET = (
    "celery",
    "kombu",
    "amqp",
    "uvicorn",
    "httpx",
    "httpcore",
    "urllib3",
    "asyncio",
    "django",
    "axes",
    "django_celery_beat",
    "opentelemetry",
)
# What would end a line, move the cursor, or turn the reading direction of what follows
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
FACTS_OF_LOGGING = structlog.stdlib.ExtraAdder()


def about(**facts: Any) -> AbstractContextManager[None]:
    """While the block lasts, every record of this thread or task carries `facts`: run=7, event_id=5, action=3."""
    return structlog.contextvars.bound_contextvars(**facts)


def config(*, form: str, level: str, process: str, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """Django's LOGGING: `form` is console, json, or empty for what fits standard error."""
    logging.captureWarnings(True)  # Python's own warnings are records too
    form = form or ("console" if sys.stderr.isatty() else "json")
    quiet = {name: {"level": max_level(level, "WARNING"), "handlers": [], "propagate": True} for name in QUIET}
    quiet["django.request"] = {"level": "ERROR", "handlers": [], "propagate": True}  # every stranger's 404 is no news
    quiet["celery.redirected"] = {"level": level.upper(), "handlers": [], "propagate": True}  # handlers' prints
    own_handlers = {name: {"handlers": [], "propagate": True} for name in ("uvicorn.error", "uvicorn.access")}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": formatter, "form": form, "process": process, "secrets": tuple(secrets)}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": quiet | own_handlers,
    }


def max_level(one: str, other: str) -> str:
    """The stricter of two levels: libraries speak from warning on, or later when the desk does."""
    return max(one.upper(), other, key=lambda name: logging.getLevelNamesMapping()[name])


def formatter(*, form: str, process: str, secrets: tuple[str, ...]) -> logging.Formatter:
    """Turns every record, ours or a library's, into one line."""
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        FACTS_OF_LOGGING,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        Origin(process),
        structlog.processors.format_exc_info,
        Clean(Redactor(secrets)),
        console if form == "console" else structlog.processors.JSONRenderer(),
    ]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=common, processors=last)


class Origin:
    """Which process of the desk speaks."""

    def __init__(self, process: str) -> None:
        self.process = process or "manage"

    def __call__(self, logger: WrappedLogger, method: str, record: EventDict) -> EventDict:
        return {"process": self.process, **record}


class Clean:
    """The one place where secrets are taken out, texts are cut and control characters become visible."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def __call__(self, logger: WrappedLogger, method: str, record: EventDict) -> EventDict:
        trace = record.pop("exception", None)
        rough = bounded(dict(record), 2 * LONGEST)  # what stands across the final cut is still seen whole
        clean: EventDict = escaped(bounded(self.redactor.facts(rough), LONGEST))
        if trace:
            text = self.redactor.text(str(trace)[-2 * LONGEST_TRACE :])
            clean["exception"] = "\n".join(visible(line) for line in text[-LONGEST_TRACE:].split("\n"))
        return clean


def bounded(value: Any, longest: int, depth: int = 0) -> Any:
    """The value with texts over `longest` characters, long lists and deep nests cut, each cut marked."""
    if isinstance(value, dict):
        if depth >= DEEPEST:
            return "{…}"
        return {str(name)[:100]: bounded(item, longest, depth + 1) for name, item in list(value.items())[:MOST]}
    if isinstance(value, list | tuple | set | frozenset):
        return [bounded(item, longest, depth + 1) for item in list(value)[:MOST]] if depth < DEEPEST else "[…]"
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


def escaped(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(name): escaped(item) for name, item in value.items()}
    return [escaped(item) for item in value] if isinstance(value, list) else value


def visible(text: str) -> str:
    """Control characters in Python's own spelling, so that nobody writes a line of his own into the log."""
    return CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


TONES = {"debug": "2", "info": "36", "warning": "33", "error": "31", "critical": "1;31"}
UNSAID = ("event", "level", "timestamp", "logger", "process", "exception")


def console(logger: WrappedLogger, method: str, record: EventDict) -> str:
    """For people at a terminal: level, words, facts; a traceback is indented beneath, so that no line of it passes for
    a record. `up` puts the process in front."""
    level = str(record.get("level", ""))
    facts = " ".join(f"\x1b[2m{name}=\x1b[0m{value}" for name, value in record.items() if name not in UNSAID)
    line = f"\x1b[{TONES.get(level, '0')}m{level:<8}\x1b[0m{record.get('event', '')}" + (f"  {facts}" if facts else "")
    trace = str(record.get("exception", ""))
    return line + "".join(f"\n    {part}" for part in trace.splitlines())
