"""LangGraph: every `interrupt()` of a graph becomes an action on the desk, and the nod resumes the graph.

A node says what it wants and waits:

    approved = interrupt({"kind": "email.send", "arguments": {...}, "reason": "the customer asked for it"})

With a kind of the desk the desk does it and `approved["result"]` is what came of it; with `external.something` the node
does it itself, with `approved["arguments"]`. Start the graph with `run()`; after a crash call it again with the same
thread: the checkpointer knows where the graph stood, the desk knows what people said.
"""

import os

from langgraph.types import Command
from nightdesk import Cancelled, Desk, Expired, Failed, Rejected, revealed


def decided(desk: Desk, thread: str, interrupt) -> dict:
    """What the waiting node gets: `{approved, arguments?, result?, why?}`."""
    wish = interrupt.value
    try:
        done = desk.act(**wish, key=f"{thread}-{interrupt.id}")
    except (Rejected, Expired, Cancelled, Failed) as no:
        return {"approved": False, "why": str(no)}
    arguments = revealed(done.arguments, wish["arguments"])  # your own credentials, which the desk shows to nobody
    return {"approved": True, "arguments": arguments, "result": done.result}


def run(graph, thread: str, given: dict | None, desk: Desk | None = None) -> dict:
    """Let the graph go on to its end. `given` is None when the thread was begun before."""
    desk = desk or Desk(os.environ["NIGHTDESK_URL"], os.environ["NIGHTDESK_TOKEN"])
    config = {"configurable": {"thread_id": thread}}
    waiting = [] if given is not None else [one for task in graph.get_state(config).tasks for one in task.interrupts]
    step = Command(resume={one.id: decided(desk, thread, one) for one in waiting}) if waiting else given
    while True:
        state = graph.invoke(step, config)
        waiting = state.get("__interrupt__", ())
        if not waiting:
            return state
        step = Command(resume={one.id: decided(desk, thread, one) for one in waiting})
