"""A permission hook: your coding agent asks it before every tool, and people on the desk say yes or no.

For agents that run a command before each tool with the call as JSON on its standard input, and read from its standard
output whether the tool may run (the `PreToolUse` form). Put `project/client.py` beside this file as `nightdesk.py`, set
NIGHTDESK_URL and NIGHTDESK_TOKEN, and name this file as the hook of the tools that are worth a nod:

    {"hooks": {"PreToolUse": [{"matcher": "Bash|Write", "hooks": [
        {"type": "command", "command": "python permission_hook.py", "timeout": 3600}]}]}}

Whatever goes wrong is a no.
"""

import hashlib
import json
import os
import sys
import uuid

from nightdesk import Desk, NightdeskError, Rejected, UsedUp, revealed

WITHIN = 3500  # seconds; a little less than the timeout above


def key_of(call: dict) -> str:
    """The same for the same call: a hook that was killed goes on waiting. Without a number of the call every call is
    another one, also of the same tool with the same input."""
    number = call.get("tool_use_id") or uuid.uuid4().hex
    text = json.dumps([call.get("session_id"), number, call["tool_name"], call["tool_input"]])
    return f"hook-{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def judged(desk: Desk, call: dict) -> tuple[str, str]:
    """`allow` or `deny`, and why."""
    kind, arguments = f"external.{call['tool_name']}", call["tool_input"]
    try:
        done = desk.act(
            kind, arguments, once=True, key=key_of(call), within=WITHIN, reason=f"in {call.get('cwd', '?')}"
        )
    except Rejected as no:
        return "deny", str(no)
    except UsedUp as used:
        return "deny", f"{used}: a nod is for one call. Make a new one."
    if done["revision"] > 1:
        better = json.dumps(revealed(done.arguments, arguments))
        return "deny", f"A reviewer would rather have you call it with {better}. Ask for that."
    return "allow", f"A-{done.id} was approved. {done.why}".strip()


def main() -> None:
    try:
        desk = Desk(os.environ["NIGHTDESK_URL"], os.environ["NIGHTDESK_TOKEN"], patience=60)
        decision, why = judged(desk, json.load(sys.stdin))
    except (NightdeskError, KeyError, TypeError, ValueError) as error:
        decision, why = "deny", f"Nobody could be asked: {error!r}"
    told = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": why}
    print(json.dumps({"hookSpecificOutput": told}))


if __name__ == "__main__":
    main()
