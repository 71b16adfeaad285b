"""Bodies that come encrypted, and the signature of the WeChat family, which stands over what is encrypted.

Feishu: AES-256-CBC under SHA-256 of the encrypt key, the vector before the text ("Encrypt Key" of its open platform).
WeCom and its kin: AES-256-CBC under a key of 43 characters, whose first half is the vector; inside sixteen random
bytes, a length, the message and for whom it is. Nothing that was wrong is told apart: all of it is Forged."""

import base64
import hashlib
import hmac

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from triggers.sources.forged import Forged

BLOCK = 16  # bytes
WECHAT_PADDING = 32  # WeChat's padding fills blocks of its own
RANDOM = 16  # bytes before the message


def open_feishu(text: str, key: str) -> bytes:
    """What stands in `encrypt` of a Feishu body. Raises Forged."""
    sealed = in_base64(text)
    plain = decrypted(sealed[BLOCK:], hashlib.sha256(key.encode()).digest(), sealed[:BLOCK])
    return without_padding(plain, BLOCK)


def check_wechat(given: str, token: str, timestamp: str, nonce: str, encrypted: str) -> bytes:
    """`msg_signature` is SHA-1 over the four texts, sorted and joined, which is returned. Raises Forged."""
    if not token:
        raise Forged("no_secret", "there is no token to check with")
    text = "".join(sorted((token, timestamp, nonce, encrypted))).encode()
    if not hmac.compare_digest(hashlib.sha1(text).hexdigest().encode(), given.encode()):
        raise Forged("bad_signature", "the signature does not fit the encrypted text and the token")
    return text


def open_wechat(text: str, key: str, receiver: str) -> bytes:
    """The message inside, when it is for `receiver`. Raises Forged."""
    message, whose = opened_wechat(text, key)
    if not hmac.compare_digest(whose, receiver.encode()):
        raise Forged("bad_signature", "what was encrypted is for somebody else")
    return message


def opened_wechat(text: str, key: str) -> tuple[bytes, bytes]:
    """The message inside, and for whom it is. Raises Forged."""
    secret = in_base64(f"{key}=")
    plain = without_padding(decrypted(in_base64(text), secret, secret[:BLOCK]), WECHAT_PADDING)
    end = RANDOM + 4 + int.from_bytes(plain[RANDOM : RANDOM + 4], "big")
    if len(plain) < end:
        raise Forged("bad_signature", "what was encrypted is no message")
    return plain[RANDOM + 4 : end], plain[end:]


def in_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise Forged("bad_signature", "what should be base64 is none") from None


def decrypted(sealed: bytes, key: bytes, vector: bytes) -> bytes:
    try:
        opening = Cipher(AES(key), CBC(vector)).decryptor()
        return opening.update(sealed) + opening.finalize()
    except ValueError:
        raise Forged("bad_signature", "it cannot be decrypted with this key") from None


def without_padding(plain: bytes, most: int) -> bytes:
    """PKCS#7. Raises Forged."""
    last = plain[-1] if plain else 0
    if not 1 <= last <= most or plain[-last:] != bytes([last]) * last:
        raise Forged("bad_signature", "it cannot be decrypted with this key")
    return plain[:-last]
