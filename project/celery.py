"""The Celery application: a bell and a pool of workers, never the truth."""

import os
from logging.config import dictConfig
from typing import Any

from celery import Celery, signals
from django.conf import settings

PATIENCE = {"socket_timeout": 1, "socket_connect_timeout": 1}  # seconds; a worker that listens waits longer

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")


class Desk(Celery):
    """Who sends a message never waits long for a broker that hangs: whatever is sent here may be lost."""

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        return super().connection_for_write(url, **{"transport_options": PATIENCE, **options})


app = Desk("nightdesk")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["triggers", "approvals", "project"])


@signals.setup_logging.connect
def speak_as_the_desk(**_: Any) -> None:
    """Celery lays out its own lines unless somebody else does; then what handlers print is ours to catch, too."""
    dictConfig(settings.LOGGING)
    app.log.redirect_stdouts("INFO")
