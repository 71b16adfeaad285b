"""The wiring: settings, servers, pages and the handlers that ship."""

import gc

from project.lib import bare  # noqa: F401  # before anybody imports one of the libraries it trims

from project.celery import app as celery_app  # isort: skip

# Each process loads two thousand modules before its first task, and they stay: the collector need not look through
# them for every few hundred small objects (project/apps.py lets it rest altogether while they load).
gc.set_threshold(50_000, 20, 100)

__all__ = ["celery_app"]
