"""What the log has shown of a table that its fingerprint does not have: names that may be gone at the next look.

A column that is added, used and renamed between two looks at the catalogs looks like one that was only added, and so
does a label of an enum. Rows of the log with the name in between are wrong then. So the fingerprint keeps these names
until the table is compared, also when the capture is stopped or killed in between::

    "shown": {"labels": [[16410, "low"]],                  by type
              "columns": [[["price", 23], ["note", 25]]],  of each Relation message, by name and type
              "told": {"4": ["stop", 25]},                 new columns, by number: how handled, and the type
              "unsure": true,                              it is not known which columns rows of the log have
              "truncated": "751",                          the last transaction that has a TRUNCATE
              "partitions": {"16430": ["751", "public.t_9"]}}    new ones with rows: first transaction, name

Where schemas have the identities of columns, names do not matter. Then the last two are kept instead of ``columns``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from tidemark.captures.postgres.tables.record.table_record import ColumnRecord, TableRecord, TypePart, digest
from tidemark.protocol.messages import JsonObject

_TEXTS = frozenset((25, 1043))
"""text and varchar: one becomes the other without a change of any value, if the rows are not rewritten."""

Pair = list[Any]
"""A column's name, or how its values are handled, and the oid of its type."""


def with_labels(noted: JsonObject, labels: Iterable[tuple[int, str]]) -> JsonObject:
    """The fingerprint with labels that rows have, by type."""
    return _with(noted, "labels", [list(label) for label in sorted(labels)])


def with_columns(noted: JsonObject, columns: Iterable[tuple[str, int]]) -> JsonObject:
    """The fingerprint with a Relation message, by the names and types of its columns."""
    known = {(column[0], column[1]) for column in noted["columns"].values()}
    others = [list(column) for column in columns if column not in known]
    return _with(noted, "columns", [others]) if others else noted


def with_told(noted: JsonObject, told_now: Mapping[int, Pair], *, sure: bool) -> JsonObject:
    """The fingerprint with columns whose identities were told.

    Args:
        told_now: How the values of each column are handled, and the oid of its type, by number.
        sure: All of them were told, and rightly.
    """
    shown = noted.get("shown", {})
    told = {str(number): list(each) for number, each in told_now.items() if str(number) not in noted["columns"]}
    new: JsonObject = {"told": {**told, **shown.get("told", {})}} if told.keys() - shown.get("told", {}).keys() else {}
    if not sure and not is_unsure(noted):
        new["unsure"] = True
    return {**noted, "shown": {**shown, **new}} if new else noted


def with_truncation(noted: JsonObject, transaction: int) -> JsonObject:
    """The fingerprint with a transaction that has a TRUNCATE of the table."""
    return {**noted, "shown": {**noted.get("shown", {}), "truncated": str(transaction)}}


def truncation(noted: JsonObject) -> str | None:
    """The last transaction that has a TRUNCATE of the table; None if the log has had none since then."""
    found: str | None = noted.get("shown", {}).get("truncated")
    return found


def with_partition(noted: JsonObject, oid: int, transaction: int, name: str) -> JsonObject:
    """The fingerprint with a partition whose rows the log has had since the transaction."""
    if str(oid) in (noted.get("partitions") or {}) or str(oid) in (known := shown_partitions(noted)):
        return noted
    return {**noted, "shown": {**noted.get("shown", {}), "partitions": {**known, str(oid): [str(transaction), name]}}}


def shown_partitions(noted: JsonObject) -> dict[str, list[str]]:
    """The partitions that only the log has shown, by oid: the first transaction with rows of it, and its name."""
    partitions: dict[str, list[str]] = noted.get("shown", {}).get("partitions", {})
    return partitions


def is_unsure(noted: JsonObject) -> bool:
    """Whether the log has had rows of which it is not known which columns they have."""
    return bool(noted.get("shown", {}).get("unsure"))


def told_otherwise(noted: JsonObject, number: int, now: Pair) -> bool:
    """Whether values of a new column were handled in another way, or had another type, for a while."""
    told = noted.get("shown", {}).get("told", {}).get(str(number), now)
    return not same_told(told, now)


def with_later_labels(noted: JsonObject, record: TableRecord) -> JsonObject:
    """The fingerprint with the labels that only a later record has: chunks may read rows with these."""
    known = known_labels(noted, record)
    later = {(part.oid, label) for part in _enums(record.columns) for label in labels_of(part) - known[part.oid]}
    return with_labels(noted, later)


def with_later_columns(noted: JsonObject, record: TableRecord) -> JsonObject:
    """The same of columns."""
    return with_columns(noted, [(column.name, column.type) for column in record.columns if not column.generated])


def known_labels(noted: JsonObject, record: TableRecord) -> dict[int, frozenset[str]]:
    """The labels that the fingerprint stands for, by the oid of the enum, of all enums of a record."""
    tokens = {oid: token for column in noted["columns"].values() for oid, token in column[5]}
    return {part.oid: _known(tokens.get(part.oid), part) for part in _enums(record.columns)}


def labels_are_gone(noted: JsonObject, part: TypePart) -> bool:
    """Whether rows have labels that the enum no longer has: they were renamed."""
    now = labels_of(part)
    return any(oid == part.oid and label not in now for oid, label in noted.get("shown", {}).get("labels", ()))


def columns_are_gone(noted: JsonObject, columns: Sequence[ColumnRecord]) -> bool:
    """Whether the log had a column that the table no longer has: it was renamed, dropped, or got a type."""
    now = [[column.name, column.type] for column in columns]
    return any(not _has(now, pair) for pairs in _shown(noted) for pair in pairs)


def added_otherwise(noted: JsonObject, record: TableRecord) -> bool:
    """Whether the log had other new columns than those that the table has, perhaps under the same names."""
    shown = _shown(noted)
    added = [column for column in record.columns if str(column.number) not in noted["columns"]]
    if not shown or not added:
        return False
    first = noted.get("attributes", added[0].number - 1) + 1
    if [column.number for column in added] != list(range(first, first + len(added))):
        return True
    now = [[column.name, column.type] for column in added if not column.generated]
    return any(not all(map(same_told, pairs, now)) or len(pairs) > len(now) for pairs in shown)


def token(parts: Sequence[str]) -> str:
    """What a fingerprint keeps of the labels of an enum, or of the attributes of a composite type."""
    return f"{len(parts)} {digest(tuple(parts))}"


def only_added(known: str, parts: Sequence[str]) -> bool:
    """Whether the labels begin with those that a token stands for."""
    return known == token(parts[: int(known.partition(" ")[0])])


def same_type(one: int, other: int) -> bool:
    """Whether values of one type are the same as values of the other, if the rows were not rewritten."""
    return one == other or {one, other} <= _TEXTS


def same_told(one: Pair, other: Pair) -> bool:
    """Whether columns are called, or handled, alike, and their values are the same, if rows were not rewritten."""
    return bool(one[0] == other[0]) and same_type(one[1], other[1])


def labels_of(part: TypePart) -> frozenset[str]:
    """The labels of an enum."""
    return _labels(part.parts)


def _labels(parts: Collection[str]) -> frozenset[str]:
    return frozenset(label.rpartition(" ")[0] for label in parts)  # The transaction that wrote it follows.


def _known(known: str | None, part: TypePart) -> frozenset[str]:
    if known is None or not only_added(known, part.parts):
        return frozenset()
    return _labels(part.parts[: int(known.partition(" ")[0])])


def _enums(columns: Iterable[ColumnRecord]) -> Iterable[TypePart]:
    return (part for column in columns for part in column.types if part.kind == "e")


def _shown(noted: JsonObject) -> list[list[Pair]]:
    columns: list[list[Pair]] = noted.get("shown", {}).get("columns", [])
    return columns


def _has(pairs: Iterable[Pair], wanted: Pair) -> bool:
    return any(same_told(pair, wanted) for pair in pairs)


def _with(noted: JsonObject, name: str, found: list[Any]) -> JsonObject:
    shown = noted.get("shown", {})
    known = shown.get(name, [])
    if not (new := [each for each in found if each not in known]):
        return noted
    return {**noted, "shown": {**shown, name: [*known, *new]}}
