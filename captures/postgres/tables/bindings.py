"""A bound table as it is now: its columns, its document schema, its chunk query.

A binding is rebuilt when the log shows other columns.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import psycopg

from tidemark.backfill.keys import Key, known_key
from tidemark.captures.contract.chunk_rows import ChunkHead
from tidemark.captures.contract.source import OpenedTable, ScanMethod
from tidemark.captures.postgres.catalog.columns import Column, Table
from tidemark.captures.postgres.catalog.reading import read_tables
from tidemark.captures.postgres.catalog.replica_identities import full_identities
from tidemark.captures.postgres.catalog.table_record import TableRecord, read_records
from tidemark.captures.postgres.server.config import ResourceConfig
from tidemark.captures.postgres.tables.document_schema import document_schema
from tidemark.captures.postgres.tables.noted_table import NOTHING_NOTED, NotedTable
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.captures.postgres.values import types
from tidemark.captures.postgres.values.arrow_forms import KeyTexts, arrow_form
from tidemark.captures.rows.captured_line import chunk_head, deletion, without_columns
from tidemark.captures.tables.bad_values import Policy
from tidemark.captures.tables.table_binding import TableBinding, check_bound_once
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Json, JsonObject


def captured_columns(columns: Sequence[Column]) -> Iterator[Column]:
    """The columns that documents can have. Generated columns are left out, because the log does not carry them."""
    return (column for column in columns if not column.generated)


def bound_tables(
    session: psycopg.Connection, resources: Sequence[ResourceConfig], publication: str
) -> list[Table | None]:
    """The table of each resource with its record; None for a resource without a table that can be captured.

    A record is never younger than its table.

    Raises:
        SourceError: ``TM-PG-023`` a table is bound twice: the log's changes would go to one of the bindings only.
        psycopg.Error: The server refuses.
    """
    names = [(resource.schema_name, resource.table) for resource in resources]
    check_bound_once(names, "TM-PG-023")
    records = read_records(session, publication, names)
    found = {table.path: table for table in read_tables(session, names)}
    return [_recorded(found.get(name), records.get(name)) for name in names]


def _recorded(table: Table | None, record: TableRecord | None) -> Table | None:
    if table is None or record is None or record.oid != table.oid:
        return None  # It became another one just now.
    definitions = {(column.number, column.name): column.definition for column in record.columns}
    columns = tuple(
        replace(column, definition=definitions.get((column.number, column.name), "")) for column in table.columns
    )
    return replace(table, columns=columns, record=record)


def absent(resource: ResourceConfig, oid: int = 0) -> Table:
    """The placeholder for the table of a resource that cannot be captured.

    Args:
        oid: The oid of the table that could be captured; 0 if there was none.
    """
    return Table(oid, resource.schema_name, resource.table, (), (), False, "d", False, "", None, 0)


@dataclass(slots=True)
class PostgresBinding(TableBinding):
    """One binding of the open capture.

    Attributes:
        noted: The fingerprint as of which all captured rows are right; ``NOTHING_NOTED`` at first.
        unfit: Why the table cannot be captured. ``table`` is then the result of ``absent``.
        rereads_gone: Rows of partitions that are detached or dropped go downstream, too.
        identified: Schemas have the columns' identities, since the first one that was ever sent of the table.

    Raises:
        SourceError: ``TM-PG-023`` columns are to be hashed, and there is no salt.
    """

    wrong_config: ClassVar[str] = "TM-PG-023"

    index: int
    state_key: str
    resource: ResourceConfig
    table: Table
    emit_truncate: bool
    salt: bytes = field(default=b"", repr=False)
    on_bad_value: Policy = "stop"
    noted: NotedTable = NOTHING_NOTED
    unfit: SourceError | None = None
    identified: bool = False
    rereads_gone: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that documents have."""
        return self._captured(captured_columns(self.table.columns))

    @property
    def _key_columns(self) -> tuple[Column, ...]:
        columns = {column.name: column for column in self.table.columns}
        return tuple(columns[name] for name in self.key)

    @property
    def scan(self) -> ScanMethod:
        if self.resource.scan is not None:
            return ScanMethod(self.resource.scan)
        return ScanMethod.KEY if self.key else ScanMethod.PAGES

    @property
    def name(self) -> str:
        return self.table.qualified_name

    @property
    def relations(self) -> list[int]:
        """The oids of the table and of its partitions."""
        return sorted({self.table.oid, *(store.oid for store in self.table.stores)})

    @property
    def document_schema(self) -> JsonObject:
        return document_schema(
            self.table, self.columns, self.key, truncates=self.emit_truncate, identified=self.identified
        )

    @property
    def identity(self) -> str:
        return " ".join([str(self.table.oid), *self.key])

    @property
    def whole_rows(self) -> str:
        return full_identities(self.table)

    def handling(self, name: str) -> str:
        """What documents have of a column with this name: a text that changes with it."""
        if name in self.resource.exclude:
            return "excluded"
        return "hashed" if name in self.resource.hash else self.policies.column(name, in_key=name in self.key)

    def opened(self) -> OpenedTable:
        return self._opened(self.index)

    def scan_target(self) -> ScanTarget:
        table = replace(self.table, record=None)
        return ScanTarget(table, self.columns, self._key_columns, self.resource.where, self.noted.files)

    def truncation(self, position: int, emission: int) -> bytes:
        """The captured line that empties the table downstream; nothing where the configuration ignores TRUNCATE."""
        return without_columns(self._head("t", position, emission) + b"0]}") if self.emit_truncate else b""

    def deletion(self, position: int, emission: int, values: Sequence[Json]) -> bytes:
        """The captured line that deletes the row with these values of its key columns downstream."""
        return deletion(self._head("d", position, emission) + b"0]}", dict(zip(self.key, values, strict=True)))

    def key_of(self, values: Sequence[Json]) -> Key | None:
        """See ``tidemark.captures.contract.source.Source``."""
        if len(values) != len(self.key):
            return None
        return known_key(map(key_text, self._key_columns, values))

    def chunk_head(self, position: int, emission: int) -> ChunkHead:
        """The head of rows, whose number is the last part of loc."""
        return ChunkHead(self.index, self._head("c", position, emission), (f"[{position},0,{emission},", "]"))

    def _head(self, op: str, position: int, emission: int) -> bytes:
        return chunk_head(self.index, op, self.table.path, b'"loc":[%d,0,%d,' % (position, emission))


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,6})?(Z?)")


def key_text(column: Column, value: Json) -> str | None:
    """The text of a key column's value that documents have: the reverse of ``json_values``; None if it is none.

    Two values that are equal to the server may have different texts, and a key is the text that the server prints. So
    only types are here where a document's value has one text.
    """
    oid = column.type.beneath.oid
    if oid == types.BOOL:
        return {True: "t", False: "f"}.get(value) if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    form = arrow_form(replace(column, on_bad_value="stop"))
    if form is not None and form.key is KeyTexts.DIGITS:
        return str(value) if isinstance(value, int) else None
    if not isinstance(value, str):
        return None
    if oid == types.BYTEA:
        return _bytes(value)
    if oid == types.DATE:
        return value if _DATE.fullmatch(value) else None
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        return _moment(value, utc=oid == types.TIMESTAMPTZ)
    return value if form is not None and form.key is KeyTexts.SAME else None


def _bytes(value: str) -> str | None:
    try:
        return f"\\x{b64decode(value, validate=True).hex()}"
    except Error:
        return None


def _moment(value: str, *, utc: bool) -> str | None:
    """The text as the server prints it: no zeros at the end of the fraction, in the session's zone, which is UTC."""
    found = _MOMENT.fullmatch(value)
    if found is None or bool(found[4]) != utc:
        return None
    fraction = (found[3] or "").rstrip("0").rstrip(".")
    return f"{found[1]} {found[2]}{fraction}{'+00' if utc else ''}"
