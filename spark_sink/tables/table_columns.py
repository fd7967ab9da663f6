"""Which collection a table's name means, and which columns a reader of it sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemark.protocol.changelog import ChangeLog, Summary, TableSchema
from tidemark.protocol.changelog.columns.evolution import widens
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.errors import SparkError
from tidemark.protocol.text.nearest_names import near
from tidemark.spark_sink.tables.column_types import Columns

ROW_META = {name: META_COLUMNS[name] for name in ("_offset", "_commit_ts")}
"""What a row of a ``current`` table has besides the table's own columns: of the key's last change."""

EVENT_META = {name: META_COLUMNS[name] for name in ("_op", "_unchanged")}
"""What is needed of an event, besides the columns of a row, to know which row it leaves."""


def dotted(collection: str) -> str:
    """A collection's name as SQL writes a table's: ``public/orders`` is ``public.orders``."""
    return collection.replace("/", ".")


def find_collection(log: ChangeLog, summary: Summary, table: str) -> str:
    """The collection that ``schema.table`` or ``schema/table`` names.

    Raises:
        SparkError: ``TM-SPK-004`` when the log holds no such table, or two.
    """
    known = summary.totals
    if table in known:
        return table
    matches = [name for name in known if dotted(name) == table]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise SparkError(
            "TM-SPK-004",
            f"{table} is ambiguous in {log.store.place}: {', '.join(matches)}",
            remedy="Write it with a slash.",
        )
    hint = near(table, [dotted(name) for name in known])
    raise SparkError(
        "TM-SPK-004", f"{log.store.place} has no events of table {table} up to offset {summary.next_offset}{hint}"
    )


def key_of(schemas: Sequence[TableSchema]) -> tuple[str, ...]:
    """Names of the columns of a generation's key; empty when its newest schema has none.

    Args:
        schemas: Of its events, from the oldest to the newest.

    Raises:
        SparkError: ``TM-SPK-012`` for more than one key: the log is of a version without generations.
    """
    keys = {frozenset(schema.key): ", ".join(schema.key) for schema in schemas if schema.key}
    if len(keys) > 1:
        table = dotted(schemas[-1].collection)
        raise SparkError("TM-SPK-012", f"the key of {table} has changed: ({'), ('.join(keys.values())})")
    return tuple(schemas[-1].key)


def check_keyed(key: Sequence[str], schemas: Iterable[TableSchema]) -> None:
    """Makes sure that events stored under these schemas say whose row they are of.

    Those of a table with names that no file can have are whole documents in logs of version 2.

    Raises:
        SparkError: ``TM-SPK-011``.
    """
    for schema in schemas:
        if not own_columns(schema).keys() >= set(key):
            raise SparkError(
                "TM-SPK-011",
                f"{dotted(schema.collection)} has events without the columns of its key ({', '.join(key)}), as whole "
                "documents",
            )


def own_columns(schema: TableSchema) -> dict[str, str]:
    """The table's own columns."""
    return {column.name: column.type for column in schema.columns}


def spanned(schema: TableSchema) -> TableSchema:
    """A schema with the names that its columns have where events of several generations are read together."""
    return schema.model_copy(
        update={
            "columns": [
                column.model_copy(update={"name": column.in_span, "source": column.in_source})
                for column in schema.columns
            ]
        }
    )


def read_as(schema: TableSchema, columns: Columns) -> dict[str, str]:
    """The columns that a reader of ``columns`` takes from a segment, and the names under which it has them.

    A column has its name over generations where the reader knows that, and its own name otherwise.
    """
    found = {}
    for column in schema.columns:
        name = column.spanning if column.spanning in columns else column.name
        if name is not None and name in columns:
            found[column.name] = name
    return found


def renamed(schema: TableSchema, columns: Columns) -> tuple[tuple[str, str | None], ...]:
    """The columns of ``read_as`` that a reader has under other names."""
    return tuple((name, other) for name, other in read_as(schema, columns).items() if name != other)


def event_columns(own: Columns) -> dict[str, str]:
    """The columns of a table's events: its own, then those that every event has."""
    return {**own, **META_COLUMNS}


def check_readable(schema: TableSchema, columns: Columns, names: Mapping[str, str | None] | None = None) -> None:
    """Makes sure that events stored under a schema can be read as ``columns``.

    Args:
        schema: Of the events.
        columns: That are read.
        names: Those that stored columns have there, if identities tell and not names; None of one that is not read.

    Raises:
        SparkError: ``TM-SPK-005`` naming the column and both types.
    """
    own = own_columns(schema)
    if names is None:
        places = read_as(schema, columns)
    else:
        found = {name: names.get(name, name) for name in own}
        places = {name: other for name, other in found.items() if other is not None and other in columns}
    for name, other in places.items():
        stored, wanted = own[name], columns[other]
        if not widens(stored, wanted):
            raise SparkError(
                "TM-SPK-005",
                f"column {name} of {dotted(schema.collection)} is stored as {stored} in a part of the log "
                f"and cannot be read as {wanted}",
            )


def widened(columns: Columns, schemas: Iterable[TableSchema]) -> dict[str, str]:
    """``columns`` with the types that schemas give them, from the oldest to the newest, where those hold all values."""
    found = dict(columns)
    for schema in schemas:
        for name, stored in own_columns(schema).items():
            if name in found and widens(found[name], stored):
                found[name] = stored
    return found


def with_new_columns(columns: Columns, schemas: Iterable[TableSchema]) -> dict[str, str]:
    """``columns``, and after them those that only the schemas have, the newest schema's type first.

    Args:
        columns: What is there already.
        schemas: From the oldest to the newest.

    Raises:
        SparkError: ``TM-SPK-005`` when a column's stored type does not fit.
    """
    listed = list(schemas)
    merged = dict(columns)
    for schema in reversed(listed):
        for name, stored in own_columns(schema).items():
            merged.setdefault(name, stored)
    for schema in listed:
        check_readable(schema, merged)
    return merged
