"""OpenAI Agents SDK: tools with `needs_approval=True` are put before people on the desk.

    @function_tool(needs_approval=True)
    def refund(order: str, cents: int) -> str: ...

    print(asyncio.run(run(agent, "Refund order 4711", job="refund-4711")).final_output)

Everything the agent wants in one turn is asked for first and waited for then, so people see it side by side.
"""

import asyncio
import json
import os

from agents import Runner
from nightdesk import Cancelled, Desk, Expired, Failed, Rejected


def asked(desk: Desk, job: str, item) -> int:
    """The number of the action that stands for this call."""
    call = item.raw_item
    return desk.ask(f"external.{call.name}", json.loads(call.arguments or "{}"), key=f"{job}-{call.call_id}").id


def decided(desk: Desk, state, item, number: int) -> None:
    """A nod is for the call as it was asked for: what a reviewer changed is no yes to this one."""
    try:
        done = desk.wait(number)
    except (Rejected, Expired, Cancelled, Failed):
        state.reject(item)
        return
    (state.approve if done["revision"] == 1 else state.reject)(item)


async def run(agent, given, *, job: str, desk: Desk | None = None):
    desk = desk or Desk(os.environ["NIGHTDESK_URL"], os.environ["NIGHTDESK_TOKEN"])
    result = await Runner.run(agent, given)
    while result.interruptions:
        state = result.to_state()
        numbers = [await asyncio.to_thread(asked, desk, job, item) for item in result.interruptions]
        for item, number in zip(result.interruptions, numbers, strict=True):
            await asyncio.to_thread(decided, desk, state, item, number)
        result = await Runner.run(agent, state)
    return result
