"""What the desk says to a chat that speaks encrypted, in that chat's own envelope; the other half of `encrypted`."""

import base64
import hashlib
import os
from secrets import token_hex

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from triggers.sources.encrypted import BLOCK, RANDOM, WECHAT_PADDING


def seal_feishu(plain: bytes, key: str) -> str:
    vector = os.urandom(BLOCK)
    sealed = encrypted(padded(plain, BLOCK), hashlib.sha256(key.encode()).digest(), vector)
    return base64.b64encode(vector + sealed).decode()


def seal_wechat(plain: bytes, key: str, receiver: str) -> str:
    secret = base64.b64decode(f"{key}=")
    whole = os.urandom(RANDOM) + len(plain).to_bytes(4, "big") + plain + receiver.encode()
    return base64.b64encode(encrypted(padded(whole, WECHAT_PADDING), secret, secret[:BLOCK])).decode()


def signature_wechat(token: str, timestamp: str, nonce: str, sealed: str) -> str:
    return hashlib.sha1("".join(sorted((token, timestamp, nonce, sealed))).encode()).hexdigest()


def dingtalk_reply(text: str, secret: str, receiver: str, now: float) -> dict[str, str]:
    """The answer DingTalk wants to everything: an encrypted word, signed."""
    token, _, key = secret.partition(":")
    sealed, moment, nonce = seal_wechat(text.encode(), key, receiver), str(int(now * 1000)), token_hex(8)
    mark = signature_wechat(token, moment, nonce, sealed)
    return {"msg_signature": mark, "timeStamp": moment, "nonce": nonce, "encrypt": sealed}


def wecom_reply(xml: str, secret: str, receiver: str, now: float) -> str:
    """A message that is shown to whoever wrote, encrypted and signed."""
    token, _, key = secret.partition(":")
    sealed, moment, nonce = seal_wechat(xml.encode(), key, receiver), str(int(now)), token_hex(8)
    mark = signature_wechat(token, moment, nonce, sealed)
    return (
        f"<xml><Encrypt><![CDATA[{sealed}]]></Encrypt><MsgSignature><![CDATA[{mark}]]></MsgSignature>"
        f"<TimeStamp>{moment}</TimeStamp><Nonce><![CDATA[{nonce}]]></Nonce></xml>"
    )


def encrypted(plain: bytes, key: bytes, vector: bytes) -> bytes:
    sealing = Cipher(AES(key), CBC(vector)).encryptor()
    return sealing.update(plain) + sealing.finalize()


def padded(plain: bytes, size: int) -> bytes:
    """PKCS#7."""
    more = size - len(plain) % size
    return plain + bytes([more]) * more
