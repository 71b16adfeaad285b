"""An end to waiting for those who take too long: one timer for all, since one for each costs more than most reads."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

Result = TypeVar("Result")


class SharedTimeout:
    """Waits for anything at most `seconds`; its timer runs only while somebody waits."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.began: dict[asyncio.Task[Any], float] = {}  # who waits, the oldest first
        self.is_watching = False

    async def wait(self, awaited: Awaitable[Result]) -> Result:
        """What `awaited` gives; raises TimeoutError."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self.began[task] = loop.time()
        if not self.is_watching:
            self.is_watching = True
            loop.call_later(self.seconds, self.look, loop)
        try:
            return await awaited
        except asyncio.CancelledError:
            if task in self.began:
                raise  # by somebody else
            task.uncancel()
            raise TimeoutError from None
        finally:
            self.began.pop(task, None)

    def look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send away whose time is over, and come again when that of the next one is."""
        now = loop.time()
        for task in [task for task, began in self.began.items() if now - began >= self.seconds]:
            del self.began[task]
            task.cancel()
        self.is_watching = bool(self.began)
        if self.is_watching:
            loop.call_later(next(iter(self.began.values())) + self.seconds - now, self.look, loop)
