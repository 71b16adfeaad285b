"""The certificates Amazon SNS signs under: fetched through the guarded way out, from Amazon's own hosts only, and kept.

An address is taken as a whole text or not at all, so that no two readers of it can see two hosts in it."""

import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from threading import Lock

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509 import Certificate, load_pem_x509_certificate

from project.lib.egress import EgressError, Session
from triggers.errors import QueueFull
from triggers.sources.forged import Forged

REGION = r"[a-z]{2}(?:-[a-z]{3,12}){1,2}-\d{1,2}"  # nothing else: sns.s3-us-west-2 is somebody's bucket named sns
HOST = rf"https://sns\.{REGION}\.amazonaws\.com(?:\.cn)?"
CERTIFICATE = re.compile(HOST + r"/[A-Za-z0-9._-]{1,100}\.pem")
CONFIRMATION = re.compile(HOST + r"/\?Action=ConfirmSubscription&[A-Za-z0-9=&%._:+-]{1,2000}")
BUDGET = timedelta(seconds=5)  # to fetch one
MOST = 64  # certificates that are kept
A_MINUTE = 10  # fetches: whoever makes addresses up makes no other delivery wait

kept: dict[str, Certificate] = {}
fetched: list[float] = []  # when, by the clock that never jumps
alone = Lock()


def key_at(address: str, now: float) -> RSAPublicKey:
    """The public key of the certificate at `address`, valid at Unix time `now`.

    Raises Forged for another host or a certificate that is none, QueueFull when it cannot be had right now."""
    if not CERTIFICATE.fullmatch(address):
        raise Forged("bad_signature", "its certificate does not lie with Amazon SNS")
    certificate = kept.get(address)
    if certificate is None:
        with alone:
            certificate = kept.get(address) or keep(address, fetch(address))
    if not certificate.not_valid_before_utc <= datetime.fromtimestamp(now, UTC) <= certificate.not_valid_after_utc:
        raise Forged("bad_signature", "its certificate is not valid at this time")
    return key_in(certificate)


def is_kept(address: str) -> bool:
    """Whether `key_at` answers at once: it has this one, or never asks there."""
    return address in kept or not CERTIFICATE.fullmatch(address)


def key_in(certificate: Certificate) -> RSAPublicKey:
    key = certificate.public_key()
    if not isinstance(key, RSAPublicKey):
        raise Forged("bad_signature", "its certificate holds no RSA key")
    return key


@lru_cache(maxsize=MOST)
def key_of(pem: str) -> RSAPublicKey:
    """That of the one certificate a source names. Raises Forged when it is none, or of another kind of key."""
    return key_in(read(pem.encode()))


def keep(address: str, pem: bytes) -> Certificate:
    """Remember the certificate of an address. Raises Forged when it is none."""
    certificate = read(pem)
    if len(kept) >= MOST:
        kept.pop(next(iter(kept)))
    kept[address] = certificate
    return certificate


def read(pem: bytes) -> Certificate:
    try:
        return load_pem_x509_certificate(pem)
    except ValueError:
        raise Forged("bad_signature", "what lies at the address of its certificate is none") from None


def fetch(address: str) -> bytes:
    now = time.monotonic()
    fetched[:] = [moment for moment in fetched if now - moment < 60]
    if len(fetched) >= A_MINUTE:
        raise QueueFull("Too many certificates were asked for in this minute.")
    fetched.append(now)
    try:
        with Session(BUDGET) as session:
            answer = session.call("GET", address)
    except EgressError as error:
        raise QueueFull(f"The certificate of this delivery cannot be fetched: {error}") from error
    if answer.status >= 500:
        raise QueueFull(f"The certificate of this delivery cannot be fetched: {answer.status}.")
    return answer.body
