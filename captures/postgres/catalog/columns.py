"""Tables, columns and types as the catalog describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tidemark.captures.postgres.catalog.table_record import Store, TableRecord
from tidemark.captures.tables.bad_values import Policy

Kind = Literal["base", "domain", "enum", "array", "composite", "range", "other"]


class Attribute(NamedTuple):
    """One field of a composite type."""

    name: str
    type: ColumnType


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A type as a column declares it.

    Attributes:
        oid: pg_type.oid. Those of built-in types are the same on every server.
        typmod: The type's modifier (length, precision); -1 without one.
        name: The output of ``format_type``, such as ``numeric(10,2)[]``.
        kind: ``range`` includes multiranges; ``other`` is a type that was dropped.
        element: The type of an array's elements, or of a range's bounds.
        base: The type that a domain is based on.
        labels: The labels of an enum, in its order.
        delimiter: The delimiter between elements of this type in an array: a comma, for box a semicolon.
        dimensions: The declared dimensions of an array, at least 1. The server accepts values with others.
        fields: The attributes of a composite type, in its order.
        extension: The extension that the type belongs to; empty without one.
    """

    oid: int
    typmod: int
    name: str
    kind: Kind
    element: ColumnType | None = None
    base: ColumnType | None = None
    labels: tuple[str, ...] = ()
    delimiter: str = ","
    dimensions: int = 0
    fields: tuple[Attribute, ...] = ()
    extension: str = ""

    @property
    def beneath(self) -> ColumnType:
        """The type beneath all domains, by which the server shows values; the type itself if it is no domain."""
        found = self
        while found.base is not None:
            found = found.base
        return found


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        generated: pg_attribute.attgenerated: empty, ``s`` for stored, ``v`` for virtual.
        salt: Documents have hashes with this salt instead of the values; empty if they have the values.
        on_bad_value: The policy for bad values.
        definition: ``ColumnRecord.definition``; empty where the log shows another column than the catalog.
        number: pg_attribute.attnum, the column's identity; 0 where it is not known.
        fill: JSON of the value of all rows from before the column was added, of a column that is newer than the table's
            fingerprint; empty if that is NULL, or is not known.
        transcoded: Texts come through a ``tidemark.captures.postgres.catalog.encodings.Transcoder``, with its marks.
    """

    name: str
    type: ColumnType
    nullable: bool = True
    generated: str = ""
    description: str = ""
    salt: bytes = field(default=b"", repr=False)
    on_bad_value: Policy = "stop"
    definition: str = ""
    number: int = 0
    fill: str = ""
    transcoded: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """An ordinary table, a partitioned one, or a partition.

    Attributes:
        columns: All columns that are not dropped, in the table's order.
        key: The columns of the primary key, in the order of its index; else of a unique index that can be the key;
            else empty.
        key_is_fallback: The key is that of a unique index.
        replica_identity: pg_class.relreplident: ``d`` default, ``f`` full, ``i`` an index, ``n`` nothing.
        partitioned: The partitions hold the rows. ``estimated_rows`` and ``size_bytes`` are sums over them.
        description: The comment on it.
        estimated_rows: The planner's estimate; None if the table was never analyzed.
        size_bytes: The size on disk, with TOAST and without indexes.
        record: The record that was read before the columns; None if the table is not followed.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    key_is_fallback: bool
    replica_identity: str
    partitioned: bool
    description: str
    estimated_rows: int | None
    size_bytes: int
    partition: bool = False
    record: TableRecord | None = None

    @property
    def path(self) -> tuple[str, str]:
        """The resource path of a binding to the table."""
        return (self.schema, self.name)

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores of its rows; empty if the table is not followed."""
        return () if self.record is None else self.record.stores

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for people."""
        return f"{self.schema}.{self.name}"


def recorded(table: Table) -> TableRecord:
    """The record of a table that is followed."""
    assert table.record is not None
    return table.record
