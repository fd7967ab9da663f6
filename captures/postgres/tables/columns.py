"""Tables, columns and types as the catalog describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from captures.postgres.tables.table_record import TableRecord
from captures.tables.bad_values import Policy

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
        typmod: The type's modifier (length, precision), -1 when there is none.
        name: What ``format_type`` prints, such as ``numeric(10,2)[]``.
        kind: ``range`` stands for multiranges too; ``other`` for types that are not there any more.
        element: Of an array its elements' type, of a range its bounds'.
        base: Of a domain the type beneath.
        labels: Of an enum, in its order.
        delimiter: Between elements when this type stands in an array: a comma, for box a semicolon.
        dimensions: Of an array, as declared, at least 1. The server does not hold values to it.
        fields: Of a composite, in its order.
        extension: The extension that the type belongs to, empty when none.
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


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: Case kept.
        nullable: It has no NOT NULL constraint.
        generated: pg_attribute.attgenerated: empty, ``s`` for stored, ``v`` for virtual.
        description: The comment on it.
        salt: Documents have not its values, but their hashes with this salt. Empty for the values themselves.
        on_bad_value: What is done with a value that has no place in a document.
        definition: ``ColumnRecord.definition``; empty where the log shows another column than the catalog.
        transcoded: Texts come through a ``captures.postgres.values.encodings.Transcoder``, with its marks.
    """

    name: str
    type: ColumnType
    nullable: bool = True
    generated: str = ""
    description: str = ""
    salt: bytes = field(default=b"", repr=False)
    on_bad_value: Policy = "stop"
    definition: str = ""
    transcoded: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """An ordinary table, a partitioned one, or a partition.

    Attributes:
        columns: In the table's order, without dropped ones.
        key: The primary key in index order; else the columns of a unique index that is a key all the same; else empty.
        key_is_fallback: The key is such an index's.
        replica_identity: pg_class.relreplident: ``d`` default, ``f`` full, ``i`` an index, ``n`` nothing.
        partitioned: It holds no rows itself; its partitions do, and the figures below are their sums.
        partition: It is a part of a partitioned table.
        description: The comment on it.
        estimated_rows: The planner's count, None while the table was never analyzed.
        size_bytes: On disk, with TOAST, without indexes.
        record: What it was read with; None if the table is not followed.
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
    def qualified_name(self) -> str:
        """``schema.table``, for people."""
        return f"{self.schema}.{self.name}"
