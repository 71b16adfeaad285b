"""How a row of times is said in one line."""

import statistics


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 99th percentile and greatest, in milliseconds."""
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    named = {"p50": statistics.median(ordered), "p99": last, "max": ordered[-1]}
    return {name: round(value * 1000, 1) for name, value in named.items()}
