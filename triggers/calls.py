"""Call a step's function: plain or async, within a time; whoever is too late speaks for nobody any more."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from django.db import connection

Function = Callable[..., Any]
waited_for: contextvars.ContextVar[tuple[threading.Event, ...]] = contextvars.ContextVar("waited_for", default=())


def call(
    name: str,
    function: Function,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    timeout: float | None,
    *,
    what: str = "step",
) -> Any:
    """What `function` returns, or its coroutine. Raises TimeoutError after `timeout` seconds.

    A function that hangs is left behind in its thread: nothing stops one from outside. Its result counts for nothing,
    and it can write nothing into the run's memory."""
    if timeout is None:
        return ended(function(*arguments, **named), None)
    late, outcome = threading.Event(), Future[Any]()
    context = contextvars.copy_context()
    context.run(waited_for.set, (*waited_for.get(), late))
    work = (context, outcome, function, arguments, named, timeout)
    threading.Thread(target=beside, args=work, name=f"{what} {name}"[:60], daemon=True).start()
    try:
        return outcome.result(timeout)
    except TimeoutError as error:
        if outcome.done() and outcome.exception() is error and str(error):
            raise  # the function's own
        raise TimeoutError(f"the {what} “{name}” took longer than {timeout:g} s") from error
    finally:
        late.set()


def ended(result: Any, timeout: float | None) -> Any:
    """The result itself, or what the coroutine it is comes to."""
    return asyncio.run(asyncio.wait_for(result, timeout)) if inspect.iscoroutine(result) else result


def beside(
    context: contextvars.Context,
    outcome: "Future[Any]",
    function: Function,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    timeout: float | None,
) -> None:
    """In a thread of its own, whose connection it closes."""
    try:
        outcome.set_result(context.run(lambda: ended(function(*arguments, **named), timeout)))
    except BaseException as error:
        outcome.set_exception(error)
    finally:
        connection.close()


def outcome_of(function: Function) -> "Future[Any]":
    """What a branch came to, its result or its error; signals go on."""
    outcome = Future[Any]()
    try:
        outcome.set_result(function())
    except Exception as error:
        outcome.set_exception(error)
    return outcome


def is_left_behind() -> bool:
    """Whether the one who asks is such a function, still at work although its time is over."""
    return any(late.is_set() for late in waited_for.get())
