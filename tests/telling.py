"""A chat and a mail server at which people of the tests can be reached."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.test import override_settings

from approvals.models import Channel, Connection, Notice
from project.lib import clock, crypto
from project.people.models import User
from tests import slack
from tests.mailbox import Mailbox
from tests.recorder import Recorder
from tests.slack import FakeSlack


@contextmanager
def a_chat() -> Iterator[FakeSlack]:
    """A connection `slack`; `.far` is where faults are asked for."""
    fake = FakeSlack()
    with Recorder(fake.answer) as far, override_settings(EGRESS_ALLOW=[f"127.0.0.1:{far.port}"]):
        secrets = {"token": "xoxb-1", "signing_secret": slack.SIGNING}
        config = {"api_url": far.url, "channel": "C1"}
        Connection.objects.create(slug="slack", system="slack", config=config, sealed_secrets=crypto.seal(secrets))
        fake.far = far  # type: ignore[attr-defined]
        yield fake


@contextmanager
def a_mailbox() -> Iterator[Mailbox]:
    """A connection `post`."""
    with Mailbox() as box, override_settings(EGRESS_ALLOW=[f"127.0.0.1:{box.port}"]):
        config = {"host": "127.0.0.1", "port": box.port, "security": "none", "sender": "desk@example.org"}
        Connection.objects.create(slug="post", system="smtp", config=config)
        yield box


def reach(person: User, by: str, address: str) -> Channel:
    """The person has set up this channel and typed its code."""
    connection = Connection.objects.get(slug=by)
    identity = f"{slack.TEAM}/{address}" if connection.system == "slack" else ""
    given = {"created_at": clock.now(), "confirmed_at": clock.now(), "identity": identity}
    return Channel.objects.create(person=person, connection=connection, address=address, **given)


def receipts(**where: object) -> list[tuple[str, str, str]]:
    """`(person, what, status)` of every message, in order."""
    rows = Notice.objects.filter(**where).select_related("person").order_by("pk")
    return [(row.person.username, row.what, row.status) for row in rows]
