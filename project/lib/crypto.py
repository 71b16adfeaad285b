"""Stored secrets are Fernet texts; several keys let an operator rotate them."""

import hashlib
import hmac
import json
from functools import cache, lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from project.lib.problem import Problem


class Unreadable(Problem):
    """A stored secret was sealed with a key that FIELD_KEY no longer holds; enter it anew."""

    code = "unreadable"
    http = 503


@cache
def keyring(keys: str) -> MultiFernet:
    return MultiFernet([Fernet(key.strip()) for key in keys.split(",")])


@lru_cache(maxsize=1000)
def mark_of(secret: str) -> str:
    """A name for a secret by which it can be counted, and which tells nothing of it."""
    key = hashlib.sha256(b"mark:" + settings.SECRET_KEY.encode()).digest()
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), "sha256").hexdigest()[:16]


def seal(value: Any) -> str:
    """Encrypt any JSON value; None and empty values give an empty text."""
    if not value:
        return ""
    return keyring(settings.FIELD_KEY).encrypt(json.dumps(value).encode()).decode()


def unseal(sealed: str) -> Any:
    """The JSON value of a sealed text (None for an empty one); raises Unreadable."""
    if not sealed:
        return None
    try:
        return json.loads(keyring(settings.FIELD_KEY).decrypt(sealed.encode()))
    except InvalidToken as error:
        raise Unreadable from error
