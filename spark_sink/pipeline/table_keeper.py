"""One kept table, as the driver has it: its files, and how it comes to have the columns that a part needs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidemark.protocol.changelog import Segment, Summary, TableSchema
from tidemark.protocol.changelog.columns.column_identity import BY_NAME
from tidemark.protocol.changelog.columns.evolution import changes, departure
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.changelog.shown import Shown
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.formats.data_files import DataFile, KeyBounds
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.log_position import check_position, check_reach
from tidemark.spark_sink.parts.part_plan import TableState
from tidemark.spark_sink.parts.part_tasks import base_files
from tidemark.spark_sink.parts.ranges import file_groups
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target
from tidemark.spark_sink.tables.lineage import AS_THEY_ARE, Adapted, Lineage
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import (
    ROW_META,
    check_keyed,
    key_of,
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
        ChangeLogError: As ``check_reach``.
    """

    def __init__(self, log: FollowedLog, target: Target, warehouse: StorePlace) -> None:
        if target.options.on_schema_change == "version":
            target = target.versions(warehouse)[0]
        self.target = target
        self.table = PositionedTable(target.place(warehouse), log.header.log_id, target.name)
        self._log = log
        self._warehouse = warehouse
        self._meta = ROW_META if target.kind == CURRENT else META_COLUMNS
        self._fitting: tuple[object, ...] = ()
        self.key: tuple[str, ...] = ()
        self._lacking: Columns = {}
        self._columns: Columns = {}
        self._adapted = Adapted({}, {})
        self._lineage: Lineage | None = None
        self._told: tuple[str, ...] = ()
        check_position(self.table, log, target.table)
        self.check_reach()

    @property
    def position(self) -> int:
        """The offset below which all events are in the table."""
        return self.table.position

    def check_reach(self) -> None:
        """Makes sure that the log still has all that the table lacks. Raises ``TM-LOG-018``."""
        shown = self.target.shown(self._log.summary()) if self.target.kind == CURRENT else None
        check_reach(self.table, self._log, self.target.collection, shown)

    def missing(self, summary: Summary, found: Sequence[Segment]) -> tuple[Segment, ...]:
        """The segments that the table lacks, as of a moment of the log.

        Args:
            summary: The log at that moment.
            found: All of the collection from the table's position on.
        """
        if self.target.kind != CURRENT:
            return tuple(found)
        shown = self._shown(summary)
        if not self._is_other(summary):
            return shown.events(found)
        return shown.events(self._log.segments(self.target.collection, shown.oldest.begin, summary.next_offset))

    def check_changes(self, fingerprints: Iterable[str]) -> None:
        """Makes sure that a table follows a change of its columns or its key only where it may.

        Args:
            fingerprints: The schemas of events that come next, those of no generation among them.

        Raises:
            SparkError: ``TM-SPK-024`` for a change with ``on_schema_change: stop``.
        """
        if self.target.options.on_schema_change != "stop" or not self.table.exists:
            return
        summary = self._log.summary_at(max(self.table.position, self._log.start()))
        if (totals := summary.totals.get(self.target.collection)) is None:
            return
        before = summary.schemas[totals.fingerprint]
        for fingerprint in dict.fromkeys(fingerprints):
            after = self._log.schema(fingerprint)
            if what := changes(before, after):
                raise self._stopped(what)

    def _stopped(self, what: str) -> SparkError:
        table = self.target.table
        return SparkError(
            "TM-SPK-024",
            f"{table}: {what}, and on_schema_change is stop",
            remedy=(
                "Build the table again with the new columns: tidemark materialize FILE --rebuild "
                f"{shlex.quote(table)}. Or set on_schema_change to evolve."
            ),
        )

    def is_outdated(self, summary: Summary) -> bool:
        """Whether there is work without an event.

        Rows are to go that are not shown any more: all, or those under a generation that is whole. Or columns have
        changed, and no event has come since.
        """
        return self.table.exists and (
            self._is_other(summary) or self._floor(summary) > 0 or self._has_other_columns(summary)
        )

    def _has_other_columns(self, summary: Summary) -> bool:
        """Whether the table's columns are not those of the newest schema. An event's columns come with the event."""
        if self.target.kind != CURRENT or (shown := self.target.shown(summary)) is None:
            return False
        told = *(schema.fingerprint for schema in shown.schemas), *self._own_columns
        if told == self._told or not any(column.id for schema in shown.schemas for column in schema.columns):
            return False
        adapted = Lineage(shown.schemas).adapted(self._own_columns, self.table.column_ids)
        if self._differs(adapted):
            return True
        self._told = told
        return False

    @property
    def _own_columns(self) -> dict[str, str]:
        """The table's columns, without those of the log; none if there is no table."""
        if not self.table.exists:
            return {}
        return {name: type_ for name, type_ in self.table.columns.items() if name not in self._meta}

    def _differs(self, adapted: Adapted) -> bool:
        return adapted.places != AS_THEY_ARE or dict(adapted.columns) != self._own_columns

    def _shown(self, summary: Summary) -> Shown:
        found = self.target.shown(summary)
        assert found is not None, "a collection with events has a generation"
        return found

    def _is_other(self, summary: Summary) -> bool:
        """Whether the table cannot go on to what is to be shown, or there is no table."""
        shown = self.target.shown(summary)
        if self.target.kind != CURRENT or shown is None:
            return False
        if not self.table.exists:
            return True
        standing = self.table.standing
        if not shown.goes_on_from(standing.generation, standing.over):
            return True
        # What is laid over older rows may come to have columns that these cannot have.
        lineage = Lineage(shown.schemas)
        return self._floor(summary) > 0 and not lineage.can_take(self._own_columns, self.table.column_ids)

    def _floor(self, summary: Summary) -> int:
        """The offset below which rows are to go; 0 where none are."""
        shown = self.target.shown(summary)
        if self.target.kind != CURRENT or shown is None or not self.table.exists:
            return 0
        return shown.stale_below(self.table.standing.generation, self.table.standing.over)

    def state_for(self, summary: Summary, segments: Sequence[Segment]) -> TableState:
        """The table's state for a part with later events, or with all events of another generation.

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
        begins = self._is_other(summary)
        files: Sequence[tuple[DataFile, KeyBounds]] = ()
        if self.table.engine_written is None:
            if self.key and not begins:
                files = self.table.bounds({name: columns[name] for name in self.key})
            else:
                files = [(file, KeyBounds(None, None)) for file in self.table.files()]
        return TableState(
            columns,
            self.key,
            files,
            self.table.position,
            self.table.size,
            self.table.engine_written,
            begins=begins,
            recast=bool(self._columns) and not begins,
            places=self._adapted.places,
            lineage=self._lineage,
            floor=0 if begins else self._floor(summary),
        )

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
        shown = self._shown(summary) if keyed else None
        schemas: Sequence[TableSchema]
        told: tuple[object, ...] = ()
        if shown is not None:
            schemas = shown.schemas
            told = shown.newest.number, shown.over, *(schema.fingerprint for schema in schemas)
            self.key = key_of(schemas)
            check_keyed(self.key, schemas)
            self._lineage = Lineage(schemas, shown.numbers)
        else:
            newest = summary.totals[collection].fingerprint
            schemas = [spanned(summary.schemas[fingerprint]) for fingerprint in [*fingerprints, newest]]
        if (
            keyed
            and self.table.exists
            and self._is_other(summary)
            and self.target.options.on_schema_change == "version"
        ):
            self._begin_version(schemas)
        # Somebody may have restored the table to a version with other columns.
        fitting = *told, *fingerprints, *self._own_columns
        if self._fitting == fitting and self.table.exists and not self._columns:
            return
        there = self._own_columns
        begins = self._is_other(summary)
        if self._lineage is not None:
            # A new table gets the newest schema there is: a Delta column cannot be widened later.
            rows = ({}, {}) if begins or not self.table.exists else (there, self.table.column_ids)
            self._adapted = self._lineage.adapted(*rows)
            columns = self._adapted.columns
            renamed = self._adapted.places.renamed
            if renamed and self.target.options.on_schema_change == "stop":
                raise self._stopped(f"column {renamed[0][0]} has another name or is gone")
        else:
            columns = with_new_columns(widened(there, schemas), schemas)
        self._check_names(columns)
        self.table.ids = {
            name: identity for name, identity in self._adapted.ids.items() if not identity.startswith(BY_NAME)
        }
        self.table.sources = {
            column.name: column.in_source
            for schema in schemas
            for column in schema.columns
            if column.in_source != column.name
        }
        self._columns, self._lacking = {}, {}
        if not self.table.exists:
            description = f"{self.target.kind} of {self.target.table}, kept by tidemark"
            self.table.create({**columns, **self._meta}, description, self.key, shown.oldest.number if shown else 0)
        elif begins or self._adapted.places != AS_THEY_ARE or any(columns[n] != t for n, t in there.items()):
            self._columns = {**columns, **self._meta}
        elif added := {name: spark for name, spark in columns.items() if name not in there}:
            if self.table.engine_written:
                self._lacking = added  # The engine adds them with the part that has them.
            else:
                self.table.add_columns(added)
        self._fitting = *told, *fingerprints, *self._own_columns

    def _begin_version(self, schemas: Sequence[TableSchema]) -> None:
        """Begins another table, if rows under these schemas cannot be in the one that there is."""
        before = self._log.summary_at(max(self.table.position, self._log.start()))
        shown = self.target.shown(before)
        if shown is None or not any(departure(shown.schemas, schema) for schema in schemas):
            return
        self.target = replace(self.target, version=self.target.version + 1)
        self.table = PositionedTable(self.target.place(self._warehouse), self._log.header.log_id, self.target.name)

    def _check_names(self, columns: Columns) -> None:
        seen: dict[str, str] = {}
        for name in [*columns, *self._meta]:
            other = seen.setdefault(name.casefold(), name)
            if other is not name:
                raise SparkError(
                    "TM-SPK-011",
                    f"{self.target.table} has columns {other} and {name}: Delta cannot tell their names apart",
                )
