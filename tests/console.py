"""`python -m tests.console`: runs the code it is sent in the desk of its environment, one JSON line for each answer.

Loading Django takes two seconds; a console takes them once. It keeps no connection while it waits.
"""

import contextlib
import io
import json
import sys
import traceback

import django
from django.db import connections


def answer(code: str) -> dict[str, str]:
    """What `code` printed, and the traceback of what it raised."""
    printed, error = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        try:
            exec(code, {})
        except Exception:
            error = traceback.format_exc()
        finally:
            connections.close_all()
    return {"printed": printed.getvalue(), "error": error}


if __name__ == "__main__":
    django.setup()
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
