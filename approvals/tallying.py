"""How many of those who said yes count: each person once, each group for itself. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Panel:
    """Members of any of these roles or teams, of whom so many must say yes."""

    names: tuple[str, ...]
    quorum: int

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Panel:
        return cls(tuple(stored["reviewers"]), stored["quorum"])

    def told(self) -> dict[str, Any]:
        return {"reviewers": list(self.names), "quorum": self.quorum}


@dataclass(frozen=True, slots=True)
class Count:
    """`given` of the people that are needed; `each` says how many of them count for the group at the same place."""

    given: int
    each: tuple[int, ...]


def merged(groups: Iterable[Panel]) -> tuple[Panel, ...]:
    """The same reviewers named by several rules are one group, with the highest quorum; all others stay apart."""
    highest: dict[frozenset[str], Panel] = {}
    for group in groups:
        known = highest.get(frozenset(group.names))
        if known is None or group.quorum > known.quorum:
            highest[frozenset(group.names)] = Panel(known.names if known else group.names, group.quorum)
    return tuple(highest.values())


def tally(groups: Sequence[Panel], needed: int, people: Sequence[Set[str]]) -> Count:
    """Give every person, known by the roles and teams they hold, at most one seat, so that as many seats are taken
    as can be. A group has as many seats as its quorum; the rest up to `needed` is anybody's."""
    seats = [place for place, group in enumerate(groups) for _ in range(group.quorum)]
    seats += [-1] * (needed - len(seats))
    taken: dict[int, int] = {}  # seat -> person

    def seat(person: int, tried: set[int]) -> bool:
        for number, place in enumerate(seats):
            fits = place < 0 or bool(people[person] & set(groups[place].names))
            if fits and number not in tried:
                tried.add(number)
                if number not in taken or seat(taken[number], tried):
                    taken[number] = person
                    return True
        return False

    for person in range(len(people)):
        seat(person, set())
    counted = [seats[number] for number in taken]
    return Count(len(taken), tuple(counted.count(place) for place in range(len(groups))))
