"""Django's SQLite, whose transactions wait for their turn at the turnstile, and for the disk when it is over."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import Any

from django.db import OperationalError
from django.db.backends.sqlite3 import base
from django.db.utils import DatabaseErrorWrapper

from project.lib.turnstile import Turnstile
from project.lib.wal import BESIDE, WITHIN, Log


class Errors(DatabaseErrorWrapper):
    """As Django's own; what SQLite says of the disk, the log hears as well."""

    wrapper: "DatabaseWrapper"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.wrapper.log is not None:
            self.wrapper.log.heed(error)
        super().__exit__(kind, error, trace)


class DatabaseWrapper(base.DatabaseWrapper):
    """Every transaction here is IMMEDIATE: it holds the turn from its begin to its end.

    Its commit reaches the disk after the turn was given back and before `atomic` is left; a statement outside of
    transactions does within itself. The stubs know nothing of what Django keeps to itself."""

    turnstile: Turnstile | None = None
    log: Log | None = None
    is_hasty = False  # nobody waits for the disk just now; see project/lib/hasty.py

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        opened = super().get_new_connection(conn_params)
        if not self.is_in_memory_db():
            self.turnstile = Turnstile(str(self.settings_dict["NAME"]))
        [(mode,)] = opened.execute("PRAGMA journal_mode")
        if mode == "wal":
            self.log = Log(str(self.settings_dict["NAME"]))
        return opened

    @cached_property
    def wrap_database_errors(self) -> Errors:
        return Errors(self)

    def create_cursor(self, name: Any = None) -> Any:
        """In a transaction each statement is beside the first one, and what ends it asks the disk."""
        if self.log is not None and not self.in_atomic_block:
            with told():
                self.log.trust()
        return super().create_cursor(name)

    def _start_transaction_under_autocommit(self) -> None:
        if self.turnstile is not None:
            self.turnstile.enter()
        try:
            if self.log is not None:
                with self.wrap_database_errors:
                    self.connection.execute(BESIDE)
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self.leave()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        self.leave()  # not when it fails: a rollback follows
        self.flush()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]
        finally:
            self.leave()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]
        finally:
            if self.turnstile is not None:
                self.turnstile.close()
                self.turnstile = None
            if self.log is not None:
                self.log.close()
                self.log = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody of ours writes meanwhile; not in a transaction, which has its turn."""
        self.ensure_connection()
        if self.turnstile is None:
            yield
            return
        with self.turnstile.held():
            yield

    def leave(self) -> None:
        """Give the turn back; a transaction that could not be ended is the connection's end, too."""
        if self.turnstile is not None:
            self.turnstile.leave()
        if self.log is not None and self.connection is not None and not self.connection.in_transaction:
            with self.wrap_database_errors:
                self.connection.execute(WITHIN)

    def flush(self) -> None:
        """An error says that the commit may be lost with the power; it is done again by whoever can."""
        if self.log is not None and not self.is_hasty:
            with told():
                self.log.flush()


@contextmanager
def told() -> Iterator[None]:
    """What the log raises, as Django's own error."""
    try:
        yield
    except OSError as error:
        raise OperationalError(f"the disk did not take what was committed: {error}") from error
