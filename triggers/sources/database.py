"""A table of somebody else's database as a source: rows that changed, or the rows of an outbox.

`cursor` reads rows by a column that only grows, such as `updated_at`, and looks back over a window for rows that became
visible late; a delete leaves no row, so it is told by an outbox only. `outbox` reads every row and acknowledges it."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote

from pydantic import Field, field_validator, model_validator

from triggers.errors import NotValid
from triggers.sources.farside import FarSide, address_of, parse, refuse_closed, split
from triggers.sources.file import refuse_outside

PORT = 5432
PORTS = (PORT, 6432)
SCHEMES = ("postgres", "postgresql", "sqlite")


class TableSource(FarSide):
    """The `config` of a source of kind `database`; the password is its secret."""

    url: str = Field(
        title="Address",
        description="postgresql://user@host:5432/name, or sqlite:////folder/file.sqlite3 inside FILE_ROOTS. "
        "The password is the secret.",
        max_length=1000,
    )
    tls: Literal["require", "verify", "prefer"] = Field(
        "require", title="Encryption", description="Of PostgreSQL. verify: the certificate as well."
    )
    table: str = Field(title="Table or view", description="Also schema.table.", min_length=1, max_length=200)
    mode: Literal["cursor", "outbox"] = Field(
        "cursor",
        title="How it is read",
        description="cursor: rows that are new or changed, by a column that only grows. "
        "outbox: every row once, acknowledged after its event is stored.",
    )
    key: list[str] = Field(
        ["id"], title="Key columns", description="One a line: what names a row for ever.", min_length=1, max_length=10
    )
    cursor: str = Field(
        "", title="Cursor column", description="updated_at, or a number that only grows.", max_length=200
    )
    overlap: float = Field(
        60,
        title="Look back over",
        description="Seconds (of a number: so many) that are read again, for rows that became visible late.",
        ge=0,
        le=86400 * 30,
    )
    start: Literal["new", "all"] = Field(
        "new", title="Begin with", description="Of a cursor. new: rows from now on. all: what is there too."
    )
    every: float = Field(5, title="Look every", description="Seconds.", ge=0.1, le=86400)
    acknowledge: str = Field(
        "delete",
        title="A row of an outbox is acknowledged by",
        description="delete, or the name of a column that then gets the time; rows where it is null are read.",
        max_length=200,
    )
    type_column: str = Field(
        "", title="Column with the type", description="Its text follows the source's name.", max_length=200
    )
    data_column: str = Field(
        "", title="Column with the data", description="JSON. Empty: the whole row is the data.", max_length=200
    )

    @field_validator("url")
    @classmethod
    def url_is_of_a_database(cls, value: str) -> str:
        parts = address_of(value, SCHEMES, "postgresql://user@host:5432/name or sqlite:////folder/file.sqlite3")
        if parts.query or parts.fragment:
            raise ValueError("nothing follows the name of the database")
        if parts.scheme == "sqlite" and (parts.netloc or not parts.path.startswith("//")):
            raise ValueError("an absolute path, such as sqlite:////srv/shop.sqlite3")
        if parts.scheme != "sqlite" and not (parts.hostname and parts.username and parts.path.strip("/")):
            raise ValueError("it names a user, a host and a database: postgresql://user@host:5432/name")
        return value

    @field_validator("table", "cursor", "acknowledge", "type_column", "data_column")
    @classmethod
    def can_be_quoted(cls, value: str) -> str:
        return refuse_odd(value)

    @field_validator("key")
    @classmethod
    def keys_have_names(cls, value: list[str]) -> list[str]:
        if any(not name or len(name) > 200 for name in value):
            raise ValueError("each is the name of a column")
        return list(dict.fromkeys(map(refuse_odd, value)))

    @model_validator(mode="after")
    def a_cursor_has_its_column(self) -> Self:
        if self.mode == "cursor" and not self.cursor:
            raise ValueError("by a cursor it needs the cursor column, such as updated_at")
        if self.mode == "outbox" and not self.acknowledge:
            raise ValueError("an outbox is acknowledged by delete, or by a column")
        return self

    @property
    def is_sqlite(self) -> bool:
        return self.url.startswith("sqlite:")

    @property
    def path(self) -> str:
        """Of SQLite: where the file lies."""
        return unquote(split(self.url).path)[1:]

    @property
    def host(self) -> str:
        return split(self.url).hostname or ""

    @property
    def port(self) -> int:
        return split(self.url).port or PORT

    @property
    def user(self) -> str:
        return unquote(split(self.url).username or "")

    @property
    def name(self) -> str:
        return unquote(split(self.url).path.strip("/"))

    @property
    def place(self) -> str:
        """Which database it is, whoever reads it."""
        return self.path if self.is_sqlite else f"{self.host}:{self.port}/{self.name}"

    @property
    def columns(self) -> list[str]:
        """Columns that must be there."""
        named = [*self.key, self.type_column, self.data_column]
        more = [self.cursor] if self.mode == "cursor" else [self.acknowledge] if self.acknowledge != "delete" else []
        return [name for name in [*named, *more] if name]


def refuse_odd(name: str) -> str:
    """Raises ValueError for a name that no statement can carry."""
    if "%" in name or not name.isprintable():
        raise ValueError("it holds a character that no name should: %, or one that is not printed")
    return name


def parse_table(config: Mapping[str, Any]) -> TableSource:
    """Raises NotValid."""
    return parse(TableSource, config)


def checked_table(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is saved: readable, and its database may be reached. Raises NotValid."""
    table = parse_table(config)
    if table.is_sqlite:
        open_file(table)
    else:
        refuse_closed("url", table.host, table.port, PORTS, "PostgreSQL")
    return table.model_dump(mode="json", exclude_defaults=True)


def open_file(table: TableSource) -> Path:
    """Where the file of a SQLite database lies. Raises NotValid unless it is there, inside FILE_ROOTS."""
    try:
        place = refuse_outside(table.path)
    except NotValid as refused:
        raise NotValid(refused.detail.replace("path: ", "url: ", 1), field="url") from refused
    if not os.path.isfile(place):
        raise NotValid(f"url: there is no file {table.path}.", field="url")
    return place


def quoted(name: str) -> str:
    """A name as both databases take it, whatever it holds; a dot parts the schema from the table."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def digest(text: bytes) -> str:
    """A version of a row: what it holds, cursor and all."""
    return hashlib.sha256(text).hexdigest()[:24]
