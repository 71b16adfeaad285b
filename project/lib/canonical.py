"""One text for one value, and its digest: what was shown is what runs (RFC 8785)."""

import hashlib
from typing import Any

import rfc8785

SAFE_INTEGER = 2**53 - 1  # beyond it JSON readers disagree (RFC 7493)


class NotCanonical(ValueError):
    """The value cannot be written as one agreed JSON text."""


def text(value: Any) -> str:
    """The RFC 8785 text of `value`; raises NotCanonical with the reason."""
    try:
        return rfc8785.dumps(value).decode()
    except rfc8785.CanonicalizationError as error:
        raise NotCanonical(str(error)) from error


def digest(value: Any) -> str:
    """`sha256:` and the hex SHA-256 of the canonical text."""
    return digest_of_text(text(value))


def digest_of_text(canonical: str) -> str:
    """The digest of a text that is canonical already."""
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
