"""The rows of the people's side, by noun."""

from approvals import connectors
from approvals.models.act import Act
from approvals.models.action import Action
from approvals.models.attempt import Attempt
from approvals.models.compensation import Compensation
from approvals.models.connection import Connection
from approvals.models.decision import Decision
from approvals.models.policy import PolicyChange, PolicyRule, PolicyVersion
from approvals.models.practice import PracticeItem

catalogue = connectors  # importing it registers the kinds

__all__ = [
    "Act",
    "Action",
    "Attempt",
    "Compensation",
    "Connection",
    "Decision",
    "PolicyChange",
    "PolicyRule",
    "PolicyVersion",
    "PracticeItem",
]
