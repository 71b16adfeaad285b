"""The stories that ship; importing this package registers them."""

from project.handlers import (
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
    "code_agent",
    "daily_report",
    "diagnose_alert",
    "new_upload",
    "notify",
    "order_created",
    "review_push",
    "triage_issue",
]
