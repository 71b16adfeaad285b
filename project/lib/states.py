"""State machines as tables: a move is one conditional UPDATE, the loser of a race gets an exception."""

from collections.abc import Collection
from typing import Any, ClassVar, Self

from django.db import models


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
        starts, end = self.MOVES[verb]
        fence = {field: getattr(self, field) for field in self.FENCE}
        rows = type(self)._default_manager.filter(pk=self.pk, status__in=starts, **fence)
        if not rows.update(status=end, **fields):
            raise IllegalMove(f"{self._meta.label} {self.pk}: cannot {verb} now")
        self.refresh_from_db()
        return self

    @classmethod
    def move_all(cls, verb: str, keys: Collection[int], **fields: Any) -> int:
        """Apply `verb` to each of these rows that may make it now; returns how many did.

        It names no fence, so the caller holds the rows."""
        starts, end = cls.MOVES[verb]
        rows: models.Manager[Any] = cls._default_manager
        return rows.filter(pk__in=keys, status__in=starts).update(status=end, **fields)
