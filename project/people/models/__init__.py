"""Who may do what: people, their tokens, the service accounts that act for machines, and how one proves who one is."""

from project.people.models.authenticator import CLOCKS_DIFFER, RECOVERY_CODES, Authenticator, RecoveryCode
from project.people.models.hashing import hashed
from project.people.models.proof import FRESH_FOR, Proof, ProofQuerySet
from project.people.models.token import PEOPLE_ONLY, PREFIX, SCOPES, ApiToken, ApiTokenQuerySet
from project.people.models.user import User

__all__ = [
    "CLOCKS_DIFFER",
    "FRESH_FOR",
    "PEOPLE_ONLY",
    "PREFIX",
    "RECOVERY_CODES",
    "SCOPES",
    "ApiToken",
    "ApiTokenQuerySet",
    "Authenticator",
    "Proof",
    "ProofQuerySet",
    "RecoveryCode",
    "User",
    "hashed",
]
