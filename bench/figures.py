"""How a row of times is said in one line."""

import statistics


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 95th and 99th percentile and greatest, in milliseconds."""
    ordered = sorted(seconds)
    most = {f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in (95, 99)}
    named = {"p50": statistics.median(ordered), **most, "max": ordered[-1]}
    return {name: round(value * 1000, 1) for name, value in named.items()}
