"""PydanticAI: tools with `requires_approval=True` are put before people on the desk.

    agent = Agent("…", output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def delete_file(path: str) -> str: ...

    print(run(agent, "Tidy up the folder", job="tidy-2024-07-01"))

`job` names this piece of work: with the same name, and the same history of messages, a restarted process finds the
answers that people have given.
"""

import os

from nightdesk import Cancelled, Desk, Expired, Failed, Rejected, revealed
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied


def decided(desk: Desk, job: str, call):
    """The nod for one call, with the arguments as a reviewer left them; or why not, in words for the model."""
    given = call.args_as_dict()
    try:
        done = desk.act(f"external.{call.tool_name}", given, key=f"{job}-{call.tool_call_id}")
    except (Rejected, Expired, Cancelled, Failed) as no:
        return ToolDenied(str(no))
    return ToolApproved(override_args=revealed(done.arguments, given))  # with the credentials nobody sees


def run(agent, prompt: str, *, job: str, desk: Desk | None = None, **more):
    desk = desk or Desk(os.environ["NIGHTDESK_URL"], os.environ["NIGHTDESK_TOKEN"])
    result = agent.run_sync(prompt, **more)
    while isinstance(result.output, DeferredToolRequests):
        nods = {call.tool_call_id: decided(desk, job, call) for call in result.output.approvals}
        answers = DeferredToolResults(approvals=nods)
        result = agent.run_sync(message_history=result.all_messages(), deferred_tool_results=answers, **more)
    return result.output
