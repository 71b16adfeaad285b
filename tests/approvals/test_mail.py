"""A mail goes to exactly those who stand on the card, says what was shown, and takes no way that we refuse."""

from datetime import timedelta

import pytest
from django.test import override_settings

from approvals.connectors.mail import message_id
from approvals.errors import NotSent, NotValid, OutcomeUnknown, Refused
from approvals.kinds import KINDS, Far
from approvals.models import Connection
from project.lib.smtp import Server, server_at
from project.lib.visible import visible
from tests.mailbox import Mail, Mailbox

KEY = "mail-12"
MAIL = {"to": ["ann@example.org"], "subject": "Night", "body": "All is well.\n"}
KIND = KINDS["email.send"]


@pytest.fixture
def box():
    with Mailbox() as box, override_settings(EGRESS_ALLOW=[f"127.0.0.1:{box.port}"]):
        yield box


def send(box: Mailbox, *, key: str = KEY, secrets: dict | None = None, config: dict | None = None, **arguments) -> dict:
    given = {"host": "127.0.0.1", "port": box.port, "security": "none", "sender": "desk@example.org", **(config or {})}
    far = Far("post", given, secrets or {}, timedelta(seconds=5))
    return KIND.deliver(far, KIND.read({**MAIL, **arguments}), key)


def text_of(mail: Mail) -> str:
    """The body, with the line ends of a mail made ours again."""
    return mail.message.get_content().replace("\r\n", "\n")


def test_a_mail_is_handed_in_whole(box):
    result = send(box, cc=["ben@example.org"], bcc=["eve@example.org"], reply_to="desk2@example.org", subject="Nächte")
    assert result == {"message_id": message_id(KEY, "desk@example.org"), "recipients": 3, "answer": "taken as 1"}
    mail = box.taken[0]
    assert (mail.sender, mail.recipients) == (
        "desk@example.org",
        ["ann@example.org", "ben@example.org", "eve@example.org"],
    )
    headers = {name: str(mail.message[name]) for name in ("From", "To", "Cc", "Reply-To", "Subject", "Message-ID")}
    assert headers == {
        **{"From": "desk@example.org", "To": "ann@example.org", "Cc": "ben@example.org"},
        **{"Reply-To": "desk2@example.org", "Subject": "Nächte", "Message-ID": result["message_id"]},
    }
    assert "eve@" not in mail.body.decode()
    assert text_of(mail) == "All is well.\n"


def test_the_same_key_makes_the_same_message_id_and_another_key_another(box):
    first, again, other = send(box), send(box), send(box, key="k2")
    assert first["message_id"] == again["message_id"] != other["message_id"]


def test_a_body_of_any_letters_arrives_as_it_was_shown(box):
    body = "ünïcödé 夜\n.\n..dots\nFrom here\n" + "long " * 400 + "\n"
    send(box, body=body)
    assert text_of(box.taken[0]) == body


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("to", ["ann@example.org\nBcc: eve@evil.example"]),
        ("to", ["Boss <eve@evil.example>"]),
        ("to", ["ann@example.org, eve@evil.example"]),
        ("to", ["ann"]),
        ("to", []),
        ("to", [f"a{n}@example.org" for n in range(51)]),
        ("to", ["änn@example.org"]),
        ("cc", ["a@b@c"]),
        ("cc", ["x@" + "ü" * 58 + ".de"]),
        ("reply_to", "x@" + "ü" * 58 + ".de"),
        ("reply_to", "x\r\ny@example.org"),
        ("subject", "Night\r\nBcc: eve@evil.example"),
        ("subject", "Night\u2028more"),
        ("subject", ""),
        ("body", ""),
        ("from", "boss@example.org"),
    ],
)
def test_what_could_say_something_else_than_the_card_is_refused(field, value):
    with pytest.raises(NotValid) as refusal:
        KIND.read({**MAIL, field: value})
    assert refusal.value.facts["field"].partition(".")[0] in (field, "arguments")


def test_every_recipient_stands_on_the_card():
    many = [f"person{n}@example.org" for n in range(20)]
    typed = KIND.read({**MAIL, "to": many, "bcc": ["eve@example.org"]})
    rows = {row["label"]: row["text"] for row in KIND.preview(typed)}
    assert rows["To"].split(", ") == many
    assert rows["Bcc"] == "eve@example.org"
    assert KIND.headline(typed) == "Mail to person0@example.org and 20 more: Night"


def test_a_look_alike_is_shown_with_the_name_behind_it(box):
    typed = KIND.read({**MAIL, "to": ["ann@аpple.example"]})  # the first letter is Cyrillic
    rows = {row["label"]: row["text"] for row in KIND.preview(typed)}
    assert rows["To"] == "ann@аpple.example (ann@xn--pple-43d.example)"
    assert "xn--pple-43d" in KIND.headline(typed)
    send(box, to=typed.to)
    assert box.taken[0].recipients == ["ann@xn--pple-43d.example"]


def test_hidden_characters_of_the_body_are_drawn():
    typed = KIND.read({**MAIL, "body": "pay \u202e001 to"})
    body = next(row["text"] for row in KIND.preview(typed) if row["label"] == "Body")
    assert "U+202E" in visible(body)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ((550, "RCPT"), Refused),
        ((450, "RCPT"), NotSent),
        ((550, "MAIL"), Refused),
        ((554, "DATA"), Refused),
        ((451, "DATA"), NotSent),
        ((421, "EHLO"), NotSent),
        ((999, "DATA"), OutcomeUnknown),
        ("drop", OutcomeUnknown),
        ("drop_before", OutcomeUnknown),
    ],
)
def test_every_word_of_the_server_has_one_meaning(box, fault, error):
    box.next(fault)
    with pytest.raises(error) as refusal:
        send(box)
    assert "smtp 127.0.0.1" in str(refusal.value)
    assert len(box.taken) == (fault == "drop")


def test_one_refused_recipient_stops_the_mail_for_all(box):
    box.next((550, "RCPT"))
    with pytest.raises(Refused):
        send(box, to=["ann@example.org", "ben@example.org"])
    assert box.taken == []


def test_a_server_that_drips_cannot_hold_the_desk(box):
    box.next("drip")
    config = {"host": "127.0.0.1", "port": box.port, "security": "none", "sender": "desk@example.org"}
    with pytest.raises(OutcomeUnknown):
        KIND.deliver(Far("post", config, {}, timedelta(seconds=0.5)), KIND.read(MAIL), KEY)


def test_a_server_that_is_away_got_nothing():
    with Mailbox() as gone:
        pass
    with override_settings(EGRESS_ALLOW=["127.0.0.1", f"127.0.0.1:{gone.port}"]), pytest.raises(NotSent):
        send(gone)


@pytest.mark.parametrize("allow", [[], ["127.0.0.1"]])
def test_a_server_on_the_inside_is_not_reached_unless_it_is_named_with_its_port(box, allow):
    with override_settings(EGRESS_ALLOW=allow), pytest.raises(Refused):
        send(box)
    assert box.commands == []


def test_a_password_is_not_sent_without_encryption(box):
    with pytest.raises(Refused) as refusal:
        send(box, config={"username": "desk"}, secrets={"password": "SECRET-123"})
    assert "SECRET" not in str(refusal.value) + str(box.commands)


def test_a_server_that_knows_no_encryption_gets_no_mail(box):
    with pytest.raises(NotSent):
        send(box, config={"security": "starttls"}, secrets={"password": "SECRET-123"})
    assert [each.split()[0] for each in box.commands] == ["ehlo"]


@pytest.mark.parametrize(
    "config",
    [
        {"sender": ""},
        {"sender": "Desk <d@x.org>"},
        {"host": ""},
        {"security": "maybe"},
        {"port": "mail"},
        {"port": [25]},
    ],
)
def test_a_connection_that_is_not_finished_says_so(box, config):
    with pytest.raises(Refused):
        send(box, config=config)


def test_the_mail_server_of_the_environment_is_a_connection_of_its_own(box, db, settings):
    settings.EMAIL_URL, settings.EMAIL_FROM = f"smtp+none://127.0.0.1:{box.port}", "desk@example.org"
    for _ in range(2):
        Connection.objects.built_in_mail()
    far = Connection.objects.named("smtp").far(timedelta(seconds=5))
    KIND.deliver(far, KIND.read(MAIL), KEY)
    assert (box.taken[0].sender, far.secrets) == ("desk@example.org", {})


def test_without_a_server_in_the_environment_there_is_none(db):
    Connection.objects.built_in_mail()
    assert not Connection.objects.exists()


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://ann:p%40ss@mail.example.org", Server("mail.example.org", 587, "starttls", "ann", "p@ss")),
        ("smtps://mail.example.org:2525", Server("mail.example.org", 2525, "tls")),
    ],
)
def test_an_address_of_a_server_says_how_it_is_encrypted(url, server):
    assert server_at(url) == server
