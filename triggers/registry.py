"""Handlers by name. Those that ship are imported by the wiring; a user's are files in HANDLERS_DIR."""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from pydantic import BaseModel

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from project.people.models import User
    from triggers.models import DeadLetter, Event, Run

Function = Callable[[Any], Any]  # of one triggers.durable.Durable, which stands above this module


@dataclass(frozen=True, kw_only=True)
class Handler:
    """A plain function `(run) -> JSON`, its name, a version label and the model of its config."""

    name: str
    function: Function
    version: str = "1"
    config: type[BaseModel] | None = None
    doc: str = ""
    place: str = ""
    breaker: int = 5  # runs that die in a row before the others wait; 0: they never do


@dataclass(frozen=True)
class BrokenFile:
    """A file in HANDLERS_DIR that could not be imported: shown, never fatal."""

    path: str
    error: str
    traceback: str = field(repr=False, default="")

    @property
    def last_line(self) -> str:
        """Of the traceback: what was wrong, in Python's words."""
        return (self.traceback.strip() or self.error).splitlines()[-1]


@dataclass(frozen=True, kw_only=True)
class Middleware:
    """A plain function `(event) -> event | None`; the smallest order comes first."""

    name: str
    function: Function
    order: int
    doc: str = ""
    place: str = ""


HANDLERS: dict[str, Handler] = {}
MIDDLEWARE: dict[str, Middleware] = {}
BROKEN: dict[str, BrokenFile] = {}
at_run_end: list[Callable[["Run"], None]] = []  # called inside the transaction that ends a run
left_by_run: list[
    Callable[[], "QuerySet[Any]"]
] = []  # rows, by `OuterRef("pk")` of a run, that its end must look after
undone_steps: list[Callable[["Run"], set[str]]] = []  # names of steps whose memory is of no use: their effect is undone
needed_runs: list[Callable[[], "QuerySet[Run]"]] = []  # runs that ended, whose memory is of use all the same
act_names: list[Callable[["QuerySet[Run]"], Iterable[str]]] = []  # of what these runs did, or wanted to
graphs: list[Callable[[Any, Any, Any, str, Any], Any]] = []  # who runs a compiled graph
samples: list[Callable[[], dict[str, Any]]] = []  # made-up deliveries: name -> what makes (source, headers, body)
asks_of: list[Callable[[str], float | None]] = []  # how many approvals a run of this handler asked for, so far
at_refusal: list[Callable[["Event", dict[str, str]], None]] = []  # called inside the transaction that refuses an event
sent_by: list[Callable[["Run"], list[dict[str, Any]]]] = []  # effects of a run: {name, action, title, unclear}
undoing_of: list[Callable[["Run"], dict[str, Any] | None]] = []  # what a run's page shows of it; None: nothing
asked_of: list[
    Callable[["Run"], tuple[str, int] | None]
] = []  # who may decide what a run waits for, how many were told
knows_kind: list[Callable[[str], bool]] = []  # whether there is a kind of action of this name
used_by: list[Callable[["Run"], dict[str, Any] | None]] = []  # what asking models took; None: none was asked
costs_of: list[Callable[[Collection[str]], dict[str, dict[str, Any]]]] = []  # by handler, of today and of an event
# what must be set before a handler can work with this config, None where it is not known; empty: nothing
lacking: list[Callable[[str, Mapping[str, Any] | None], str]] = []
# who can go on with a letter, which a person runs again, in his own way
taken_up: list[Callable[["DeadLetter", Sequence[str], "User | None"], "Run | None"]] = []
spare_rows: dict[str, Callable[[datetime], "Iterator[QuerySet[Any]]"]] = {}  # what may go by now, in this order


class DuplicateHandler(Exception):
    """Two functions claim one name."""


def handler(
    name: str, *, version: str = "1", config: type[BaseModel] | None = None, breaker: int = 5
) -> Callable[[Function], Function]:
    """Register the function below under `name`; raises DuplicateHandler when the name is taken."""

    def register(function: Function) -> Function:
        place = f"{function.__module__}.{function.__qualname__}"
        if name in HANDLERS and HANDLERS[name].place != place:
            raise DuplicateHandler(f"handler {name!r} is registered by {HANDLERS[name].place} already")
        doc = inspect.getdoc(function) or ""
        HANDLERS[name] = Handler(
            name=name, function=function, version=version, config=config, doc=doc, place=place, breaker=breaker
        )
        return function

    return register


def middleware(*, order: int = 50) -> Callable[[Function], Function]:
    """Let the function below see every event from outside before triggers are asked; raises DuplicateHandler."""

    def register(function: Function) -> Function:
        name, place = function.__name__, f"{function.__module__}.{function.__qualname__}"
        if name in MIDDLEWARE and MIDDLEWARE[name].place != place:
            raise DuplicateHandler(f"middleware {name!r} is registered by {MIDDLEWARE[name].place} already")
        doc = inspect.getdoc(function) or ""
        MIDDLEWARE[name] = Middleware(name=name, function=function, order=order, doc=doc, place=place)
        return function

    return register


def in_order() -> list[Middleware]:
    return sorted(MIDDLEWARE.values(), key=lambda one: (one.order, one.name))


def load_user_handlers() -> None:
    """Import every `*.py` of HANDLERS_DIR; a file that fails is kept in BROKEN with its traceback."""
    BROKEN.clear()
    for path in sorted(Path(settings.HANDLERS_DIR).glob("*.py")):
        load_file(path)


def load_file(path: Path) -> None:
    module_name = f"user_handlers.{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        BROKEN[path.name] = BrokenFile(str(path), "not a Python file")
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may fail in any way; the desk must start all the same
        BROKEN[path.name] = BrokenFile(str(path), f"{type(error).__name__}: {error}", traceback.format_exc())
