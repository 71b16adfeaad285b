"""The wiring: settings, servers, pages and the handlers that ship."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
