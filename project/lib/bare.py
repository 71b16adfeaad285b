"""Libraries of ours without the helpers they take along when these happen to be installed.

`cel` and httpx load their command lines (a shell, tables, a highlighter), redis-py the SDK of OpenTelemetry for figures
nobody asks of it, structlog a painter of tracebacks that are laid out elsewhere: a fifth of what each process of the
desk takes to start. An empty module stands in for each helper while the library loads, and is gone afterwards: who
imports one of them later gets the real one. The package `project` loads this first, so nobody was here before."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without(*names: str) -> Iterator[None]:
    """While the block lasts, whoever imports one of these finds nothing in it, unless it was there before."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update((name, ModuleType(name)) for name in absent)
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


with without("cel.cli", "httpx._main", "opentelemetry.sdk.metrics", "rich"):
    import cel  # noqa: F401
    import httpx  # noqa: F401
    import redis  # noqa: F401
    import structlog  # noqa: F401
