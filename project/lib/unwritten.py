"""The last time this process could not write: a full disk shows in nothing else that a page could ask."""

import time

RECENT = 60.0  # seconds a refusal is told after the last one


class Last:
    """What the database said, and when."""

    words = ""
    at = float("-inf")  # by the monotonic clock


def note(error: BaseException) -> None:
    Last.words, Last.at = " ".join(str(error).split()) or type(error).__name__, time.monotonic()


def lately() -> str:
    """What the database said if it refused a write lately; else an empty text."""
    return Last.words if time.monotonic() - Last.at < RECENT else ""
