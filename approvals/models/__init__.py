"""The rows of the people's side, by noun."""

from approvals.models.action import Action
from approvals.models.attempt import Attempt
from approvals.models.connection import Connection
from approvals.models.decision import Decision
from approvals.models.practice import PracticeItem

__all__ = ["Action", "Attempt", "Connection", "Decision", "PracticeItem"]
