"""The stories that ship; importing this package registers them."""

from project.handlers import daily_report, notify, triage_issue

__all__ = ["daily_report", "notify", "triage_issue"]
