"""The wiring: settings, servers, pages and the handlers that ship."""

import gc
import sys
from types import ModuleType

# Each process loads two thousand modules before its first task, and they stay: the collector need not look through
# them for every few hundred small objects. CEL's own command line is a seventh of them, and nobody asks for it here.
gc.set_threshold(50_000, 20, 100)
sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))

from project.celery import app as celery_app  # noqa: E402

__all__ = ["celery_app"]
