"""A bound table as it is now: its columns, its decoders, its chunk query. Rebuilt when the log shows other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from captures.interface import OpenedTable
from captures.postgres.chunks import ScanTarget
from captures.postgres.columns import Column, Table
from captures.postgres.config import ResourceConfig
from captures.postgres.document_schema import document_schema
from captures.postgres.log import origin_members
from captures.postgres.rows import compile_chunk_decoder
from captures.postgres.setup import table_identifier
from protocol.codec import captured_prefix
from protocol.messages import JsonObject


def captured_columns(table: Table, exclude: Sequence[str]) -> tuple[Column, ...]:
    """The columns that documents have: not the generated ones, which the log does not carry."""
    return tuple(column for column in table.columns if not column.generated and column.name not in exclude)


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
        return f"{self.table.schema}.{self.table.name}"

    @property
    def document_schema(self) -> JsonObject:
        return document_schema(self.table, self.columns, self.key, truncates=self.emit_truncate)

    def opened(self) -> OpenedTable:
        return OpenedTable(
            binding=self.index,
            name=self.name,
            state_key=self.state_key,
            document_schema=self.document_schema,
            identity=str(self.table.oid),
            key=self.key,
            scan=self.resource.scan,
            priority=self.resource.priority,
            estimated_rows=self.table.estimated_rows,
        )

    def scan_target(self) -> ScanTarget:
        types = {column.name: column.type.name for column in self.table.columns}
        columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in self.columns)
        return ScanTarget(
            name=self.name,
            select=sql.SQL("SELECT {} FROM {}").format(columns, table_identifier(self.table)),
            key=tuple(sql.Identifier(name) for name in self.key),
            key_types=tuple(types[name] for name in self.key),
            where=self.resource.where,
            decode=compile_chunk_decoder(self.columns, self.key, table=self.name),
        )

    def chunk_head(self, position: int) -> bytes:
        # The log position is loc's first part only: a row emitted between two transactions sorts between them.
        origin = origin_members(self.table.schema, self.table.name)
        source = b'{"snapshot":true,%b,"loc":[%d,0,0]}' % (origin, position)
        return b'%b{"_meta":{"op":"c","source":%b},' % (captured_prefix(self.index), source)
