"""Every mail of a mailbox becomes one event, however broken it is and how often it is seen; none blocks the next."""

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from project import sample_entries
from tests import builders
from tests.conftest import until
from tests.imap_server import PASSWORD, ImapServer
from tests.listening import events, listened, listener, state, turns
from triggers import blobs, configure, retention
from triggers.errors import BadDelivery
from triggers.listeners import imap, mail
from triggers.models import Blob, DeadLetter, Event, Position, Refusal, Run, Source, Watch
from triggers.sources import mail as reading
from triggers.sources.mail import read_mail
from triggers.vitals import last_deliveries

pytestmark = pytest.mark.django_db
CORPUS = sorted((Path(__file__).parents[1] / "data" / "email").glob("*.json"))
QUICK = {"slice": 0.05}


@pytest.fixture
def far(settings):
    with ImapServer() as server:
        settings.EGRESS_ALLOW = [f"127.0.0.1:{server.port}"]
        yield server


def mailbox(far, slug="post", **config):
    given = {"host": "127.0.0.1", "port": far.port, "security": "none", "username": "desk@example.org", **config}
    return listened("email", slug, secret=PASSWORD, **given)


def written(subject="hello", number=1, more="", body="hi"):
    head = f"From: Eve <eve@example.net>\r\nMessage-ID: <m{number}@x>\r\nSubject: {subject}\r\n{more}"
    return f"{head}\r\n{body}\r\n".encode()


def raw_of(path):
    return base64.b64decode(json.loads(path.read_text())["body_base64"])


def subjects(slug="post"):
    return [event.subject for event in events(slug)]


def test_a_mail_that_arrives_is_told_by_idle(far):
    source = mailbox(far)
    far.add("INBOX", written("from before", 0))
    one = listener(source, slice=5)
    turns_in_idle = 0
    one.slice = 0.05
    turns(one)
    assert (one.mode, state(source)) == ("idle", (Watch.WATCHING, ""))
    far.add("INBOX", written("news"))
    while not events("post") and turns_in_idle < 40:
        turns(one)
        turns_in_idle += 1
    [event] = events("post")
    assert (event.type, event.subject) == ("post.received", "news")
    assert event.data["from"] == [{"name": "Eve", "address": "eve@example.net"}]
    assert (event.data["text"], event.data["folder"]) == ("hi\r\n", "INBOX")
    assert bytes(event.raw) == written("news")
    one.let_go()


def test_what_lies_there_is_read_only_when_asked_for(far):
    far.add("INBOX", written("old"))
    turns(listener(mailbox(far), **QUICK))
    assert subjects() == []
    turns(listener(mailbox(far, "all", start="all"), **QUICK))
    assert subjects("all") == ["old"]


def test_another_account_begins_as_the_source_says(far):
    source = mailbox(far)
    turns(listener(source, **QUICK))
    far.add("INBOX", written("of the first", 1))
    turns(listener(source, **QUICK))
    far.add("INBOX", written("was there", 2))
    config = {**source.config, "username": "other@example.org"}
    configure.change_source(source, by=None, version=source.version, config=config)
    turns(listener(source, **QUICK))
    assert subjects() == ["of the first"]
    far.add("INBOX", written("of the second", 3))
    turns(listener(source, **QUICK))
    assert subjects() == ["of the first", "of the second"]


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_every_mail_of_the_corpus_is_read(path):
    told = json.loads(path.read_text())["delivery_id"]
    found = read_mail(raw_of(path), None)
    assert found.key == (told or found.key)
    assert told or found.key.startswith("sha256:")
    assert json.loads(json.dumps(found.facts).encode())["subject"] == found.subject


def test_charsets_are_read_as_they_were_written():
    facts = {path.stem: read_mail(raw_of(path), None) for path in CORPUS}
    assert facts["multi_charset__japanese_shift_jis"].facts["text"].startswith("あいうえお")
    assert facts["multi_charset__ks_c_5601-1987"].facts["text"] == "스티해\r\n"
    assert facts["rfc6532__utf8_headers"].subject == "Säying Hello"
    assert facts["own_header_injection_crlf"].subject == "a Bcc: x@example.com"
    assert facts["attachment_emails__attachment_nonascii_filename"].attached[0].name == "ciële.txt"


BROKEN = {  # SR-07, each becomes one event
    "an unknown charset": b"Message-ID: <1@x>\r\nSubject: =?x-unknown?B?4pyT?=\r\n"
    b'Content-Type: text/plain; charset="utf8mb4"\r\n\r\n\xff\xffok',
    "broken base64": b"Message-ID: <2@x>\r\nSubject: =?utf-8?B?a?=\r\n\r\n",
    "a wrong date": b"Message-ID: <3@x>\r\nDate: yesterday\r\nSubject: when\r\n\r\n",
    "two senders and a newline": b'Message-ID: <4@x>\r\nFrom: a@b.c, "x\r\n y" <d@e.f>\r\nSubject: both\r\n\r\n',
    "no body": b"Message-ID: <5@x>\r\nSubject: empty\r\n",
    "forwarded 200 times": b"Message-ID: <6@x>\r\nSubject: deep\r\nContent-Type: message/rfc822\r\n\r\n" * 200,
    "winmail.dat": b"Message-ID: <7@x>\r\nSubject: tnef\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"
    b"Content-Type: application/ms-tnef; name=winmail.dat\r\nContent-Transfer-Encoding: base64\r\n\r\neJ8+!!!\r\n--b--",
    "a NUL": b"Message-ID: <8@x>\r\nSubject: a\x00b\r\n\r\nc\x00d",
    "nothing at all": b"",
}


def test_no_broken_mail_stops_the_mailbox(far):
    one = listener(mailbox(far, start="all"), **QUICK)
    for raw in BROKEN.values():
        far.add("INBOX", raw)
    far.add("INBOX", written("the next"))
    turns(one)
    found = {event.subject: event for event in events("post")}
    assert len(found) == len(BROKEN) + 1
    assert "the next" in found
    assert found["✓"].data["text"] == "\ufffd\ufffdok"
    assert (found["when"].data["date_is_received"], found["when"].time is None) == (True, False)
    assert [one["address"] for one in found["both"].data["from"]] == ["a@b.c", "d@e.f"]
    assert found["tnef"].data["attachments"][0]["name"] == "winmail.dat"
    assert found["a\ufffdb"].data["text"] == "c\ufffdd"
    assert not DeadLetter.objects.exists()


WORD = b"=?utf-8?q?a?= "
HOSTILE = {  # each kept a reader busy for minutes, by the square of its size
    "text in punycode": b"Content-Type: text/plain; charset=punycode\r\n\r\n" + b"x" * 500_000 + b"-" + b"a" * 500_000,
    "a picture in punycode": b"Content-Type: image/png; charset=punycode\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    + b"\xff" * 1_000_000,
    "many parts of no type in punycode": b"Content-Type: multipart/mixed; charset=punycode\r\n\r\n"
    + b"\xff" * 1_000_000,
    "a subject in punycode": b"Subject: =?punycode?q?" + b"a" * 1_000_000 + b"?=\r\n\r\n",
    "a subject of many words": b"Subject: " + WORD * 100_000 + b"\r\n\r\n",
    "a sender of many words": b"From: " + WORD * 100_000 + b"<a@b.c>\r\n\r\n",
    "many senders": (b"From: " + b",".join(b"a%d@b.c" % n for n in range(200)) + b"\r\n") * 1500 + b"\r\n",
    "senders in brackets": b"From: " + b"(" * 1_000_000 + b"\r\n\r\n",
    "many parameters": b"Content-Type: text/plain; " + b"a*0*=x;" * 200_000 + b"\r\n\r\n",
    "a name in pieces": b"Content-Disposition: attachment; "
    + b"".join(b'filename*%d="x";' % n for n in range(60_000))
    + b"\r\n\r\n",
    "many headers": b"X: y\r\n" * 300_000 + b"\r\n",
    "many parts": b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b"--b\r\n\r\nx\r\n" * 100_000,
    "lines below many levels": b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(300)
    )
    + b"\r\n" * 200_000,
    "a mail inside with a header for ever": b"Content-Type: message/rfc822\r\n\r\nX: "
    + b"a \xff" * 400_000
    + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_mail_keeps_its_reader_busy(monkeypatch, name):
    monkeypatch.setattr(reading, "PATIENCE", 5.0)
    began = time.thread_time()
    try:
        key = read_mail(b"Message-ID: <1@x>\r\n" + HOSTILE[name], None).key
    except BadDelivery:
        key = "buried"
    slow = ["<1@x>", "buried"]  # it takes seconds, on a slow machine all that it may
    told = {"many headers": ["buried"], "many parts": slow, "lines below many levels": slow}
    assert key in told.get(name, ["<1@x>"])
    assert time.thread_time() - began < 5 * 5.0


def test_a_mail_that_takes_too_long_is_buried_and_the_next_is_read(far, monkeypatch):
    monkeypatch.setattr(reading, "PATIENCE", 0.05)
    far.add("INBOX", HOSTILE["many parts"])
    far.add("INBOX", written("fine"))
    one = listener(mailbox(far, start="all"), **QUICK)
    turns(one)
    assert {event.type for event in events("post")} == {"post.unreadable", "post.received"}
    assert "processor" in DeadLetter.objects.get().message
    assert state(one.source)[0] == Watch.WATCHING


def test_what_is_read_of_a_long_header_is_what_people_read(monkeypatch):
    many = b", ".join(b"Eve %d <e%d@x.org>" % (n, n) for n in range(300))
    mail = read_mail(b"To: " + many + b"\r\nSubject: " + b"word " * 5000 + b"\r\n\r\n", None)
    assert (len(mail.facts["to"]), mail.facts["to"][-1]) == (200, {"name": "Eve 199", "address": "e199@x.org"})
    assert len(mail.subject) == 2000


def test_a_mail_inside_a_mail_hangs_on_it_as_it_came():
    inner = b"X-Long:  " + b"a " * 20_000 + b"\r\n folded\r\nSubject: \xff raw\r\n\r\nbody\r\n"
    [attached] = read_mail(b"Subject: outer\r\nContent-Type: message/rfc822\r\n\r\n" + inner, None).attached
    assert attached.content.replace(b"\r\n", b"\n") == inner.replace(b"X-Long:  ", b"X-Long: ").replace(b"\r\n", b"\n")


def test_a_mail_that_may_not_be_sent_is_a_dead_letter_and_the_next_is_read(far):
    source = mailbox(far, start="all")
    Source.objects.update(types=["other.**"])
    far.add("INBOX", written("refused"))
    one = listener(source, **QUICK)
    turns(one)
    Source.objects.update(types=["post.**"])
    one.source.types = ["post.**"]
    far.add("INBOX", written("taken", 2))
    one.next_look = 0
    turns(one)
    bad, good = events("post")
    assert (bad.status, good.subject) == ("invalid", "taken")
    assert bytes(bad.raw) == written("refused")
    assert DeadLetter.objects.get().event == bad


@pytest.mark.parametrize("said", ["NO [INUSE] busy", "BAD no such thing"])
def test_a_mail_the_server_withholds_is_asked_for_again_and_at_last_buried(far, said):
    one = listener(mailbox(far, start="all"), **QUICK)
    for number in (1, 2):
        far.add("INBOX", written(f"mail {number}", number))
    far.withheld[1] = said
    turns(one)
    assert (events("post"), state(one.source)[0]) == ([], Watch.FAILED)
    far.withheld.clear()
    turns(one)
    assert subjects() == ["mail 1", "mail 2"]

    far.add("INBOX", written("never", 3))
    far.withheld[3] = said
    far.add("INBOX", written("the next", 4))
    one.next_look = 0
    turns(one, mail.ASKED_FOR)
    assert [event.status == "invalid" for event in events("post")][2:] == [True, False]
    assert said.partition(" ")[2] in DeadLetter.objects.get().message


def test_a_copy_in_another_folder_is_a_repeat_that_people_see(far, owner, sign_in):
    """SR-05"""
    path = next(path for path in CORPUS if path.stem == "own_duplicate_via_two_folders")
    far.add("INBOX", raw_of(path))
    far.add("INBOX/A", raw_of(path))
    source = mailbox(far, start="all", folders=["INBOX", "INBOX/A"])
    turns(listener(source, **QUICK))
    [event] = events("post")
    assert event.duplicates == 1
    [again] = Refusal.objects.all()
    assert (again.source, again.event, again.reason, again.answered) == (source, event.pk, "duplicate", 0)
    page = sign_in(owner).get(f"/events/{event.pk}")
    assert "Came again" in page.content.decode()
    assert [one.status for one in last_deliveries(source)] == ["duplicate", event.status]


def test_a_mailbox_that_was_numbered_anew_is_read_again_without_doubles(far):
    """SR-05: another UIDVALIDITY, UID 1 another mail; the old ones were told, and stay told once."""
    source = mailbox(far, start="all")
    far.add("INBOX", written("first", 1))
    far.add("INBOX", written("long ago", 9), at=datetime.now(UTC) - timedelta(days=400))
    one = listener(source, **QUICK)
    turns(one)
    assert len(events("post")) == 2
    far.renumber("INBOX")
    far.folders["INBOX"].mails[1] = (written("another", 2), datetime.now(UTC))
    again = listener(source, **QUICK)
    turns(again)
    assert subjects() == ["first", "long ago", "another"]
    assert not Event.objects.filter(subject="long ago", duplicates__gt=0).exists()


def test_a_mailbox_that_was_numbered_anew_tells_nothing_from_before(far):
    """Not even what came an hour before the listening began, on the same day."""
    now = datetime.now(UTC)
    far.add("INBOX", written("days before", 1), at=now - timedelta(days=2))
    far.add("INBOX", written("an hour before", 2), at=now - timedelta(hours=1))
    source = mailbox(far)
    turns(listener(source, **QUICK))
    for round in (1, 2):
        far.add("INBOX", written(f"after {round}", 2 + round), at=now + timedelta(seconds=5))
        far.renumber("INBOX")
        turns(listener(source, **QUICK))
    assert subjects() == ["after 1", "after 2"]
    assert Event.objects.get(subject="after 1").duplicates == 1
    Position.objects.update(value={"uidvalidity": 1, "uid": 2})  # as it was kept before
    turns(listener(source, **QUICK))
    assert subjects() == ["after 1", "after 2"]


def test_two_accounts_tell_their_own_mails(far):
    """SR-05"""
    far.add("INBOX", written("both", 1))
    turns(listener(mailbox(far, "one", start="all"), **QUICK))
    turns(listener(mailbox(far, "two", start="all", username="other@example.org"), **QUICK))
    assert (subjects("one"), subjects("two")) == (["both"], ["both"])


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("Auto-Submitted: auto-replied\r\n", "auto-replied"),
        ("Return-Path: <>\r\n", "bounce"),
        ("Precedence: bulk\r\n", "bulk"),
        ("X-Auto-Response-Suppress: DR, AutoReply\r\n", "no-reply"),
    ],
)
def test_automatic_mail_starts_nothing_unless_asked_for(far, more, why):
    """SR-07: no two programs answer each other for ever."""
    builders.trigger(source="post")
    far.add("INBOX", written("robot", more=more))
    far.add("INBOX", written("person", 2, more="Auto-Submitted: no\r\n"))
    turns(listener(mailbox(far, start="all"), **QUICK))
    robot, person = events("post")
    assert (robot.status, robot.data["automatic"], person.status) == ("suppressed", why, "routed")
    assert why in robot.outcomes[0]["detail"]
    builders.trigger(source="taken")
    turns(listener(mailbox(far, "taken", start="all", automatic="take"), **QUICK))
    assert {event.status for event in events("taken")} == {"routed"}
    assert Run.objects.count() == 3


@pytest.mark.parametrize(
    "more",
    [
        "List-Id: <dev.example.org>\r\n",
        "Precedence: list\r\n",
        "List-Unsubscribe: <mailto:x@y>\r\n",
    ],
)
def test_mail_of_a_list_says_so_and_starts_nothing_when_that_is_chosen(far, more):
    """SR-07: people read lists, and an answer of a program reaches them all."""
    builders.trigger(source="post")
    builders.trigger(source="quiet")
    far.add("INBOX", written("to the list", more=more))
    turns(listener(mailbox(far, start="all"), **QUICK))
    turns(listener(mailbox(far, "quiet", start="all", automatic="take", lists="suppress"), **QUICK))
    assert [(e.status, e.data["automatic"]) for e in events("post") + events("quiet")] == [
        ("routed", "list"),
        ("suppressed", "list"),
    ]


def test_what_the_desk_wrote_itself_starts_nothing(far):
    source = mailbox(far, start="all")
    Source.objects.update(actor="Eve@example.net")
    far.add("INBOX", written("own"))
    turns(listener(source, **QUICK))
    assert [event.status for event in events("post")] == ["suppressed"]


def test_attachments_are_kept_beside_the_event(far, later, settings):
    body = base64.b64encode(bytes(range(256)) * 4).decode()
    raw = (
        "Message-ID: <a@x>\r\nSubject: invoice\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
        "--b\r\n\r\nsee there\r\n"
        '--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename="in.pdf"\r\n'
        f"Content-Transfer-Encoding: base64\r\n\r\n{body}\r\n--b--"
    ).encode()
    far.add("INBOX", raw)
    turns(listener(mailbox(far, start="all"), **QUICK))
    [event] = events("post")
    [told] = event.data["attachments"]
    assert (told["name"], told["type"], told["size"]) == ("in.pdf", "application/pdf", 1024)
    assert blobs.content(told["blob"]) == bytes(range(256)) * 4
    later(days=settings.RETENTION_DAYS - 1)
    retention.prune()
    assert Blob.objects.exists()
    later(days=2)
    retention.prune()
    with pytest.raises(LookupError):
        blobs.content(told["blob"])


def test_a_huge_mail_is_told_by_its_header(far, monkeypatch):
    monkeypatch.setattr(imap, "LARGEST", 100)
    far.add("INBOX", written("big", body="x" * 1000))
    turns(listener(mailbox(far, start="all"), **QUICK))
    [event] = events("post")
    assert (event.subject, event.data["text"], "cut" in event.data) == ("big", "", True)


def test_a_wrong_password_is_said_and_nothing_is_lost(far):
    source = mailbox(far, start="all")
    far.add("INBOX", written())
    wrong = listener(source, **QUICK)
    wrong.source.sealed_secrets = builders.crypto.seal([{"value": "not this one"}])
    turns(wrong)
    status, said = state(source)
    assert (status, "does not let desk@example.org in" in said) == (Watch.FAILED, True)
    assert "wrong user or password" in said
    assert PASSWORD not in said
    turns(listener(source, **QUICK))
    assert subjects() == ["hello"]


def test_a_server_that_hangs_up_is_called_again(far):
    source = mailbox(far)
    one = listener(source, **QUICK)
    turns(one, 2)
    far.hang_up()
    turns(one)
    until(lambda: turns(one) or state(source)[0] == Watch.WATCHING)
    far.add("INBOX", written("after"))
    until(lambda: turns(one) or events("post"))
    assert subjects() == ["after"]
    one.let_go()


def test_a_server_without_idle_is_asked_every_minute(far):
    far.knows = "IMAP4rev1"
    source = mailbox(far)
    one = listener(source, **QUICK)
    turns(one)
    assert (one.mode, state(source)[1]) == ("polling", "the server knows no IDLE; it is asked every minute")
    far.add("INBOX", written("later"))
    one.next_look = 0
    turns(one)
    assert (subjects(), far.said("IDLE")) == (["later"], 0)


def test_a_mail_that_comes_while_others_are_read_is_read_at_once(far, monkeypatch):
    """The server tells of it beside the answer to something else, and in IDLE not again."""
    far.add("INBOX", written("first", 1))
    one = listener(mailbox(far, start="all"), **QUICK)
    usual = mail.MailListener.take

    def slowly(self, *args):
        usual(self, *args)
        if len(far.folders["INBOX"].mails) < 2:
            far.add("INBOX", written("meanwhile", 2))
            self.mailbox.uids("ALL", charset=None)

    monkeypatch.setattr(mail.MailListener, "take", slowly)
    turns(one, 2)
    assert subjects() == ["first", "meanwhile"]
    looked = far.said("EXAMINE")
    turns(one, 5)
    assert far.said("EXAMINE") == looked


def test_idle_is_said_anew_before_any_server_hangs_up(far):
    one = listener(mailbox(far), **QUICK)
    turns(one)
    one.next_look = 0
    turns(one, 2)
    assert (far.said("IDLE"), mail.AGAIN < 29 * 60) == (2, True)
    one.let_go()


def test_nothing_at_the_server_is_changed(far):
    far.add("INBOX", written())
    turns(listener(mailbox(far, start="all"), **QUICK))
    assert not any(word in command for command in far.commands for word in ("STORE", "SELECT ", " BODY["))


def test_a_missing_folder_is_named(far):
    source = mailbox(far, folders=["INBOX", "Orders"])
    turns(listener(source, **QUICK))
    assert state(source) == (Watch.FAILED, "there is no folder Orders: no such folder")


def test_a_sample_is_laid_into_the_mailbox(far):
    one = listener(mailbox(far), **QUICK)
    turns(one)
    sample_entries.into_mailbox(one.source, 7)
    one.next_look = 0
    turns(one)
    assert subjects() == ["Where is my order 7?"]
    one.let_go()


def test_the_mailbox_is_tried_out_in_words(far):
    assert mail.try_out(mailbox(far)).startswith("Signed in as desk@example.org: 1 folder(s) open")
