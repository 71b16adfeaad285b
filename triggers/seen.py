"""Which events of a batch are new: a key is claimed once, and whoever brings it again is a duplicate of the first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from triggers.dialect import Dialect, Key
from triggers.envelope import Signed

if TYPE_CHECKING:
    from triggers.store import Member

TABLE = "triggers_seen"


@dataclass(slots=True)
class Claim:
    """One key of a batch: whose it is, a member's or a whole delivery's, what a repeat is told, and who brings it."""

    whose: "Member | Signed"
    reason: str
    members: list["Member"] = field(default_factory=list)

    @property
    def first(self) -> "Member":
        return self.members[0]

    @property
    def is_shared(self) -> bool:
        return isinstance(self.whose, Signed)

    def is_taken_from(self, whose: "Member | Signed") -> bool:
        """Whether another one of the batch was first, and this one is a repeat by that."""
        return self.whose is not whose and not (isinstance(whose, Signed) and not whose.counts)

    def fresh(self) -> Iterator["Member"]:
        return (member for member in self.members if member.status != "duplicate")

    def repeats(self) -> Iterator["Member"]:
        """Who is a repeat when it was taken."""
        for member in self.fresh():
            if not self.is_shared or (member.arrival.signed and member.arrival.signed.counts):
                yield member


Wanted = dict[Key, Claim]
Twin = tuple["Member", Claim, str]  # who repeats what another member of the batch brings, and what he is told


def claim(db: Dialect, members: Sequence["Member"], now: datetime) -> None:
    """Claim every key of the batch in one sorted statement; whose key was taken is a duplicate of the first."""
    wanted: Wanted = {}
    twins: list[Twin] = []
    for member in members:
        keys = list(keys_of(member))
        again = next((one for one in keys if one[0] in wanted and wanted[one[0]].is_taken_from(one[1])), None)
        if again is not None:
            twins.append((member, wanted[again[0]], again[2]))
            continue
        for key, whose, reason in keys:
            wanted.setdefault(key, Claim(whose, reason)).members.append(member)
    if wanted:
        name_firsts(db, wanted, db.claim(claims_of(db, wanted, now), db.when(now)))
    for member, twin, reason in twins:
        mark_duplicate(member, twin.first.seq, twin.first.ce_id, reason)
    look_for_signed(db, members, now)


def keys_of(member: "Member") -> Iterator[tuple[Key, "Member | Signed", str]]:
    """What it claims: `(key, whose, reason)`; a delivery's id is named before what was signed."""
    arrival = member.arrival
    source_id = arrival.source_id or 0
    for key, reason in arrival.keys:
        yield (source_id, key), member, reason
    if arrival.signed is not None and arrival.signed.claims:
        yield (source_id, arrival.signed.key), arrival.signed, "same_body"


def claims_of(db: Dialect, wanted: Wanted, now: datetime) -> list[tuple[Any, ...]]:
    """Sorted, so that two processes never wait for each other in a ring."""
    windows = {one.first.arrival.window for one in wanted.values()}
    until = {window: db.when(now + timedelta(seconds=window)) for window in windows}
    sorted_keys = [(key, wanted[key].first) for key in sorted(wanted)]
    return [(*key, first.seq, until[first.arrival.window]) for key, first in sorted_keys]


def name_firsts(db: Dialect, wanted: Wanted, taken: set[Key]) -> None:
    """Name the first event of every lost key."""
    lost = sorted(wanted.keys() - taken)
    if not lost:
        return
    firsts = db.holders(lost)
    told = [key for key in wanted if key in firsts]
    for key in sorted(told, key=lambda key: wanted[key].is_shared):  # what each brings of its own says more
        seq, ce_id = firsts[key]
        for member in wanted[key].repeats():
            mark_duplicate(member, seq, ce_id or member.arrival.ce_id, wanted[key].reason)
    for key in sorted(taken):
        hand_on(db, key, wanted[key])


def hand_on(db: Dialect, key: Key, claimed: Claim) -> None:
    """A repeat claims no key of its own: it may be a newcomer's. What was signed anew for it is known from now on, as
    that of the first event, and of a batch as that of its first item that is new."""
    if claimed.first.status != "duplicate":
        return
    if claimed.is_shared:
        heir = next(claimed.fresh(), claimed.first)
        db.run(f'UPDATE "{TABLE}" SET event = %s WHERE source_id = %s AND "key" = %s', [heir.seq, *key])
    else:
        db.run(f'DELETE FROM "{TABLE}" WHERE source_id = %s AND "key" = %s', list(key))


def look_for_signed(db: Dialect, members: Sequence["Member"], now: datetime) -> None:
    """Of what claims nothing: whether the same was signed for an event before, or for another of this batch."""
    asking: dict[Key, list[Member]] = {}
    for member in members:
        signed = member.arrival.signed
        if signed is not None and not signed.claims and member.status != "duplicate":
            asking.setdefault((member.arrival.source_id or 0, signed.key), []).append(member)
    if not asking:
        return
    named = {member.seq: member.ce_id for member in members}  # of this batch nothing is stored yet
    for key, (seq, ce_id) in db.holders(sorted(asking), now).items():
        for member in asking[key]:
            mark_duplicate(member, seq, ce_id or named.get(seq) or member.arrival.ce_id, "same_body")


def mark_duplicate(member: "Member", seq: int, ce_id: str, reason: str) -> None:
    member.status, member.reason, member.seq, member.ce_id = "duplicate", reason, seq, ce_id
