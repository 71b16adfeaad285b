"""The rows of the people's side, by noun."""

from approvals import connectors
from approvals.models.act import Act
from approvals.models.action import Action
from approvals.models.asking import Asking, Notice
from approvals.models.attempt import Attempt
from approvals.models.channel import Channel, Hours
from approvals.models.click import Click
from approvals.models.compensation import Compensation
from approvals.models.connection import Connection
from approvals.models.decision import Decision
from approvals.models.freeze import Freeze
from approvals.models.morning import Morning
from approvals.models.policy import PolicyChange, PolicyRule, PolicyVersion
from approvals.models.practice import PracticeItem
from approvals.models.proposal import CallBack, Proposal
from approvals.models.review import Review

catalogue = connectors  # importing it registers the kinds

__all__ = [
    "Act",
    "Action",
    "Asking",
    "Attempt",
    "CallBack",
    "Channel",
    "Click",
    "Compensation",
    "Connection",
    "Decision",
    "Freeze",
    "Hours",
    "Morning",
    "Notice",
    "PolicyChange",
    "PolicyRule",
    "PolicyVersion",
    "PracticeItem",
    "Proposal",
    "Review",
]
