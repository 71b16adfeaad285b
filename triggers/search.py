"""Events by their words: an index of the database's own over type, subject, id and payload, filled after the door.

Both databases see the same words, one space apart, so that they find the same. Letters of Chinese, Japanese and
Korean stand alone: any part of such a text is found."""

import logging
import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice

from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.models import Exists, OuterRef, Q

from project.lib.retrying import passes
from triggers.models import Counted, Event, EventWords
from triggers.models.tally import BEGINNING

logger = logging.getLogger("nightdesk.search")
ALONE = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"  # letters that are words of their own
WORD = re.compile(rf"[{ALONE}]|[^\W_{ALONE}]+")
ESCAPED = re.compile(r"\\(?:u([0-9a-f]{4})|(.))", re.IGNORECASE | re.DOTALL)
LONGEST_WORD = 60  # characters; the rest of a longer one is not looked at
MOST_WORDS = 10_000  # of one event
MOST_TEXT = 256 * 1024  # characters of a payload that are read
MOST_BYTES = 700 * 1024  # of the words of one event in UTF-8: PostgreSQL takes 1 MiB with what it notes of each
MOST_TERMS = 10  # of one question
FOUND = 5_000  # events that one question by words finds, the newest
REACH = 100_000  # newest events in whose type, subject and id also parts of words are looked for
PIECE = 200  # events a transaction
BUDGET = 0.3  # seconds a round
LATE = timedelta(seconds=60)  # an event may become visible so much later than it says it was received
NAME = "words"  # of the row that says how far this has come

SQLITE = (
    "SELECT rowid FROM triggers_eventwords_index WHERE triggers_eventwords_index MATCH %s ORDER BY rowid DESC LIMIT %s"
)
POSTGRES = """
    WITH found AS MATERIALIZED
    (SELECT event_id FROM triggers_eventwords WHERE to_tsvector('simple', {column}) @@ to_tsquery('simple', %s))
    SELECT event_id FROM found ORDER BY event_id DESC LIMIT %s
"""


def matching(question: str, *, payloads: bool) -> Q:
    """The events that hold every term of `question`, each as words in this order, the last one as a beginning.

    Payloads count only with `payloads`. In type, subject and id of the newest REACH events parts of words count too."""
    named = Q(type__icontains=question) | Q(subject__icontains=question) | Q(ce_id__icontains=question)
    return (named & Q(pk__gt=newest() - REACH)) | Q(pk__in=by_words(question, payloads=payloads))


def newest() -> int:
    return Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def by_words(question: str, *, payloads: bool) -> list[int]:
    """The newest FOUND events with all these words."""
    terms = [list(words_of(term)) for term in question.split()[:MOST_TERMS]]
    asked = [term for term in terms if term]
    if not asked:
        return []
    column = "whole" if payloads else "facts"
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute(POSTGRES.format(column=column), [" & ".join(map(pg_term, asked)), FOUND])
        else:
            match = f"{column} : ({' AND '.join(map(sqlite_term, asked))})"
            cursor.execute(SQLITE, [match, FOUND])
        return [row[0] for row in cursor.fetchall()]


def sqlite_term(words: Sequence[str]) -> str:
    return f'"{" ".join(words)}" *'


def pg_term(words: Sequence[str]) -> str:
    return f"({' <-> '.join(chr(39) + word + chr(39) for word in words)}:*)"


def words_of(text: str) -> Iterator[str]:
    """Runs of letters and digits, folded; every sign between them only parts words."""
    folded = unicodedata.normalize("NFKC", text[:MOST_TEXT]).casefold()
    return (match[0][:LONGEST_WORD] for match in WORD.finditer(folded))


def index() -> int:
    """One round: make the words of events that have none searchable, the oldest first; returns how many.

    Safe when two do it at once, and never at the door's expense."""
    until, done = time.monotonic() + BUDGET, 0
    row, _ = Counted.objects.get_or_create(name=NAME, defaults={"until": BEGINNING})
    reached = row.until
    while time.monotonic() < until and (events := wordless(reached)):
        with transaction.atomic():
            write([worded(event) for event in events])
            reached = events[-1].received_at
            Counted.objects.filter(name=NAME, until__lt=reached).update(until=reached)
        done += len(events)
        if len(events) < PIECE:
            break
    return done


def wordless(reached: datetime) -> list[Event]:
    """The next events without words; a transaction that took its time may have brought some that look old."""
    has_words = EventWords.objects.filter(event=OuterRef("pk"))
    rows = Event.objects.filter(~Exists(has_words), received_at__gt=reached - LATE)
    return list(rows.defer("headers", "credentials").order_by("received_at", "pk")[:PIECE])


def write(rows: list[EventWords]) -> None:
    """Words that the database takes in no form leave their event without any; those of the others stay."""
    try:
        with transaction.atomic():
            EventWords.objects.bulk_create(rows, ignore_conflicts=True)
    except DatabaseError as error:
        if is_passing(error):
            raise
        if len(rows) > 1:
            for row in rows:
                write([row])
            return
        [row] = rows
        logger.warning("E-%s is found by none of its words: %s", row.event_id, str(error).strip())
        EventWords.objects.bulk_create([EventWords(event_id=row.event_id, facts="", whole="")], ignore_conflicts=True)


def is_passing(error: DatabaseError) -> bool:
    return isinstance(error, OperationalError) and passes(error)


def worded(event: Event) -> EventWords:
    facts = list(words_of(f"{event.type} {event.subject} {event.ce_id}"))
    payload = islice(words_of(text_of(event)), MOST_WORDS)
    return EventWords(event=event, facts=" ".join(facts), whole=cut(" ".join([*facts, *payload])))


def cut(words: str) -> str:
    """As many whole words as fit; a letter may have become eighteen as it was folded."""
    if len(words) <= MOST_BYTES // 4 or len(told := words.encode()) <= MOST_BYTES:
        return words
    return told[:MOST_BYTES].decode(errors="ignore").rpartition(" ")[0]


def text_of(event: Event) -> str:
    """The payload with every character as itself, whatever escapes the sender wrote."""
    try:
        text = event.data_text[:MOST_TEXT]
    except UnicodeDecodeError:
        return ""
    return joined(ESCAPED.sub(itself, text)) if "\\" in text else text


def joined(text: str) -> str:
    """Halves that were escaped one by one are the sign they stand for; one without its other half is none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def itself(escaped: re.Match[str]) -> str:
    code, sign = escaped.groups()
    if code is not None:
        return chr(int(code, 16))
    return " " if sign in "nrtbf" else sign
