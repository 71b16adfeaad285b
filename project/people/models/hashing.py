"""What is stored in place of a text that only its holder may know."""

import hashlib


def hashed(token: str) -> str:
    """Its SHA-256 in hex. Such texts are random and long, so no salt is needed."""
    return hashlib.sha256(token.encode()).hexdigest()
