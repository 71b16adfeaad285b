"""The stories that ship; importing this package registers them."""

from project.handlers import (
    agent,
    code_agent,
    daily_report,
    diagnose_alert,
    new_upload,
    notify,
    order_created,
    review_push,
    triage_issue,
)

__all__ = [
    "agent",
    "code_agent",
    "daily_report",
    "diagnose_alert",
    "new_upload",
    "notify",
    "order_created",
    "review_push",
    "triage_issue",
]
