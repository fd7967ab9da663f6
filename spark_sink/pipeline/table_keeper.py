"""One kept table, as the driver has it: its files, and how it comes to have the columns that a part needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidemark.protocol.changelog import Segment
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.pipeline.parts.part_tasks import base_files
from tidemark.spark_sink.pipeline.parts.plan import TableState
from tidemark.spark_sink.pipeline.parts.ranges import file_groups
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target
from tidemark.spark_sink.tables.table_columns import ROW_META, check_keyed, key_of, own_columns, with_new_columns


class TableKeeper:
    """One kept table.

    Attributes:
        key: Names of the key's columns; empty for a table of kind ``history``, and before ``state_for``.

    Raises:
        SparkError: ``TM-SPK-006`` when the table is ahead of the log, and those of ``PositionedTable``.
    """

    def __init__(self, log: FollowedLog, target: Target, warehouse: Path) -> None:
        self.target = target
        self.table = PositionedTable(target.path(warehouse), log.header.log_id, target.name)
        self._log = log
        self._meta = ROW_META if target.kind == CURRENT else META_COLUMNS
        self._fitting: set[str] = set()
        self.key: tuple[str, ...] = ()
        self._lacking: Columns = {}
        if self.table.position > log.end():
            raise SparkError(
                "TM-SPK-006",
                f"{self.table.path} is at offset {self.table.position}, but {log.root} ends at {log.end()}",
                remedy=(
                    "Bring the newer log back. Or rebuild the table from the log as it is: tidemark materialize FILE "
                    f"--rebuild {target.table}."
                ),
            )

    @property
    def position(self) -> int:
        """The offset below which all events are in the table."""
        return self.table.position

    def state_for(self, segments: Sequence[Segment]) -> TableState:
        """The table's state. First the table is created, or gets the columns that these segments need.

        Raises:
            SparkError: ``TM-SPK-005`` for a column whose type changed beyond casting, ``TM-SPK-011`` for names that a
                table cannot hold, ``TM-SPK-012`` for another key, and those of ``PositionedTable``.
        """
        self._fit(list(dict.fromkeys(segment.fingerprint for segment in segments)))
        columns = {**self.table.columns, **self._lacking}
        size, position = self.table.size, self.table.position
        if error := self.table.engine_only:
            return TableState(columns, self.key, (), position, size, error)
        if self.key:
            files = self.table.bounds({name: columns[name] for name in self.key})
        else:
            files = [(file, KeyBounds(None, None)) for file in self.table.files()]
        return TableState(columns, self.key, files, position, size)

    def files_in_order(self) -> dict[DataFile, KeyBounds]:
        """The table's files in key order, and the bounds of their keys."""
        columns = self.table.columns
        bounds = self.table.bounds({name: columns[name] for name in self.key})
        by_path = {file.path: (file, box) for file, box in bounds}
        return dict(by_path[path] for path in base_files(file_groups(bounds)))

    def _fit(self, fingerprints: Sequence[str]) -> None:
        """Creates the table or adds columns to it, so that it holds events of these schemas."""
        if self._fitting.issuperset(fingerprints) and self.table.exists:
            return
        there = {n: t for n, t in self.table.columns.items() if n not in self._meta} if self.table.exists else {}
        summary = self._log.summary()
        newest = summary.schemas[summary.totals[self.target.collection].fingerprint]
        if self.target.kind == CURRENT:
            self.key = key_of(summary, self.target.collection)
            check_keyed(self.key, [newest, *(summary.schemas[f] for f in fingerprints)])
        # A new table gets the newest schema there is: a Delta column cannot be widened later.
        columns = with_new_columns(there or own_columns(newest), [summary.schemas[f] for f in fingerprints])
        self._check_names(columns)
        if not self.table.exists:
            description = f"{self.target.kind} of {self.target.table}, kept by tidemark"
            self.table.create({**columns, **self._meta}, description, self.key)
        elif added := {name: spark for name, spark in columns.items() if name not in there}:
            if self.table.engine_only:
                self._lacking = added  # The engine adds them with the part that has them.
            else:
                self.table.add_columns(added)
        self._fitting.update(fingerprints)

    def _check_names(self, columns: Columns) -> None:
        seen: dict[str, str] = {}
        for name in [*columns, *self._meta]:
            other = seen.setdefault(name.casefold(), name)
            if other is not name:
                raise SparkError(
                    "TM-SPK-011",
                    f"{self.target.table} has columns {other} and {name}: Delta cannot tell their names apart",
                )
