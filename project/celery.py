"""The Celery application: a bell and a pool of workers, never the truth."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
app = Celery("nightdesk")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["triggers", "approvals", "project"])
