"""Makes a table's fingerprint from its record, and compares a later record with it.

The catalogs show no statements. They show which rows of theirs were written, and whether a table is in another file. A
table is read again if it is in another file and a row of pg_attribute of a captured column was written since, and if a
column has another type. All else keeps the values of columns: docs/postgres.md has the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tidemark.captures.contract.table_changes import Cause, Consequence, TableChange, decided
from tidemark.captures.postgres.catalog.replica_identities import identified_by_all
from tidemark.captures.postgres.catalog.table_record import ColumnRecord, Partition, Store, TableRecord
from tidemark.captures.postgres.server.config import ResourceConfig
from tidemark.captures.postgres.server.rewrite_trigger import Reason
from tidemark.captures.postgres.tables.noted_table import NotedColumn, NotedTable
from tidemark.captures.postgres.tables_that_change import table_changes as changes
from tidemark.captures.postgres.tables_that_change.shown_changes import (
    labels_are_gone,
    only_added,
    same_type,
    shown_otherwise,
    token,
    told_otherwise,
)

Handling = Callable[[str], str]
"""See ``tidemark.captures.postgres.tables.bindings.PostgresBinding.handling``."""


class Found(NamedTuple):
    """A change, and the columns or partitions that it affects."""

    change: TableChange
    columns: tuple[str, ...] = ()


class Difference(NamedTuple):
    """What changed of a table.

    Attributes:
        rewritten: The stores with another file, if no change of a column explains that.
        joined: New partitions. One without rows that are older than it is no change.
        parts: Conditions in SQL for rows that the log does not have.
    """

    found: tuple[Found, ...]
    rewritten: tuple[Store, ...] = ()
    joined: tuple[Store, ...] = ()
    parts: tuple[str, ...] = ()

    @property
    def consequence(self) -> Consequence:
        return max((found.change.consequence for found in self.found), default=Consequence.NOTHING)

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Those of them that have a consequence for the rows."""
        return tuple(
            change.cause(columns, self.parts if change.consequence is Consequence.PART_READ else ())
            for change, columns in self.found
            if change.consequence > Consequence.WARNED
        )

    def with_change(self, change: TableChange, columns: Iterable[str] = ()) -> Difference:
        return self._replace(found=(*self.found, Found(change, tuple(columns))))


def fingerprint(
    record: TableRecord, resource: ResourceConfig, key: Sequence[str], since: str, *, identified: bool = False
) -> NotedTable:
    """What the state keeps of a record. ``since`` is from a snapshot that is not younger: see ``oldest_running``."""
    publication = record.publication
    return NotedTable(
        record.oid,
        tuple(key),
        record.files,
        since,
        record.readable and not record.hidden,
        record.attributes,
        {str(column.number): _kept(column, resource, key) for column in record.columns},
        record.partitions,
        identified,
        record.entry,
        None if publication is None else publication.options,
        key_numbers(record, key),
        identified_by_all(record.stores),
    )


def key_numbers(record: TableRecord, key: Sequence[str]) -> tuple[int, ...]:
    """The numbers of what keeps the key unique."""
    return tuple(unique.number for unique in record.unique if unique.columns <= set(key))


def had_no_key(before: NotedTable, unique: Sequence[int]) -> bool:
    """Whether several rows may have had the same key meanwhile. ``unique``: see ``key_numbers``."""
    return bool(before.unique) and set(before.unique).isdisjoint(unique)


def difference(
    before: NotedTable,
    record: TableRecord,
    resource: ResourceConfig,
    key: Sequence[str],
    handling: Handling | None = None,
    *,
    gone: TableChange = changes.PARTITION_GONE,
) -> Difference:
    """What changed since ``before``, a ``fingerprint`` of the table or of one that had its name.

    Args:
        handling: Where schemas have the columns' identities: how the values of a column with this name are handled.
    """
    if before.oid != record.oid:
        return Difference((Found(changes.MADE_AGAIN),))
    found = []
    came_back = before.entry is not None and record.entry is not None and before.entry != record.entry
    if came_back or before.shown.elsewhere:
        found.append(Found(changes.PUBLISHED_AGAIN))
    publication = record.publication
    if before.options is not None and publication is not None and before.options != publication.options:
        found.append(Found(changes.OPTIONS))
    # With FULL the log has updates and deletes also while there is no key, when several rows may have the same one.
    key_was_gone = resource.key is None and had_no_key(before, key_numbers(record, key))
    if before.key != tuple(key) or (key_was_gone and (before.full or identified_by_all(record.stores))):
        found.append(Found(changes.KEY))
    if before.readable and not (record.readable and not record.hidden):
        found.append(Found(changes.PRIVILEGES))
    joined, of_partitions = _of_partitions(before, record, gone)
    found += of_partitions
    rewritten = [store for store in record.rewritten(before.files) if store not in joined]
    of_columns = _of_columns(before, record, resource, key, handling, rewritten=bool(rewritten))
    for change, columns in of_columns:
        keeps_values = change.consequence < Consequence.READ_AGAIN or change is changes.KEY_ORDER
        of_key = not set(key).isdisjoint(columns)
        if decided(keeps_values=keeps_values, of_key=of_key) is Consequence.EMPTIED:
            found.append(Found(changes.KEY_VALUES))
            break
    found += of_columns
    return Difference(tuple(found), tuple(rewritten), tuple(joined))


def _of_partitions(noted: NotedTable, record: TableRecord, gone: TableChange) -> tuple[list[Store], list[Found]]:
    """The partitions that are new, and the changes of the others."""
    before, now, shown = noted.partitions, record.partitions, noted.shown.partitions
    if before is None or now is None:
        return [], []
    found = []
    back = [each.name for oid, each in now.items() if _joined_again(each.joined, before.get(oid), shown.get(oid))]
    if back:
        found.append(Found(changes.PARTITION_BACK, tuple(back)))
    known = shown | before
    if left := [known[oid].name or f"oid {oid}" for oid in sorted(known.keys() - now.keys(), key=int)]:
        found.append(Found(gone, tuple(left)))
    return [store for store in record.stores if str(store.oid) in now.keys() - before.keys()], found


def _joined_again(joined: str, before: Partition | None, shown: Partition | None) -> bool:
    """Whether a partition left the table in between: it is as it was before, or the log has had rows of it already."""
    if before is not None:
        return joined != before.joined
    return shown is not None and any(_is_later(each, shown.joined) for each in joined.split())


def _is_later(one: str, other: str) -> bool:
    """Whether a transaction has a later id than another one, in the order that goes round after 32 bits."""
    return 0 < (int(one) - int(other)) % (1 << 32) < 1 << 31


def _of_columns(
    noted: NotedTable,
    record: TableRecord,
    resource: ResourceConfig,
    key: Sequence[str],
    handling: Handling | None,
    *,
    rewritten: bool,
) -> list[Found]:
    """The changes of columns, with each change's columns in the table's order."""
    by_change: dict[TableChange, list[str]] = {}
    before = noted.columns
    unsure = shown_otherwise(noted, record) if handling is None else noted.shown.unsure
    followed = None if unsure else handling
    names = {known.name for known in before.values() if known.mark not in ("excluded", "generated")}
    for column in record.columns:
        if _mark(column, resource) in ("excluded", "generated"):
            continue
        known = before.get(str(column.number))
        in_key = column.name in key or (known is not None and known.name in noted.key)
        by_identity = None if in_key else followed
        if known is None:
            found = list(_added(noted, record, column, by_identity, again=column.name in names, rewritten=rewritten))
        else:
            found = list(_altered(known, column, resource, by_identity))
            found += _written(noted, known, column, rewritten=rewritten)
        if unsure and (known is None or _is_touched(known, column)):
            found.append(changes.COLUMN_RENAMED)
        found += _of_types(noted, known, column)
        for change in dict.fromkeys(found):
            by_change.setdefault(change, []).append(column.name)
    return [Found(change, tuple(columns)) for change, columns in by_change.items()]


def _is_touched(known: NotedColumn, column: ColumnRecord) -> bool:
    """Whether a column may have had another name for a while."""
    before = known.name, known.type, known.typmod, known.written
    return before != (column.name, column.type, column.typmod, column.written)


def _added(
    noted: NotedTable,
    record: TableRecord,
    column: ColumnRecord,
    handling: Handling | None,
    *,
    again: bool,
    rewritten: bool,
) -> Iterable[TableChange]:
    if handling is None:
        if again:
            yield changes.COLUMN_MADE_AGAIN
        # After a rewrite the rows hold the column's values, and the catalog no longer shows that there were some.
        elif column.filled or rewritten:
            yield changes.COLUMN_FILLED
    # With an identity no value of another column, whatever it was called, counts as its own.
    elif told_otherwise(noted, column.number, (handling(column.name), column.type)):
        yield changes.COLUMN_RENAMED
    # Nor do types show after a rewrite which values there were in between.
    elif record.rewritten(noted.files) or (column.filled and not column.constant):
        yield changes.COLUMN_FILLED


def _altered(
    known: NotedColumn, column: ColumnRecord, resource: ResourceConfig, handling: Handling | None
) -> Iterable[TableChange]:
    if known.collation not in (0, column.collation):
        yield changes.KEY_ORDER
    if known.mark == "generated":
        yield changes.EXPRESSION_DROPPED
    elif known.mark != _mark(column, resource):
        yield changes.INCLUDED
    if known.name != column.name and (handling is None or handling(known.name) != handling(column.name)):
        yield changes.COLUMN_RENAMED


def _written(noted: NotedTable, known: NotedColumn, column: ColumnRecord, *, rewritten: bool) -> Iterable[TableChange]:
    """The change of a column's values in rows that were there."""
    if rewritten and known.written != column.written:
        yield changes.COLUMN_REWRITTEN if noted.shown.rewritten & Reason.COLUMN else changes.COLUMN_WRITTEN
    elif not same_type(known.type, column.type):
        yield changes.COLUMN_WRITTEN


def _of_types(noted: NotedTable, known: NotedColumn | None, column: ColumnRecord) -> Iterable[TableChange]:
    """The changes of types. ``known`` is None for a column that the fingerprint does not have."""
    before = dict(known.types) if known is not None and known.type == column.type else {}
    in_ranges = any(part.kind in ("r", "m") for part in column.types)  # It is not noted which labels these show.
    for part in column.types:
        if part.kind == "e" and labels_are_gone(noted, part):
            yield changes.LABELS_RENAMED
            continue
        was = before.get(part.oid)
        if was is None or was == token(part.parts):
            continue
        if part.kind != "e":
            yield changes.ATTRIBUTES
        elif in_ranges or not only_added(was, part.parts):
            yield changes.LABELS_RENAMED


def _kept(column: ColumnRecord, resource: ResourceConfig, key: Sequence[str]) -> NotedColumn:
    types = tuple((part.oid, token(part.parts)) for part in column.types if part.parts)
    collation = column.collation if column.name in key else 0
    mark = _mark(column, resource)
    return NotedColumn(column.name, column.type, column.typmod, mark, column.written, types, collation)


def _mark(column: ColumnRecord, resource: ResourceConfig) -> str:
    """What documents have of the column."""
    if column.generated:
        return "generated"
    if column.name in resource.exclude:
        return "excluded"
    return "hashed" if column.name in resource.hash else ""
