"""The seal on the audit log: rows are numbered and chained by hashes after their commit, so any later change shows.

A row's hash is over the hash before it and everything the row says. Numbers are given here and not at the deed: a
transaction may become visible late, and writers need not wait for each other.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from project.lib import canonical, clock
from triggers.models import Audit, Pulse

PIECE = 200  # rows sealed in one transaction, so that no other writer waits for long
PIECES = 10  # a round at most
READ = 1000  # rows read at a time when the chain is walked
START = "0" * 64  # stands before the first row
HEAD = "audit"  # the pulse that remembers how far the chain reaches


@dataclass(frozen=True)
class Head:
    """The last sealed row. Written down elsewhere, it proves later that nothing before it was changed."""

    number: int = 0
    hash: str = START

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def head() -> Head:
    """How far the log is sealed."""
    detail = Pulse.objects.filter(name=HEAD).values_list("detail", flat=True).first()
    return Head(**detail) if detail else Head()


def seal() -> int:
    """Seal what was committed since; returns how many rows. Two at once wait for each other."""
    sealed = 0
    for _ in range(PIECES):
        done = seal_piece() if Audit.objects.unsealed().exists() else 0
        sealed += done
        if done < PIECE:
            break
    return sealed


def seal_piece() -> int:
    with transaction.atomic():
        Pulse.objects.get_or_create(name=HEAD, defaults={"at": clock.now()})
        Pulse.objects.select_for_update(no_key=True).get(name=HEAD)
        last = head()
        rows = list(Audit.objects.unsealed().order_by("pk")[:PIECE])
        for row in rows:
            row.number, row.hash = last.number + 1, link(last.hash, row, last.number + 1)
            last = Head(row.number, row.hash)
        Audit.objects.bulk_update(rows, ["number", "hash"], batch_size=100)
        Pulse.beat(HEAD, clock.now(), number=last.number, hash=last.hash)
    return len(rows)


def link(before: str, row: Audit, number: int) -> str:
    """The hash of `row` as number `number`, after the row whose hash is `before`."""
    said = {"before": before, **said_by(row), "number": number}
    return hashlib.sha256(text_of(said).encode()).hexdigest()


def said_by(row: Audit) -> dict[str, Any]:
    """Everything a row says, as it is sealed and exported."""
    return {
        "number": row.number,
        "id": row.pk,
        "at": row.at.isoformat(),
        "by": row.by_id,
        "verb": row.verb,
        "kind": row.kind,
        "ref": row.ref,
        "detail": row.detail,
    }


def exported() -> Iterator[str]:
    """The sealed log as lines of JSON, the oldest first: with its hashes anybody walks the chain without the desk."""
    after = 0
    while page := list(Audit.objects.filter(number__gt=after).select_related("by").order_by("number")[:READ]):
        lines = ({**said_by(row), "actor": row.actor, "hash": row.hash} for row in page)
        yield "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        after = page[-1].number or 0


def text_of(said: dict[str, Any]) -> str:
    """One text for one row; what RFC 8785 cannot write (a number beyond 2^53) is written as its JSON text."""
    try:
        return canonical.text(said)
    except canonical.NotCanonical:
        return canonical.text({**said, "detail": json.dumps(said["detail"], sort_keys=True)})


class BrokenChain(Exception):
    """The audit log is not what was sealed; the message names the first broken link."""


def verify(*, known: Head | None = None, tell: Callable[[int], None] = lambda done: None) -> Head:
    """Walk the whole chain; `tell` hears how many rows were read. Raises BrokenChain at the first broken link.

    `known` is a head that was written down earlier: a chain that was forged anew does not pass through it."""
    last, claimed = Head(), head()
    while rows := list(Audit.objects.filter(number__gt=last.number).order_by("number")[:READ]):
        for row in rows:
            last = follow(last, row)
            if known and last.number == known.number and last.hash != known.hash:
                raise BrokenChain(f"number {known.number} does not have the hash that was written down")
        tell(last.number)
    if last.number < max(claimed.number, known.number if known else 0):
        raise BrokenChain(f"everything after number {last.number} is missing")
    if last.number == claimed.number and last.hash != claimed.hash:
        raise BrokenChain(f"number {last.number} is not the row that was sealed last")
    return last


def follow(last: Head, row: Audit) -> Head:
    expected = last.number + 1
    if row.number != expected:
        raise BrokenChain(f"number {expected} is missing")
    if row.hash != link(last.hash, row, expected):
        raise BrokenChain(f"number {expected} (row {row.pk}: {row}) was changed, or put in")
    return Head(expected, row.hash)
