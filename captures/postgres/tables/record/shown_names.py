"""Notes what the log shows of tables between two looks at the catalogs.

See ``tidemark.captures.postgres.tables.record.shown_changes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.captures.postgres.log.schema_drift import AlteredTables
from tidemark.captures.postgres.rows.log_decoder import Relation
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables.noted_table import NotedTable
from tidemark.captures.postgres.tables.record.column_identities import noted_columns
from tidemark.captures.postgres.tables.record.comparison import recorded
from tidemark.captures.postgres.tables.record.shown_changes import (
    known_labels,
    same_told,
    told_otherwise,
    with_columns,
    with_labels,
    with_later_columns,
    with_later_labels,
    with_partition,
    with_told,
    with_truncation,
)
from tidemark.captures.postgres.tables.table_contract import ShownPartition
from tidemark.captures.postgres.values.enum_labels import EnumLabels


class ShownNames:
    """Adds names of columns and labels of enums to the fingerprints of tables.

    Args:
        found: Is told of the tables, so that they are compared.
    """

    def __init__(self, found: AlteredTables) -> None:
        self._found = found
        self._changed = False
        self._labels: dict[int, list[tuple[int, str]]] = {}  # By binding, those that came since they were noted.

    def note(self, binding: PostgresBinding, relation: Relation | None = None, *, sure: bool = True) -> None:
        """Notes what the bound table, or a relation of it, has and its fingerprint lacks.

        Args:
            sure: The bound table has the numbers of the relation's columns.
        """
        noted = with_later_labels(binding.noted, recorded(binding.table))
        if binding.identified:
            columns = [column for column in binding.table.columns if column.number and not column.generated]
            told = {column.number: (binding.handling(column.name), column.type.oid) for column in columns}
            for known in noted_columns(noted):
                before = (binding.handling(known.name), known.type)
                sure &= same_told(before, told.get(known.number, before))
            sure &= not any(told_otherwise(noted, number, now) for number, now in told.items())
            noted = with_told(noted, told, sure=sure)
            shown = [(column.number, column.name, column.type.oid) for column in columns]
            if shown != [(known.number, known.name, known.type) for known in noted_columns(noted)]:
                self._found.add(binding.index)
        else:
            noted = with_later_columns(noted, recorded(binding.table))
            if relation is not None:
                noted = with_columns(noted, [(column.name, column.type_oid) for column in relation.columns])
        self._keep(binding, noted)

    def truncated(self, binding: PostgresBinding, transaction: int) -> None:
        """Notes the last transaction that has a TRUNCATE of the table."""
        self._keep(binding, with_truncation(binding.noted, transaction))

    def labels(self, binding: PostgresBinding) -> EnumLabels:
        """Collects the labels that the rows of a new decoder have and the fingerprint lacks."""

        def show(oid: int, label: str) -> None:
            self._labels.setdefault(binding.index, []).append((oid, label))

        return EnumLabels(known_labels(binding.noted, recorded(binding.table)), show)

    def noted(self, bindings: Sequence[PostgresBinding], partitions: Iterable[ShownPartition] = ()) -> bool:
        """Notes partitions, and the labels that were collected. Returns whether fingerprints changed since this was
        called last.
        """
        for binding, oid, transaction, name in partitions:
            self._keep(bindings[binding], with_partition(bindings[binding].noted, oid, transaction, name))
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
