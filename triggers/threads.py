"""Work beside the loop, for what asks the database through the ORM."""

import asyncio
from collections.abc import Callable
from typing import Any

from django.db import close_old_connections


async def beside(function: Callable[..., Any], *given: Any) -> Any:
    """Call it in a thread, and leave no connection behind there."""
    return await asyncio.to_thread(with_connection, function, *given)


def with_connection(function: Callable[..., Any], *given: Any) -> Any:
    close_old_connections()
    try:
        return function(*given)
    finally:
        close_old_connections()
