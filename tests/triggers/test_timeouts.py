"""Whoever takes too long is sent away, and nobody else."""

import asyncio

import pytest

from triggers.timeouts import SharedTimeout


def test_who_takes_too_long_is_sent_away_and_those_who_came_later_may_go_on() -> None:
    async def run() -> list[object]:
        timeout, body = SharedTimeout(0.2), asyncio.get_running_loop().create_future()
        slow = asyncio.ensure_future(timeout.wait(asyncio.Event().wait()))
        await asyncio.sleep(0.1)
        later = asyncio.ensure_future(timeout.wait(body))
        await asyncio.wait([slow])
        body.set_result(b"{}")
        return await asyncio.gather(slow, later, return_exceptions=True)

    slow, later = asyncio.run(run())
    assert (type(slow), later) == (TimeoutError, b"{}")


def test_the_timer_goes_on_to_the_next_and_rests_when_nobody_waits() -> None:
    async def run() -> bool:
        timeout = SharedTimeout(0.05)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await timeout.wait(asyncio.Event().wait())
        await timeout.wait(asyncio.sleep(0))
        assert not timeout.began
        await asyncio.sleep(0.1)
        return timeout.is_watching

    assert asyncio.run(run()) is False


def test_who_is_cancelled_by_somebody_else_is_cancelled() -> None:
    async def run() -> None:
        timeout = SharedTimeout(60)
        task = asyncio.ensure_future(timeout.wait(asyncio.Event().wait()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not timeout.began

    asyncio.run(run())
