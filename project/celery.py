"""The Celery application: a bell and a pool of workers, never the truth."""

import os
from logging.config import dictConfig
from typing import Any

from celery import Celery, signals
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
app = Celery("nightdesk")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["triggers", "approvals", "project"])


@signals.setup_logging.connect
def speak_as_the_desk(**_: Any) -> None:
    """Celery lays out its own lines unless somebody else does; then what handlers print is ours to catch, too."""
    dictConfig(settings.LOGGING)
    app.log.redirect_stdouts("INFO")
