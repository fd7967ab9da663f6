"""One kept table, as the driver has it: its files, and how it comes to have the columns that a part needs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tidemark.protocol.changelog import KnownGeneration, Segment, Summary, TableSchema
from tidemark.protocol.changelog.evolution import changes, departure
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.log_position import check_position
from tidemark.spark_sink.pipeline.parts.part_tasks import base_files
from tidemark.spark_sink.pipeline.parts.plan import TableState
from tidemark.spark_sink.pipeline.parts.ranges import file_groups
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target
from tidemark.spark_sink.tables.table_columns import (
    ROW_META,
    check_keyed,
    key_of,
    schemas_of,
    spanned,
    widened,
    with_new_columns,
)


class TableKeeper:
    """One kept table.

    Attributes:
        key: Names of the key's columns; empty for a table of kind ``history``, and before ``state_for``.

    Raises:
        SparkError: ``TM-SPK-006`` when the table is ahead of the log, and those of ``PositionedTable``.
    """

    def __init__(self, log: FollowedLog, target: Target, warehouse: Path) -> None:
        if target.options.on_schema_change == "version":
            target = target.versions(warehouse)[0]
        self.target = target
        self.table = PositionedTable(target.path(warehouse), log.header.log_id, target.name)
        self._log = log
        self._warehouse = warehouse
        self._meta = ROW_META if target.kind == CURRENT else META_COLUMNS
        self._fitting: tuple[object, ...] = ()
        self.key: tuple[str, ...] = ()
        self._lacking: Columns = {}
        self._columns: Columns = {}
        check_position(self.table, log, target.table)

    @property
    def position(self) -> int:
        """The offset below which all events are in the table."""
        return self.table.position

    @property
    def generation(self) -> int | None:
        """The number of the generation that the rows are of; None where there is no table, or it has all events."""
        if self.target.kind != CURRENT or not self.table.exists:
            return None
        return self.table.standing.generation

    def missing(self, summary: Summary, found: Sequence[Segment]) -> tuple[Segment, ...]:
        """The segments that the table lacks, as of a moment of the log.

        Args:
            summary: The log at that moment.
            found: All of the collection from the table's position on.
        """
        if self.target.kind != CURRENT:
            return tuple(found)
        shown = self._generation(summary)
        if self.table.exists and self.generation == shown.number:
            return tuple(segment for segment in found if segment.generation == shown.number)
        listed = self._log.segments(self.target.collection, shown.begin, summary.next_offset)
        return tuple(segment for segment in listed if segment.generation == shown.number)

    def check_changes(self, fingerprints: Iterable[str]) -> None:
        """Makes sure that a table follows a change of its columns or its key only where it may.

        Args:
            fingerprints: The schemas of events that come next, those of no generation among them.

        Raises:
            SparkError: ``TM-SPK-024`` for a change with ``on_schema_change: stop``.
        """
        if self.target.options.on_schema_change != "stop" or not self.table.exists:
            return
        summary = self._log.summary_at(self.table.position)
        if (totals := summary.totals.get(self.target.collection)) is None:
            return
        before = summary.schemas[totals.fingerprint]
        for fingerprint in dict.fromkeys(fingerprints):
            after = self._log.schema(fingerprint)
            if what := changes(before, after):
                table = self.target.table
                raise SparkError(
                    "TM-SPK-024",
                    f"{table}: {what}, and on_schema_change is stop",
                    remedy=(
                        "Build the table again with the new columns: tidemark materialize FILE --rebuild "
                        f"{shlex.quote(table)}. Or set on_schema_change to evolve."
                    ),
                )

    def is_outdated(self, summary: Summary) -> bool:
        """Whether rows of another generation are to be shown."""
        return self.table.exists and self._is_other(summary)

    def _generation(self, summary: Summary) -> KnownGeneration:
        found = self.target.generation(summary)
        assert found is not None, "a collection with events has a generation"
        return found

    def _is_other(self, summary: Summary) -> bool:
        """Whether the table lacks all of the generation whose rows are to be shown, or there is no table."""
        shown = self.target.generation(summary)
        return self.target.kind == CURRENT and shown is not None and self.generation != shown.number

    def state_for(self, summary: Summary, segments: Sequence[Segment]) -> TableState:
        """The table's state for a part with events of its own generation, or with all events of another one.

        First the table is created, or gets the columns that these segments need.

        Args:
            summary: The log, as of the part's end.
            segments: The part's.

        Raises:
            SparkError: ``TM-SPK-005`` for a column whose type changed beyond casting, ``TM-SPK-011`` for names that a
                table cannot hold, and those of ``PositionedTable``.
        """
        self._fit(summary, list(dict.fromkeys(segment.fingerprint for segment in segments)))
        columns = self._columns or {**self.table.columns, **self._lacking}
        size, position = self.table.size, self.table.position
        begins = self._is_other(summary)
        recast = bool(self._columns) and not begins
        if error := self.table.engine_only:
            return TableState(columns, self.key, (), position, size, error, begins=begins, recast=recast)
        if self.key and not begins:
            files = self.table.bounds({name: columns[name] for name in self.key})
        else:
            files = [(file, KeyBounds(None, None)) for file in self.table.files()]
        return TableState(columns, self.key, files, position, size, begins=begins, recast=recast)

    def files_in_order(self) -> dict[DataFile, KeyBounds]:
        """The table's files in key order, and the bounds of their keys."""
        columns = self.table.columns
        bounds = self.table.bounds({name: columns[name] for name in self.key})
        by_path = {file.path: (file, box) for file, box in bounds}
        return dict(by_path[path] for path in base_files(file_groups(bounds)))

    def _fit(self, summary: Summary, fingerprints: Sequence[str]) -> None:
        """Creates the table or adds columns to it, so that it holds events of these schemas.

        Where it has columns of other types, or rows of another generation, the part gives it its columns.
        """
        collection = self.target.collection
        keyed = self.target.kind == CURRENT
        number = 0
        if keyed:
            generation = self._generation(summary)
            number = generation.number
            schemas = schemas_of(summary, generation)
            self.key = key_of(schemas)
            check_keyed(self.key, schemas)
        else:
            newest = summary.totals[collection].fingerprint
            schemas = [spanned(summary.schemas[fingerprint]) for fingerprint in [*fingerprints, newest]]
        if keyed and self.is_outdated(summary) and self.target.options.on_schema_change == "version":
            self._begin_version(schemas)
        fitting = number, *fingerprints
        if self._fitting == fitting and self.table.exists and not self._columns:
            return
        there = {n: t for n, t in self.table.columns.items() if n not in self._meta} if self.table.exists else {}
        begins = self._is_other(summary)
        # A new table gets the newest schema there is: a Delta column cannot be widened later.
        columns = with_new_columns({} if keyed else widened(there, schemas), schemas)
        if keyed and not begins:
            columns = {**{name: columns.get(name, type_) for name, type_ in there.items()}, **columns}
        self._check_names(columns)
        self.table.sources = {
            column.name: column.in_source
            for schema in schemas
            for column in schema.columns
            if column.in_source != column.name
        }
        self._columns, self._lacking = {}, {}
        if not self.table.exists:
            description = f"{self.target.kind} of {self.target.table}, kept by tidemark"
            self.table.create({**columns, **self._meta}, description, self.key, number)
        elif begins or any(columns[name] != type_ for name, type_ in there.items()):
            self._columns = {**columns, **self._meta}
        elif added := {name: spark for name, spark in columns.items() if name not in there}:
            if self.table.engine_only:
                self._lacking = added  # The engine adds them with the part that has them.
            else:
                self.table.add_columns(added)
        self._fitting = fitting

    def _begin_version(self, schemas: Sequence[TableSchema]) -> None:
        """Begins another table, if rows under these schemas cannot be in the one that there is."""
        before = self._log.summary_at(self.table.position)
        generation = self.target.generation(before)
        if generation is None or not any(departure(schemas_of(before, generation), schema) for schema in schemas):
            return
        self.target = replace(self.target, version=self.target.version + 1)
        self.table = PositionedTable(self.target.path(self._warehouse), self._log.header.log_id, self.target.name)

    def _check_names(self, columns: Columns) -> None:
        seen: dict[str, str] = {}
        for name in [*columns, *self._meta]:
            other = seen.setdefault(name.casefold(), name)
            if other is not name:
                raise SparkError(
                    "TM-SPK-011",
                    f"{self.target.table} has columns {other} and {name}: Delta cannot tell their names apart",
                )
