"""How long to wait before the next try (AWS architecture blog, "Exponential backoff and jitter")."""

import random
from datetime import timedelta


def full_jitter(attempt: int, *, base: float = 1, factor: float = 2, longest: float = 3600) -> timedelta:
    """A random wait between nothing and `base * factor ** (attempt - 1)` seconds, at most `longest`."""
    return timedelta(seconds=random.uniform(0, min(longest, base * factor ** max(0, attempt - 1))))


def around(seconds: float, *, spread: float = 0.2) -> timedelta:
    """`seconds`, give or take `spread` of it, so that many waiters do not return at once."""
    return timedelta(seconds=seconds * random.uniform(1 - spread, 1 + spread))
