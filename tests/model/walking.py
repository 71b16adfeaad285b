"""How far the walks of the state machines go: a few the same way in every run of the suite, long new ones on demand."""

import os

from hypothesis import HealthCheck, Phase, settings


def walks(*, examples: int, steps: int) -> settings:
    """So many of so many steps, unless NIGHTDESK_EXAMPLES and NIGHTDESK_STEPS say otherwise."""
    wanted = int(os.environ.get("NIGHTDESK_EXAMPLES", examples))
    is_usual = wanted <= examples
    return settings(
        max_examples=wanted,
        stateful_step_count=int(os.environ.get("NIGHTDESK_STEPS", steps)),
        deadline=None,
        database=None,
        derandomize=is_usual,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if is_usual else [Phase.generate, Phase.shrink],
    )
