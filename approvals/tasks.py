"""Celery carries ids; the rows carry the truth."""

from typing import Any

from celery import shared_task

from approvals import deliver


@shared_task
def deliver_action(*, action_id: int, **later: Any) -> None:
    deliver.deliver(action_id)
