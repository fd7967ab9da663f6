"""Notes what the log shows of tables between two looks at the catalogs.

See ``tidemark.captures.postgres.tables.record.shown_changes``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.captures.postgres.log.pgoutput import Relation
from tidemark.captures.postgres.log.schema_drift import AlteredTables
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables.record.comparison import recorded
from tidemark.captures.postgres.tables.record.shown_changes import known_labels, with_columns, with_labels, with_record
from tidemark.captures.postgres.values.enum_labels import EnumLabels
from tidemark.protocol.messages import JsonObject


class ShownNames:
    """Adds names of columns and labels of enums to the fingerprints of tables.

    Args:
        found: Is told of the tables, so that they are compared.
    """

    def __init__(self, found: AlteredTables) -> None:
        self._found = found
        self._changed = False
        self._labels: dict[int, list[tuple[int, str]]] = {}  # By binding, those that came since they were noted.

    def note(self, binding: PostgresBinding, relation: Relation | None = None) -> None:
        """Notes what the bound table, or a relation of it, has and its fingerprint lacks."""
        noted = with_record(binding.noted, recorded(binding.table))
        if relation is not None:
            noted = with_columns(noted, [(column.name, column.type_oid) for column in relation.columns])
        self._keep(binding, noted)

    def labels(self, binding: PostgresBinding) -> EnumLabels:
        """Collects the labels that the rows of a new decoder have and the fingerprint lacks."""

        def show(oid: int, label: str) -> None:
            self._labels.setdefault(binding.index, []).append((oid, label))

        return EnumLabels(known_labels(binding.noted, recorded(binding.table)), show)

    def noted(self, bindings: Sequence[PostgresBinding]) -> bool:
        """Notes the labels that were collected. Returns whether fingerprints changed since this was called last."""
        for index, labels in self._labels.items():
            self._keep(bindings[index], with_labels(bindings[index].noted, labels))
        self._labels.clear()
        changed, self._changed = self._changed, False
        return changed

    def _keep(self, binding: PostgresBinding, noted: JsonObject) -> None:
        if noted is not binding.noted:
            binding.noted = noted
            self._found.add(binding.index)
            self._changed = True
