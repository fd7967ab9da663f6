"""Which collection a table's name means, and which columns a reader of it sees."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tidemark.protocol.changelog import ChangeLog, KnownGeneration, Summary, TableSchema
from tidemark.protocol.changelog.evolution import widens
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.errors import SparkError
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
            "TM-SPK-004", f"{table} is ambiguous in {log.root}: {', '.join(matches)}", remedy="Write it with a slash."
        )
    near = difflib.get_close_matches(table, [dotted(name) for name in known], n=3)
    hint = f"; similar names: {', '.join(near)}" if near else f"; it has {len(known)} tables"
    raise SparkError(
        "TM-SPK-004", f"{log.root} has no events of table {table} up to offset {summary.next_offset}{hint}"
    )


def generation_of(summary: Summary, collection: str) -> KnownGeneration:
    """The generation of a collection whose rows are shown."""
    shown = summary.shown(collection)
    assert shown is not None, "a collection with totals has a generation"
    return shown


def schemas_of(summary: Summary, generation: KnownGeneration) -> list[TableSchema]:
    """The schemas of a generation's events, from the oldest to the newest; that of the collection where it has none."""
    known = generation.fingerprints or [summary.totals[generation.collection].fingerprint]
    return [summary.schemas[fingerprint] for fingerprint in known]


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

    Those of a table with names that no file can have, or that differ only in case, are whole documents.

    Raises:
        SparkError: ``TM-SPK-011``.
    """
    for schema in schemas:
        if not own_columns(schema).keys() >= set(key):
            raise SparkError(
                "TM-SPK-011",
                f"{dotted(schema.collection)} has events without the columns of its key ({', '.join(key)}), as whole "
                "documents: names of its columns differ only in case, are those of the change log, or cannot be a name "
                "in a file",
            )


def own_columns(schema: TableSchema) -> dict[str, str]:
    """The table's own columns."""
    return {column.name: column.type for column in schema.columns}


def event_columns(own: Columns) -> dict[str, str]:
    """The columns of a table's events: its own, then those that every event has."""
    return {**own, **META_COLUMNS}


def check_readable(schema: TableSchema, columns: Columns) -> None:
    """Makes sure that events stored under a schema can be read as ``columns``.

    Raises:
        SparkError: ``TM-SPK-005`` naming the column and both types.
    """
    for name, stored in own_columns(schema).items():
        wanted = columns.get(name, stored)
        if not widens(stored, wanted):
            raise SparkError(
                "TM-SPK-005",
                f"column {name} of {dotted(schema.collection)} is stored as {stored} in a part of the log "
                f"and cannot be read as {wanted}",
            )


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
