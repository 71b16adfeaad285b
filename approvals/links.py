"""Links in messages: each is made for one request, its digest and one person, and opens a page. It decides nothing.

Nothing changes when it is opened, whoever does: a mail scanner could use it up. It is used up by what it was made for:
once the request was decided, ended or became another one, it says so."""

from django.conf import settings
from django.utils.crypto import constant_time_compare, salted_hmac

from approvals.models import Notice
from project.people.models import User

SALT = "nightdesk.link"


def link_to(notice: Notice) -> str:
    return f"{settings.BASE_URL}/go/{notice.pk}-{mark(notice)}"


def mark(notice: Notice) -> str:
    """Nobody who does not hold our key can write it; another digest, revision or person makes another one."""
    asking = notice.asking
    bound = (notice.pk, asking.action_id, asking.revision, asking.digest, notice.person_id)
    return salted_hmac(SALT, "/".join(map(str, bound)), algorithm="sha256").hexdigest()[:40]


def read(token: str, reader: User) -> Notice | None:
    """The message it stood in; None for what is no link, and for somebody else's."""
    number, _, given = token.partition("-")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    notice = Notice.objects.select_related("asking__action").filter(pk=number).first()
    if notice is None or not constant_time_compare(mark(notice), given) or notice.person_id != reader.pk:
        return None
    return notice
