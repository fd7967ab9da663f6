"""The fingerprint: what the state keeps of a table's record, and the comparison of a later record with it.

::

    {"oid": 16402, "key": ["id"],          the table and its key
     "entry": "table 16410",               the entry of the publication
     "options": "8f3e…",                   of the publication
     "files": {"16402": 16420},            see TableRecord.files
     "since": "745",                       every transaction below it had ended
     "readable": true,
     "partitions": {"16424": ["740", "public.t_1"]},  see TableRecord.partitions
     "attributes": 3,                      see TableRecord.attributes
     "identified": true,                   schemas have always had the columns' identities
     "columns": {"1": ["id", 23, -1, "", "740", []]}}     by number: name, type, modifier, mark, written, types,
                                                          and in the key collation

``tidemark.captures.postgres.tables.record.shown_changes`` adds what the log has shown since then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from tidemark.captures.contract.table_changes import Cause, Consequence, TableChange, decided
from tidemark.captures.postgres.config import ResourceConfig
from tidemark.captures.postgres.tables.record import table_changes as changes
from tidemark.captures.postgres.tables.record.shown_changes import (
    added_otherwise,
    columns_are_gone,
    is_unsure,
    labels_are_gone,
    only_added,
    same_type,
    shown_partitions,
    token,
    told_otherwise,
)
from tidemark.captures.postgres.tables.record.table_record import ColumnRecord, Store, TableRecord
from tidemark.protocol.messages import JsonObject

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
) -> JsonObject:
    """What the state keeps of a record.

    Args:
        key: The binding's key.
        since: The lower bound of running transactions, from a snapshot that is not younger than the record.
        identified: See ``tidemark.captures.postgres.tables.bindings.PostgresBinding``.
    """
    publication = record.publication
    made: JsonObject = {
        "oid": record.oid,
        "key": list(key),
        "files": record.files,
        "since": since,
        "readable": record.readable and not record.hidden,
        "attributes": record.attributes,
        "columns": {str(column.number): _kept(column, resource, key) for column in record.columns},
    }
    if record.partitions is not None:
        made["partitions"] = record.partitions
    if identified:
        made["identified"] = True
    if record.entry is not None:
        made["entry"] = record.entry
    if publication is not None:
        made["options"] = publication.options
    return made


def difference(
    before: JsonObject,
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
        gone: What it is that a partition is detached or dropped.
    """
    if before["oid"] != record.oid:
        return Difference((Found(changes.MADE_AGAIN),))
    found = []
    if "entry" in before and record.entry is not None and before["entry"] != record.entry:
        found.append(Found(changes.PUBLISHED_AGAIN))
    publication = record.publication
    if "options" in before and publication is not None and before["options"] != publication.options:
        found.append(Found(changes.OPTIONS))
    if before["key"] != list(key):
        found.append(Found(changes.KEY))
    if before["readable"] and not (record.readable and not record.hidden):
        found.append(Found(changes.PRIVILEGES))
    joined, of_partitions = _of_partitions(before, record, gone)
    found += of_partitions
    rewritten = [store for store in record.rewritten(before["files"]) if store not in joined]
    of_columns = _of_columns(before, record, resource, key, handling, rewritten=bool(rewritten))
    of_values = [each for each in of_columns if each.change is not changes.KEY_ORDER]
    if Consequence.EMPTIED in (_of_values(change, not set(key).isdisjoint(columns)) for change, columns in of_values):
        found.append(Found(changes.KEY_VALUES))
    found += of_columns
    return Difference(tuple(found), tuple(rewritten), tuple(joined))


def _of_values(change: TableChange, of_key: bool) -> Consequence:
    """The consequence of a change of columns, in the key or elsewhere."""
    return decided(keeps_values=change.consequence < Consequence.READ_AGAIN, of_key=of_key, rows_may_be_gone=False)


def _of_partitions(noted: JsonObject, record: TableRecord, gone: TableChange) -> tuple[list[Store], list[Found]]:
    """The partitions that are new, and the changes of the others."""
    before, now = noted.get("partitions"), record.partitions
    if before is None or now is None:
        return [], []
    found = []
    shown = shown_partitions(noted)
    back = [name for oid, (joined, name) in now.items() if _joined_again(joined, before.get(oid), shown.get(oid))]
    if back:
        found.append(Found(changes.PARTITION_BACK, tuple(back)))
    known = shown | before
    if left := [_name(oid, known[oid]) for oid in sorted(known.keys() - now.keys(), key=int)]:
        found.append(Found(gone, tuple(left)))
    return [store for store in record.stores if str(store.oid) in now.keys() - before.keys()], found


def _joined_again(joined: str, before: list[str] | str | None, shown: list[str] | None) -> bool:
    """Whether a partition left the table in between: it is as it was before, or the log has had rows of it already."""
    if before is not None:
        return joined != (before if isinstance(before, str) else before[0])
    return shown is not None and any(_is_later(each, shown[0]) for each in joined.split())


def _is_later(one: str, other: str) -> bool:
    """Whether a transaction has a later id than another one, in the order that goes round after 32 bits."""
    return 0 < (int(one) - int(other)) % (1 << 32) < 1 << 31


def _name(oid: str, known: list[str] | str) -> str:
    """The name of a partition in a fingerprint; earlier versions kept none."""
    return f"the one with oid {oid}" if isinstance(known, str) else known[1]


def _of_columns(
    noted: JsonObject,
    record: TableRecord,
    resource: ResourceConfig,
    key: Sequence[str],
    handling: Handling | None,
    *,
    rewritten: bool,
) -> list[Found]:
    """The changes of columns, with each change's columns in the table's order."""
    by_change: dict[TableChange, list[str]] = {}
    before: dict[str, list[Any]] = noted["columns"]
    gone, otherwise = columns_are_gone(noted, record.columns), added_otherwise(noted, record)
    unsure = handling is not None and is_unsure(noted)
    followed = None if unsure else handling
    names = {known[0] for known in before.values() if known[3] not in ("excluded", "generated")}
    for column in record.columns:
        if _mark(column, resource) in ("excluded", "generated"):
            continue
        known = before.get(str(column.number))
        in_key = column.name in key or (known is not None and known[0] in noted["key"])
        if known is None:
            if followed is not None and not in_key:
                found = list(_added_as_told(noted, record, column, followed))
            else:
                found = list(_added(column, again=column.name in names, rewritten=rewritten))
            if otherwise:
                found.append(changes.COLUMN_RENAMED)
        else:
            found = list(_altered(known, column, resource, None if in_key else followed, rewritten=rewritten))
            if gone and not found and known[4] != column.written:
                found.append(changes.COLUMN_RENAMED)  # And renamed back.
        if unsure and (known is None or _is_touched(known, column)):
            found.append(changes.COLUMN_RENAMED)
        found += _of_types(noted, known, column)
        for change in dict.fromkeys(found):
            by_change.setdefault(change, []).append(column.name)
    return [Found(change, tuple(columns)) for change, columns in by_change.items()]


def _is_touched(known: list[Any], column: ColumnRecord) -> bool:
    """Whether a column may have had another name for a while."""
    return [*known[:3], known[4]] != [column.name, column.type, column.typmod, column.written]


def _added(column: ColumnRecord, *, again: bool, rewritten: bool) -> Iterable[TableChange]:
    if again:
        yield changes.COLUMN_MADE_AGAIN
    # After a rewrite the rows hold the column's values, and the catalog no longer shows that there were some.
    elif column.filled or rewritten:
        yield changes.COLUMN_FILLED


def _added_as_told(
    noted: JsonObject, record: TableRecord, column: ColumnRecord, handling: Handling
) -> Iterable[TableChange]:
    """Of a column with an identity: no value of another one, whatever it was called, counts as its own."""
    if told_otherwise(noted, column.number, [handling(column.name), column.type]):
        yield changes.COLUMN_RENAMED
    # After a rewrite the catalog no longer shows what there was, nor do types which values there were in between.
    elif record.rewritten(noted["files"]) or (column.filled and not column.constant):
        yield changes.COLUMN_FILLED


def _altered(
    known: list[Any], column: ColumnRecord, resource: ResourceConfig, handling: Handling | None, *, rewritten: bool
) -> Iterable[TableChange]:
    name, type_oid, _, mark, written, _, *order = known
    if order and order != [column.collation]:
        yield changes.KEY_ORDER
    if mark == "generated":
        yield changes.EXPRESSION_DROPPED
    elif mark != _mark(column, resource):
        yield changes.INCLUDED
    if name != column.name and (handling is None or handling(name) != handling(column.name)):
        yield changes.COLUMN_RENAMED
    if not same_type(type_oid, column.type) or (rewritten and written != column.written):
        yield changes.COLUMN_WRITTEN


def _of_types(noted: JsonObject, known: list[Any] | None, column: ColumnRecord) -> Iterable[TableChange]:
    """The changes of types. ``known`` is None for a column that the fingerprint does not have."""
    before = dict(known[5]) if known is not None and known[1] == column.type else {}
    for part in column.types:
        if part.kind == "e" and labels_are_gone(noted, part):
            yield changes.LABELS_RENAMED
            continue
        was = before.get(part.oid)
        if was is None or was == token(part.parts):
            continue
        if part.kind != "e":
            yield changes.ATTRIBUTES
        elif not only_added(was, part.parts):
            yield changes.LABELS_RENAMED


def _kept(column: ColumnRecord, resource: ResourceConfig, key: Sequence[str]) -> list[Any]:
    types = [[part.oid, token(part.parts)] for part in column.types if part.parts]
    order = [column.collation] if column.collation and column.name in key else []
    return [column.name, column.type, column.typmod, _mark(column, resource), column.written, types, *order]


def _mark(column: ColumnRecord, resource: ResourceConfig) -> str:
    """What documents have of the column."""
    if column.generated:
        return "generated"
    if column.name in resource.exclude:
        return "excluded"
    return "hashed" if column.name in resource.hash else ""
