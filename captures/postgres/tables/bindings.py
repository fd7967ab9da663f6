"""A bound table as it is now: its columns, its document schema, its chunk query.

A binding is rebuilt when the log shows other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import psycopg

from captures.contract.scan import ScanMethod
from captures.contract.source import OpenedTable
from captures.postgres.chunks.scan_target import ScanTarget
from captures.postgres.config import ResourceConfig
from captures.postgres.tables.catalog import read_tables
from captures.postgres.tables.columns import Column, Table
from captures.postgres.tables.document_schema import document_schema
from captures.postgres.tables.replica_identities import full_identities
from captures.postgres.tables.table_record import TableRecord, read_records
from captures.tables.bad_values import STOP, Policies, Policy
from captures.tables.captured_line import chunk_head, without_columns
from captures.tables.hashes import no_salt
from captures.tables.table_binding import captured_as, check_bound_once, unfit_table
from protocol.errors import SourceError
from protocol.messages import JsonObject


def captured_columns(
    table: Table,
    exclude: Sequence[str] = (),
    hashed: Sequence[str] = (),
    salt: bytes = b"",
    *,
    policies: Policies = STOP,
    key: Sequence[str] = (),
) -> tuple[Column, ...]:
    """The columns that documents have. Generated columns are left out, because the log does not carry them."""
    columns = (column for column in table.columns if not column.generated)
    return captured_as(columns, exclude, hashed, salt, policies, key)


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
    definitions = record.definitions()
    columns = tuple(replace(column, definition=definitions.get(column.name, "")) for column in table.columns)
    return replace(table, columns=columns, record=record)


def absent(resource: ResourceConfig, oid: int = 0) -> Table:
    """The placeholder for the table of a resource that cannot be captured.

    Args:
        oid: The oid of the table that could be captured; 0 if there was none.
    """
    return Table(oid, resource.schema_name, resource.table, (), (), False, "d", False, "", None, 0)


@dataclass(slots=True)
class PostgresBinding:
    """One binding of the open capture.

    Attributes:
        noted: The ``captures.postgres.tables.table_fingerprint`` as of which all captured rows are right; empty at
            first.
        unfit: Why the table cannot be captured. ``table`` is then the result of ``absent``.

    Raises:
        SourceError: ``TM-PG-023`` columns are to be hashed, and there is no salt.
    """

    index: int
    state_key: str
    resource: ResourceConfig
    table: Table
    emit_truncate: bool
    salt: bytes = field(default=b"", repr=False)
    on_bad_value: Policy = "stop"
    noted: JsonObject = field(default_factory=dict)
    unfit: SourceError | None = None

    def __post_init__(self) -> None:
        if self.resource.hash and not self.salt:
            raise no_salt("TM-PG-023", self.table.qualified_name)

    @property
    def columns(self) -> tuple[Column, ...]:
        return captured_columns(
            self.table,
            self.resource.exclude,
            self.resource.hash,
            self.salt,
            policies=self.policies,
            key=self.key,
        )

    @property
    def policies(self) -> Policies:
        return Policies.of(self.on_bad_value, self.resource.on_bad_value)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(self.resource.key) if self.resource.key is not None else self.table.key

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
        stores = self.table.record.stores if self.table.record is not None else ()
        return sorted({self.table.oid, *(store.oid for store in stores)})

    @property
    def document_schema(self) -> JsonObject:
        return document_schema(self.table, self.columns, self.key, truncates=self.emit_truncate)

    def opened(self) -> OpenedTable:
        if self.unfit is not None:
            return unfit_table(self.index, self.state_key, self.resource, self.unfit)
        return OpenedTable(
            binding=self.index,
            name=self.name,
            state_key=self.state_key,
            document_schema=self.document_schema,
            identity=" ".join([str(self.table.oid), *self.key]),
            key=self.key,
            scan=self.scan,
            priority=self.resource.priority,
            estimated_rows=self.table.estimated_rows,
            estimated_bytes=self.table.size_bytes,
            policy=self.policies.text(self.resource.exclude, self.resource.hash),
            whole_rows=full_identities(self.table),
        )

    def scan_target(self) -> ScanTarget:
        columns = {column.name: column for column in self.table.columns}
        return ScanTarget(
            replace(self.table, record=None),
            self.columns,
            tuple(columns[name] for name in self.key),
            self.resource.where,
            self.noted.get("files") or {},
        )

    def truncation(self, position: int, emission: int) -> bytes:
        """The captured line that empties the table downstream; nothing where the configuration ignores TRUNCATE."""
        return without_columns(self._head("t", position, emission) + b"0]}") if self.emit_truncate else b""

    def chunk_head(self, position: int, emission: int) -> bytes:
        """The text before tails of ``captures.postgres.chunks.row_decoder``, which begin with the last part of loc."""
        return self._head("c", position, emission)

    def _head(self, op: str, position: int, emission: int) -> bytes:
        return chunk_head(self.index, op, self.table.path, b'"loc":[%d,0,%d,' % (position, emission))
