"""Django's SQLite, whose transactions wait for their turn at the turnstile."""

from typing import Any

from django.db.backends.sqlite3 import base

from project.lib.turnstile import Turnstile


class DatabaseWrapper(base.DatabaseWrapper):
    """Every transaction here is IMMEDIATE: it holds the turn from its begin to its end.

    The stubs know nothing of what Django keeps to itself."""

    turnstile: Turnstile | None = None

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        opened = super().get_new_connection(conn_params)
        if not self.is_in_memory_db():
            self.turnstile = Turnstile(str(self.settings_dict["NAME"]))
        return opened

    def _start_transaction_under_autocommit(self) -> None:
        if self.turnstile is not None:
            self.turnstile.enter()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self.leave()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]
        self.leave()  # not when it fails: a rollback follows

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

    def leave(self) -> None:
        if self.turnstile is not None:
            self.turnstile.leave()
