"""Amazon SNS signs some fields of its message, not the body: RSA under a certificate whose address it names.

Any account of Amazon can have SNS send anywhere, so the signature alone proves nothing: the topic must be ours. The
"secret" of such a source is the ARN of its topic ("Verifying the signatures of Amazon SNS messages")."""

import hmac
import logging
from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from project.lib.egress import EgressError, Session
from triggers.sources import certificates
from triggers.sources.asymmetric import fits_rsa
from triggers.sources.forged import Forged
from triggers.sources.places import Headers, json_of

logger = logging.getLogger("nightdesk.door")
NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
FIELDS = {
    "Notification": NOTIFICATION,
    "SubscriptionConfirmation": CONFIRMATION,
    "UnsubscribeConfirmation": CONFIRMATION,
}
DIGESTS = {"1": "sha1", "2": "sha256"}  # by SignatureVersion
BUDGET = timedelta(seconds=10)  # to confirm a subscription


def check_sns(
    scheme: Mapping[str, Any], body: bytes, headers: Headers, topics: Sequence[bytes], now: float
) -> tuple[int, bytes]:
    """Which of the topics it is of, and what was signed. Raises Forged; QueueFull when its certificate cannot be had
    right now."""
    message = json_of(body)
    if not isinstance(message, dict) or message.get("Type") not in list(FIELDS):  # in a dict a list raises TypeError
        raise Forged("no_signature", "this is no message of Amazon SNS")
    topic = str(message.get("TopicArn", "")).encode()
    place = next((at for at, ours in enumerate(topics) if hmac.compare_digest(topic, ours.strip())), None)
    if place is None:
        raise Forged("bad_signature", "it is of another topic than this source's")
    text = canonical(message)
    digest = DIGESTS.get(str(message.get("SignatureVersion")))
    if digest is None:
        raise Forged("bad_signature", "SignatureVersion is neither 1 nor 2")
    pinned = scheme.get("certificate")
    address = str(message.get("SigningCertURL", ""))
    key = certificates.key_of(pinned) if pinned else certificates.key_at(address, now)
    if not fits_rsa(key, signature_in(message), text, digest):
        raise Forged("bad_signature", "the signature does not fit the message and the certificate")
    return place, text


def is_at_hand(scheme: Mapping[str, Any], body: bytes) -> bool:
    """Whether it can be judged without a visit to Amazon: its certificate is pinned or kept, or it names none."""
    if scheme.get("certificate"):
        return True
    try:
        message = json_of(body)
    except Forged:
        return True
    return not isinstance(message, dict) or certificates.is_kept(str(message.get("SigningCertURL", "")))


def signature_in(message: Mapping[str, Any]) -> bytes:
    try:
        return b64decode(str(message.get("Signature", "")).encode("ascii"), validate=True)
    except ValueError:
        raise Forged("bad_signature", "Signature holds no base64") from None


def canonical(message: Mapping[str, Any]) -> bytes:
    """`Name\\nvalue\\n` of each signed field that is there, in the order of their names."""
    named = [(name, message[name]) for name in FIELDS[message["Type"]] if name in message]
    return "".join(f"{name}\n{value}\n" for name, value in named).encode()


def confirm(address: str) -> None:
    """Visit the address by which a subscription is confirmed; what goes wrong is logged, SNS asks again."""
    if not certificates.CONFIRMATION.fullmatch(address):
        logger.warning("A subscription was not confirmed: its address does not lie with Amazon SNS")
        return
    try:
        with Session(BUDGET) as session:
            answer = session.call("GET", address)
    except EgressError as error:
        logger.warning("A subscription was not confirmed: %s", error)
        return
    logger.info("A subscription to a topic of Amazon SNS was confirmed: %s", answer.status)
