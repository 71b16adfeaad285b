"""An IN whose words stand in the statement itself: of a value that is bound later SQLite cannot know that a partial
index holds it, and reads the whole table instead."""

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField
from django.db.models.lookups import In
from django.db.models.sql.compiler import SQLCompiler


@CharField.register_lookup
class OneOf(In):
    """`status__one_of=(...)`, of words of the code's own, as a partial index's condition names them."""

    lookup_name = "one_of"

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, tuple[()]]:
        sql, words = super().as_sql(compiler, connection)
        if not all(str(word).isidentifier() for word in words):
            raise ValueError(f"these are no words of ours: {words!r}")
        return sql % tuple(f"'{word}'" for word in words), ()
