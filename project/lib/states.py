"""State machines as tables: a move is one conditional UPDATE, the loser of a race gets an exception."""

from collections.abc import Collection
from functools import lru_cache
from typing import Any, ClassVar, Self

from django.db import models

from project.lib.prepared import STAND_INS, Update

Shape = tuple[tuple[str, type | None], ...]
Rows = tuple[models.QuerySet[Any, Any], dict[str, Any]]


class IllegalMove(Exception):
    """The row is no longer in a state from which this move is allowed."""


class Moves(dict[str, tuple[tuple[str, ...], str]]):
    """verb -> (states it may start from, state it ends in)."""


class Stateful(models.Model):
    """A row whose `status` changes only by the verbs of `MOVES`."""

    MOVES: ClassVar[Moves]
    FENCE: ClassVar[tuple[str, ...]] = ()  # fields that must still hold what this process last read

    class Meta:
        abstract = True

    def move(self, verb: str, **fields: Any) -> Self:
        """Apply `verb` and write `fields` with it, or raise IllegalMove when another process was first."""
        fence = {field: getattr(self, field) for field in self.FENCE}
        if not write(type(self), verb, {"pk": self.pk, **fence}, fields):
            raise IllegalMove(f"{self._meta.label} {self.pk}: cannot {verb} now")
        self.read_again({"status": self.MOVES[verb][1], **fields})
        return self

    def read_again(self, written: dict[str, Any]) -> None:
        """Hold what the row holds, now that a move has written these fields."""
        self.refresh_from_db()

    @classmethod
    def move_all(cls, verb: str, keys: Collection[int], **fields: Any) -> int:
        """Apply `verb` to each of these rows that may make it now; returns how many did.

        It names no fence, so the caller holds the rows."""
        starts, end = cls.MOVES[verb]
        rows: models.Manager[Any] = cls._default_manager
        return rows.filter(pk__in=keys, status__in=starts).update(status=end, **fields)


def write(model: type[Stateful], verb: str, held: dict[str, Any], fields: dict[str, Any]) -> int:
    """Make the move of the row that holds these values; returns how many rows there were."""
    shape = tuple((name, None if value is None else type(value)) for name, value in fields.items())
    if any(kind not in (None, *STAND_INS) for _, kind in shape):
        rows, values = move_of(model, verb, held, fields)
        return rows.update(**values)
    named = {f"held_{name}": value for name, value in held.items()}
    return statement(model, verb, tuple(held), shape)(**named, **without_none(fields))


@lru_cache(maxsize=256)
def statement(model: type[Stateful], verb: str, held: tuple[str, ...], shape: Shape) -> Update:
    """The same for all moves that name the same fields and leave the same ones empty."""
    kinds = {name: kind for name, kind in shape if kind is not None}

    def build(**given: Any) -> Rows:
        row = {name: given[f"held_{name}"] for name in held}
        return move_of(model, verb, row, {name: given.get(name) for name, _ in shape})

    return Update(build, **{f"held_{name}": int for name in held}, **kinds)


def move_of(model: type[Stateful], verb: str, held: dict[str, Any], fields: dict[str, Any]) -> Rows:
    starts, end = model.MOVES[verb]
    rows: models.Manager[Any] = model._default_manager
    return rows.filter(status__in=starts, **held), {"status": end, **fields}


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
