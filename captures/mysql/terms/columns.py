"""Tables and columns as information_schema describes them and the binlog's rows need them, and their names in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tidemark.captures.tables.bad_values import Policy

ENGINES_WITHOUT_ROWS = ("BLACKHOLE", "CONNECT", "FEDERATED", "MRG_MYISAM", "PERFORMANCE_SCHEMA", "SEQUENCE", "SPIDER")
"""Engines whose rows are elsewhere, or nowhere: the binlog does not have all changes of them."""

UNICODE = frozenset(("utf8mb4", "utf16", "utf16le", "utf32", "gb18030"))
"""Character sets that have every character."""

_OWN = frozenset(("uuid", "inet4", "inet6", "vector"))
"""Types that MariaDB's log shows as binary strings."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Case kept.
        data_type: ``information_schema.columns.data_type``, lower case: ``int``, ``varchar``, ``geometry``, ``inet6``.
        unsigned: Of a number.
        charset: The server's name of the character set of a text (``utf8mb4``); None for anything else, also for
            ``binary``, ``varbinary`` and ``blob``.
        length: Characters of a text, bytes of a binary, bits of a ``bit``, width of a ``tinyint`` (1 may mean boolean),
            2 for a ``year(2)``.
        fraction: Digits of a second that a ``time``, ``datetime`` or ``timestamp`` holds, 0 to 6.
        json: The value is JSON text: MySQL's type, or MariaDB's alias, a longtext with a ``json_valid`` check.
        generated: Empty, ``virtual`` or ``stored``.
        expression: Of a generated column, as the server prints it.
        invisible: ``SELECT *`` leaves it out; the log has it.
        hidden: The log has it, but no statement can name it: MariaDB's hash of a unique index over long texts.
        collation: The server's name of the order of a text; None for anything else.
        counts_up: A row without a value, or with 0, gets the next number.
        salt: Documents have hashes of its values with this salt. Empty: they have the values.
        on_bad_value: The policy for values that a document cannot represent.
    """

    name: str
    data_type: str
    nullable: bool = True
    unsigned: bool = False
    charset: str | None = None
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fraction: int = 0
    labels: tuple[str, ...] = ()
    json: bool = False
    generated: str = ""
    invisible: bool = False
    hidden: bool = False
    salt: bytes = field(default=b"", repr=False)
    on_bad_value: Policy = "stop"
    # Columns that differ only in these are equal: they have no effect on the log's rows or on documents.
    zerofill: bool = field(default=False, compare=False)
    expression: str = field(default="", compare=False)
    collation: str | None = field(default=None, compare=False)
    description: str = field(default="", compare=False)
    counts_up: bool = field(default=False, compare=False)

    @property
    def name_text(self) -> str:
        """Its name as a byte text."""
        return self.name.encode().decode("latin-1")

    @property
    def log_says_less(self) -> bool:
        """Whether the log may describe this column incompletely."""
        return self.data_type in _OWN or self.fraction > 0 or (self.json and self.data_type != "json")

    def may_hide(self, label: str) -> bool:
        """Whether the catalog's text may not be this label's: it has ``?`` for each character beyond U+FFFF."""
        return "?" in label and self.charset in UNICODE

    @property
    def type_text(self) -> str:
        """The type with the attributes that determine its values and their texts."""
        if self.data_type == "decimal":
            size = f"({self.precision},{self.scale or 0})"
        elif self.data_type in ("float", "double") and self.scale is not None:
            size = f"({self.precision},{self.scale})"
        elif self.fraction:
            size = f"({self.fraction})"
        elif self.length is None or (self.data_type == "tinyint" and self.length != 1):
            size = ""  # The width of a tinyint has a meaning only if it is 1.
        else:
            size = f"({self.length})"
        return f"{self.data_type}{size}{' unsigned' if self.unsigned else ''}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the server.

    Attributes:
        columns: All of them, in the order of the log's rows (``ordinal_position``).
        key: Column names: the primary key, else the first by name of the unique indexes without nullable columns; empty
            when none.
        key_is_fallback: The key is not the primary key.
        transactional: Whether that engine has transactions.
        estimated_rows: The server's estimate, None when it has none.
        size_bytes: Data and indexes, by the server's estimate.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    key_index: str
    key_is_fallback: bool
    engine: str
    transactional: bool
    description: str = ""
    estimated_rows: int | None = None
    size_bytes: int = 0

    @property
    def path(self) -> tuple[str, str]:
        return self.schema, self.name

    @property
    def in_sql(self) -> str:
        """Its name as SQL, with the schema."""
        return quoted_path(self.path)

    @property
    def name_in_full(self) -> str:
        """``schema.table``, for people."""
        return f"{self.schema}.{self.name}"


def reads_as(columns: Sequence[Column], known: Sequence[Column]) -> bool:
    """Whether rows with these columns are read as those with the known ones are.

    If the known ones are older, they may allow NULL where the table no longer does.
    """
    return len(columns) == len(known) and all(
        column == other or (other.nullable and replace(column, nullable=True) == other)
        for column, other in zip(columns, known, strict=True)
    )


def quoted_name(name: str) -> str:
    """A name as SQL."""
    return f"`{name.replace('`', '``')}`"


def quoted_path(path: Sequence[str]) -> str:
    """Schema and name as SQL."""
    return ".".join(map(quoted_name, path))
