"""Who pressed *Send a test delivery*: said in a header of the delivery that only the desk can write."""

from collections.abc import Mapping

from django.core import signing

HEADER = "nightdesk-test-by"
SALT = "nightdesk.test-delivery"


def header_of(person_id: int) -> dict[str, str]:
    """To be sent along with a test delivery of this person."""
    return {HEADER: signing.dumps(person_id, salt=SALT)}


def sender_of(headers: Mapping[str, str]) -> int:
    """The id of whoever sent the test that these headers came with; 0 for every other delivery."""
    try:
        person_id = signing.loads(str(headers.get(HEADER, "")), salt=SALT)
    except signing.BadSignature:
        return 0
    return person_id if isinstance(person_id, int) else 0
