"""The product's settings with a broker that gives messages out again after two seconds, and after a worker's death."""

from project.settings import *  # noqa: F403
from project.settings import CELERY_BROKER_TRANSPORT_OPTIONS

CELERY_BROKER_TRANSPORT_OPTIONS |= {"visibility_timeout": 2, "unacked_restore_interval": 1}
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
