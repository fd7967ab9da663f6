"""A bound table as it is now: its columns, its decoders, its chunk query. Rebuilt when the log shows other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from captures.interface import OpenedTable
from captures.postgres.catalog import read_tables
from captures.postgres.chunks import ScanTarget
from captures.postgres.columns import Column, ColumnType, Table
from captures.postgres.config import ResourceConfig
from captures.postgres.document_schema import document_schema
from captures.postgres.log import origin_members
from captures.postgres.rows import compile_chunk_decoder
from captures.postgres.setup import own_rows
from protocol.codec import CAPTURED_SUFFIX, captured_prefix
from protocol.errors import SourceError
from protocol.messages import JsonObject


def captured_columns(table: Table, exclude: Sequence[str]) -> tuple[Column, ...]:
    """The columns that documents have: not the generated ones, which the log does not carry."""
    return tuple(column for column in table.columns if not column.generated and column.name not in exclude)


def bound_tables(session: psycopg.Connection, resources: Sequence[ResourceConfig]) -> list[Table | None]:
    """The table of each resource; None where there is none that can be captured.

    Raises:
        SourceError: ``TM-PG-023`` a table is bound twice: the log's changes would go to one of the bindings only.
        psycopg.Error: The server refuses.
    """
    names = [(resource.schema_name, resource.table) for resource in resources]
    if twice := sorted({".".join(name) for name in names if names.count(name) > 1}):
        raise SourceError(
            "TM-PG-023", f"bound more than once: {', '.join(twice)}", remedy="Leave one binding of each table."
        )
    found = {table.path: table for table in read_tables(session, names)}
    return [found.get(name) for name in names]


@dataclass(slots=True)
class PostgresBinding:
    """One binding of the open capture."""

    index: int
    state_key: str
    resource: ResourceConfig
    table: Table
    emit_truncate: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        return captured_columns(self.table, self.resource.exclude)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.resource.key) if self.resource.key is not None else self.table.key

    @property
    def name(self) -> str:
        return self.table.qualified_name

    @property
    def document_schema(self) -> JsonObject:
        return document_schema(self.table, self.columns, self.key, truncates=self.emit_truncate)

    def opened(self) -> OpenedTable:
        return OpenedTable(
            binding=self.index,
            name=self.name,
            state_key=self.state_key,
            document_schema=self.document_schema,
            identity=" ".join([str(self.table.oid), *self.key]),
            key=self.key,
            scan=self.resource.scan,
            priority=self.resource.priority,
            estimated_rows=self.table.estimated_rows,
        )

    def scan_target(self) -> ScanTarget:
        types = {column.name: column.type for column in self.table.columns}
        columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in self.columns)
        # The log has the rows of tables that inherit from this one under their own names.
        table = own_rows(self.table)
        return ScanTarget(
            name=self.name,
            oid=self.table.oid,
            table=table,
            select=sql.SQL("SELECT {} FROM {}").format(columns, table),
            types=tuple(_shown_type(column.type) for column in self.columns),
            key=tuple(sql.Identifier(name) for name in self.key),
            key_types=tuple(types[name].name for name in self.key),
            key_oids=tuple(_shown_type(types[name]) for name in self.key),
            where=self.resource.where,
            decode=compile_chunk_decoder(self.columns, self.key, table=self.name),
        )

    def truncation(self, position: int) -> bytes:
        """The captured line that empties the table downstream; nothing where the configuration ignores TRUNCATE."""
        return self._head("t", position) + CAPTURED_SUFFIX if self.emit_truncate else b""

    def chunk_head(self, position: int) -> bytes:
        return self._head("c", position)[:-1] + b","

    def _head(self, op: str, position: int) -> bytes:
        # The log position is loc's first part only: a row emitted between two transactions sorts between them.
        origin = origin_members(self.table.schema, self.table.name)
        source = b'{"snapshot":true,%b,"loc":[%d,0,0]}' % (origin, position)
        return b'%b{"_meta":{"op":"%b","source":%b}}' % (captured_prefix(self.index), op.encode(), source)


def _shown_type(column_type: ColumnType) -> int:
    """The oid by which a query's result shows a type: a domain's is that of the type beneath."""
    while column_type.base is not None:
        column_type = column_type.base
    return column_type.oid
