"""Signatures that are checked with a public key: Ed25519, ECDSA over P-256, RSA. Pure; keys are read once."""

import binascii
from base64 import b64decode
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, HashAlgorithm
from cryptography.hazmat.primitives.serialization import load_der_public_key

KEYS = 200  # that are kept read
RSA_DIGESTS: dict[str, type[HashAlgorithm]] = {"sha1": SHA1, "sha256": SHA256}


@lru_cache(maxsize=KEYS)
def ed25519_key(raw: bytes) -> Ed25519PublicKey | None:
    """Of its 32 bytes; None when it is no such key."""
    try:
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:
        return None


@lru_cache(maxsize=KEYS)
def p256_key(text: bytes) -> EllipticCurvePublicKey | None:
    """Of what providers show: base64 of DER, with the lines of PEM or without; None when it is no such key."""
    lines = [line for line in text.split() if b"-----" not in line and line not in (b"PUBLIC", b"KEY")]
    try:
        key = load_der_public_key(b64decode(b"".join(lines), validate=True))
    except (ValueError, binascii.Error, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1) else None


def fits_ed25519(raw: bytes, signature: bytes, text: bytes) -> bool:
    key = ed25519_key(raw)
    try:
        if key is not None:
            key.verify(signature, text)
    except InvalidSignature:
        return False
    return key is not None


def fits_p256(shown: bytes, signature: bytes, text: bytes) -> bool:
    key = p256_key(shown)
    try:
        if key is not None:
            key.verify(signature, text, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return key is not None


def fits_rsa(key: RSAPublicKey, signature: bytes, text: bytes, digest: str) -> bool:
    try:
        key.verify(signature, text, PKCS1v15(), RSA_DIGESTS[digest]())
    except InvalidSignature:
        return False
    return True
