"""What the log has shown of a table that its fingerprint does not have: names that may be gone at the next look.

A column that is added, used and renamed between two looks at the catalogs looks like one that was only added, and so
does a label of an enum. Rows of the log with the name in between are wrong then. So the fingerprint keeps these names
until the table is compared, also when the capture is stopped or killed in between: see ``Shown``.

Where schemas have the identities of columns, names do not matter. Then ``told`` and ``unsure`` are kept instead of
``columns``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tidemark.captures.postgres.catalog.columns import recorded
from tidemark.captures.postgres.catalog.table_record import (
    ColumnRecord,
    Partition,
    TableRecord,
    TypePart,
    digest,
)
from tidemark.captures.postgres.rows.log_decoder import Relation
from tidemark.captures.postgres.server.rewrite_trigger import Reason
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables.bound_relations import ShownPartition
from tidemark.captures.postgres.tables.noted_table import Filled, NotedTable, Pair
from tidemark.captures.postgres.tables_that_change.column_identities import noted_columns
from tidemark.captures.postgres.values.types import EnumLabels
from tidemark.captures.tables.altered_tables import AlteredTables

_TEXTS = frozenset((25, 1043))
"""text and varchar: one becomes the other without a change of any value, if the rows are not rewritten."""


class ShownNames:
    """Adds names of columns and labels of enums to the fingerprints of tables, and has these compared by ``found``."""

    def __init__(self, found: AlteredTables) -> None:
        self._found = found
        self._changed = False
        self._labels: dict[int, list[tuple[int, str]]] = {}  # By binding, those that came since they were noted.

    def rewritten(self, binding: PostgresBinding, reason: Reason) -> None:
        """Notes that the log says that an ALTER TABLE rewrote the table."""
        self._keep(binding, _with(binding.noted, rewritten=binding.noted.shown.rewritten | int(reason)))

    def note(self, binding: PostgresBinding, relation: Relation | None = None, *, sure: bool = True) -> None:
        """Notes what the bound table, or a relation of it, has and its fingerprint lacks.

        ``sure`` is whether the bound table has the numbers of the relation's columns.
        """
        noted = with_later_labels(binding.noted, recorded(binding.table))
        if relation is not None and relation.identity == "f" and not noted.full:
            noted = replace(noted, full=True)
        if binding.identified:
            bound = [column for column in binding.table.columns if column.number and not column.generated]
            told = {column.number: (binding.handling(column.name), column.type.oid) for column in bound}
            for known in noted_columns(noted):
                before = (binding.handling(known.name), known.type)
                sure &= same_told(before, told.get(known.number, before))
            sure &= not any(told_otherwise(noted, number, now) for number, now in told.items())
            new = {str(number): each for number, each in told.items() if str(number) not in noted.columns}
            noted = _with(noted, told={**new, **noted.shown.told}, unsure=noted.shown.unsure or not sure)
            shown = [(column.number, column.name, column.type.oid) for column in bound]
            if shown != [(known.number, known.name, known.type) for known in noted_columns(noted)]:
                self._found.add(binding.index)
        else:
            columns = [column for column in recorded(binding.table).columns if not column.generated]
            noted = with_columns(noted, [(column.name, column.type) for column in columns])
            if relation is not None:
                noted = with_columns(noted, [(column.name, column.type_oid) for column in relation.columns])
        self._keep(binding, noted)

    def truncated(self, binding: PostgresBinding, transaction: int) -> None:
        """Notes the last transaction that has a TRUNCATE of the table."""
        self._keep(binding, _with(binding.noted, truncated=str(transaction), filled={}))

    def filled(self, binding: PostgresBinding, oid: int, transaction: int) -> None:
        """Notes that the log shows a partition before rows of it that a transaction wrote: see ``Filled``."""
        noted, number, now = binding.noted, str(oid), str(transaction)
        filled = noted.shown.filled
        if now == noted.shown.truncated or number in filled or number not in (noted.partitions or ()):
            known = filled.get(number, Filled(now))
            more = known._replace(times=known.times + 1) if known.transaction == now else known._replace(later=True)
            self._keep(binding, _with(noted, filled=filled | {number: more}))

    def labels(self, binding: PostgresBinding) -> EnumLabels:
        """Collects the labels that the rows of a new decoder have and the fingerprint lacks."""

        def show(oid: int, label: str) -> None:
            self._labels.setdefault(binding.index, []).append((oid, label))

        return EnumLabels(known_labels(binding.noted, recorded(binding.table)), show)

    def noted(self, bindings: Sequence[PostgresBinding], partitions: Iterable[ShownPartition] = ()) -> bool:
        """Notes partitions, and the labels that were collected. Returns whether fingerprints changed since this was
        called last.
        """
        for index, oid, transaction, name in partitions:
            if index is not None and str(oid) not in (bindings[index].noted.partitions or ()):
                noted, first = bindings[index].noted, {str(oid): Partition(str(transaction), name)}
                self._keep(bindings[index], _with(noted, partitions=first | noted.shown.partitions))
            for binding in bindings:
                if binding.noted.oid == oid:
                    self._keep(binding, _with(binding.noted, elsewhere=True))
        for index, labels in self._labels.items():
            self._keep(bindings[index], with_labels(bindings[index].noted, labels))
        self._labels.clear()
        changed, self._changed = self._changed, False
        return changed

    def _keep(self, binding: PostgresBinding, noted: NotedTable) -> None:
        if noted is not binding.noted:
            binding.noted = noted
            self._found.add(binding.index)
            self._changed = True


def with_labels(noted: NotedTable, labels: Iterable[tuple[int, str]]) -> NotedTable:
    """The fingerprint with labels that rows have, by type."""
    new = tuple(label for label in sorted(labels) if label not in noted.shown.labels)
    return _with(noted, labels=(*noted.shown.labels, *new))


def with_columns(noted: NotedTable, columns: Iterable[tuple[str, int]]) -> NotedTable:
    """The fingerprint with a Relation message, by the names and types of its columns."""
    known = {(column.name, column.type) for column in noted.columns.values()}
    others = tuple(column for column in columns if column not in known)
    new = () if not others or others in noted.shown.columns else (others,)
    return _with(noted, columns=(*noted.shown.columns, *new))


def told_otherwise(noted: NotedTable, number: int, now: Pair) -> bool:
    """Whether values of a new column were handled in another way, or had another type, for a while."""
    return not same_told(noted.shown.told.get(str(number), now), now)


def with_later_labels(noted: NotedTable, record: TableRecord) -> NotedTable:
    """The fingerprint with the labels that only a later record has: chunks may read rows with these."""
    known = known_labels(noted, record)
    later = {(part.oid, label) for part in _enums(record.columns) for label in _labels(part.parts) - known[part.oid]}
    return with_labels(noted, later)


def known_labels(noted: NotedTable, record: TableRecord) -> dict[int, frozenset[str]]:
    """The labels that the fingerprint stands for, by the oid of the enum, of all enums of a record."""
    tokens = {oid: token for column in noted.columns.values() for oid, token in column.types}
    return {part.oid: _known(tokens.get(part.oid), part) for part in _enums(record.columns)}


def labels_are_gone(noted: NotedTable, part: TypePart) -> bool:
    """Whether rows have labels that the enum no longer has: they were renamed."""
    now = _labels(part.parts)
    return any(oid == part.oid and label not in now for oid, label in noted.shown.labels)


def shown_otherwise(noted: NotedTable, record: TableRecord) -> bool:
    """Whether the log had other columns than those that the table has, perhaps under the same names."""
    shown = noted.shown.columns
    now = [(column.name, column.type) for column in record.columns]
    if any(not any(same_told(each, pair) for each in now) for pairs in shown for pair in pairs):
        return True
    added = [column for column in record.columns if str(column.number) not in noted.columns]
    if not shown or not added:
        return False
    first = (added[0].number - 1 if noted.attributes is None else noted.attributes) + 1
    if [column.number for column in added] != list(range(first, first + len(added))):
        return True
    new = [(column.name, column.type) for column in added if not column.generated]
    return any(not all(map(same_told, pairs, new)) or len(pairs) > len(new) for pairs in shown)


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


def _labels(parts: Collection[str]) -> frozenset[str]:
    """The labels of an enum."""
    return frozenset(label.rpartition(" ")[0] for label in parts)  # The transaction that wrote it follows.


def _known(known: str | None, part: TypePart) -> frozenset[str]:
    if known is None or not only_added(known, part.parts):
        return frozenset()
    return _labels(part.parts[: int(known.partition(" ")[0])])


def _enums(columns: Iterable[ColumnRecord]) -> Iterable[TypePart]:
    return (part for column in columns for part in column.types if part.kind == "e")


def _with(noted: NotedTable, **members: Any) -> NotedTable:
    """The fingerprint with other members of ``Shown``; itself if they are the same."""
    shown = replace(noted.shown, **members)
    return noted if shown == noted.shown else replace(noted, shown=shown)
