"""What a live view is made of, from metadata alone: a version of the kept table, and the tail of the log over it."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.changelog import Segment, Summary
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.changelog.shown import Shown
from tidemark.protocol.changelog.shown import shown as shown_of
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.changes.key_order import distinct
from tidemark.spark_sink.changes.row_events import read_row_events
from tidemark.spark_sink.changes.stated_keys import native
from tidemark.spark_sink.formats.data_files import KeyBounds
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.log_position import check_position, check_reach
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.live.base_reader import Base, BoundedFile
from tidemark.spark_sink.live.key_reach import ChangedBoxes, ChangedKeys
from tidemark.spark_sink.live.net_rows import lacks_columns, net_rows
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.source.options import resolve_offset
from tidemark.spark_sink.source.segment_reader import read_segments, segment_files
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.kept_tables import CURRENT, Target
from tidemark.spark_sink.tables.lineage import Adapted, Lineage
from tidemark.spark_sink.tables.store_place import StorePlace
from tidemark.spark_sink.tables.table_columns import (
    EVENT_META,
    ROW_META,
    check_keyed,
    dotted,
    find_collection,
    key_of,
    own_columns,
)

logger = logging.getLogger(__name__)

AsOf = int | str | datetime | None
"""An offset (exclusive), an ISO 8601 time (UTC when it has no zone), or now."""


@dataclass(frozen=True, slots=True)
class TailLimits:
    """Limits of what the driver reads of a tail.

    Attributes:
        keys: The most events whose keys it reads, to know exactly which files they are in.
        rows: The most events that it reduces itself: a plan with the rows in it costs less than one that reads them.
        size: The most bytes of these events, uncompressed.
    """

    keys: int = 100_000
    rows: int = 10_000
    size: int = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TailKeys:
    """The keys of a small tail.

    Attributes:
        changed: All of them, each once.
        lacking: Those with an event that did not carry every column, each once.
    """

    changed: pa.Table
    lacking: pa.Table


@dataclass(frozen=True, slots=True)
class Overlay:
    """What the tail does to the base's files.

    Attributes:
        untouched: No key of the tail can be in these.
        touched: Rows of these may have changed.
        inherited: Those of the touched ones with rows that changes may take a column from.
    """

    untouched: tuple[BoundedFile, ...]
    touched: tuple[BoundedFile, ...]
    inherited: tuple[BoundedFile, ...]


@dataclass(frozen=True)
class TableView:
    """One table at one offset.

    Attributes:
        log: The change log.
        collection: Of the table.
        key: Names of the key's columns.
        columns: Of a row: the table's own, then ``ROW_META``.
        base: The kept table; without files when there is none, or nothing of it is left.
        segments: Of the tail, in offset order.
        start: The tail's events have offsets in ``[start, end)``. No TRUNCATE among them empties the base.
        end: The offset of the view.
        lineage: Tells which columns of the events are which.
        limits: Of what the driver reads of the tail.
    """

    log: FollowedLog
    collection: str
    key: tuple[str, ...]
    columns: Columns
    base: Base
    segments: tuple[Segment, ...]
    start: int
    end: int
    lineage: Lineage
    limits: TailLimits = TailLimits()

    def check_files(self) -> None:
        """Makes sure that the base's files are there.

        Raises:
            SparkError: ``TM-SPK-015`` for the first that is missing. Spark's own error would be a trace.
        """
        place = self.base.table
        if place is None or self.base.version is not None:
            return
        for path in place.lacking(file.path for file in self.base.files):
            table = dotted(self.collection)
            rebuild = f"tidemark materialize FILE --rebuild {shlex.quote(table)}"
            missing = place.store.where(path)
            raise SparkError(
                "TM-SPK-015",
                f"{missing} is missing, a file of the kept table {table}: {rebuild} builds it again from the log",
                remedy=f"Run {rebuild}.",
            )

    @property
    def key_columns(self) -> dict[str, str]:
        return {name: self.columns[name] for name in self.key}

    @property
    def has_small_tail(self) -> bool:
        """Whether the tail's keys are looked at in the driver, and its events reduced by one task."""
        return sum(segment.rows for segment in self.segments) <= self.limits.keys

    @property
    def has_tiny_tail(self) -> bool:
        """Whether the driver reduces the tail's events."""
        segments = self.segments
        return (
            self.has_small_tail
            and sum(segment.rows for segment in segments) <= self.limits.rows
            and sum(segment.uncompressed for segment in segments) <= self.limits.size
        )

    def tail_rows(self) -> pa.Table:
        """The rows that a tiny tail leaves, where they take nothing from the base.

        Raises:
            ChangeLogError: ``TM-LOG-009`` for a missing or damaged segment.
        """
        return net_rows(self._tail_events({**self.columns, **EVENT_META}), self.key, self.columns)

    @cached_property
    def tail_keys(self) -> TailKeys:
        """The keys that a small tail changes.

        Raises:
            ChangeLogError: ``TM-LOG-009`` for a missing or damaged segment.
        """
        events = self._tail_events({**self.key_columns, "_unchanged": META_COLUMNS["_unchanged"]})
        return TailKeys(distinct(events, self.key), distinct(lacks_columns(events), self.key))

    @cached_property
    def overlay(self) -> Overlay:
        """What the tail does to the base's files.

        Raises:
            ChangeLogError: ``TM-LOG-009`` for a missing or damaged segment.
        """
        if not self.base.files:
            return Overlay((), (), ())
        changed: ChangedKeys | ChangedBoxes
        lacking: ChangedKeys | ChangedBoxes
        if self.has_small_tail:
            changed, lacking = ChangedKeys.of(self.tail_keys.changed), ChangedKeys.of(self.tail_keys.lacking)
        else:
            changed = lacking = ChangedBoxes([self._box(segment) for segment in self.segments])
        touched = tuple(file for file in self.base.files if changed.may_hit(file.bounds))
        hit = {file.path for file in touched}
        return Overlay(
            untouched=tuple(file for file in self.base.files if file.path not in hit),
            touched=touched,
            inherited=tuple(file for file in touched if lacking.may_hit(file.bounds)),
        )

    def _tail_events(self, columns: Columns) -> pa.Table:
        batches = read_row_events(self.log.store, self.files(columns), columns, self.start, self.end)
        return pa.Table.from_batches(batches, arrow_schema(columns))

    def files(self, columns: Columns) -> list[SegmentFile]:
        """The tail's files, for a reader of some columns."""
        return segment_files(self.log, self.segments, columns, self.lineage)

    def _box(self, segment: Segment) -> KeyBounds:
        """The bounds of a segment's keys, in the order of ``key``; unknown where its columns had other types."""
        schema = self.log.schema(segment.fingerprint)
        stored = own_columns(schema)
        if segment.key_min is None or segment.key_max is None:
            return KeyBounds(None, None)
        if any(stored[name] != type_ for name, type_ in self.key_columns.items()):
            return KeyBounds(None, None)
        ends = (dict(zip(schema.key, values, strict=True)) for values in (segment.key_min, segment.key_max))
        return KeyBounds(*(tuple(native(stored[name], end[name]) for name in self.key) for end in ends))


def end_of(log: FollowedLog, as_of: AsOf) -> int:
    """The offset that ``as_of`` means; that after the newest event for None.

    Raises:
        SparkError: ``TM-SPK-003`` for what is neither an offset nor a time, ``TM-SPK-006`` for an offset beyond the end
            of the log.
    """
    if as_of is None:
        return log.end()
    return resolve_offset("asOf", as_of.isoformat() if isinstance(as_of, datetime) else str(as_of), log)


def common_end(log: FollowedLog, tables: Sequence[str], end: int) -> int:
    """The last offset up to ``end`` as of which all tables can be shown together.

    Where later events of a table are not shown, it is as of the begin of the first commit with one of them.

    Raises:
        SparkError: ``TM-SPK-004`` for a table that the log does not have, or not yet as of then.
    """
    while True:
        summary = log.summary_at(end)
        newest = [_shown(summary, find_collection(log, summary, table)).newest for table in tables]
        ended = min((one.ended for one in newest if one.ended is not None), default=end)
        if ended >= end:
            return end
        end = log.commit(log.commit_with_offset(ended)).first_offset


def table_view(log: FollowedLog, table: str, end: int, warehouse: StorePlace | None) -> TableView:
    """A table as of an offset.

    Args:
        log: The change log.
        table: ``schema.table``.
        end: All events below it count, and no others.
        warehouse: Where tables are kept; None for a view of the log alone.

    Raises:
        SparkError: ``TM-SPK-004`` for a table that the log does not have, ``TM-SPK-005`` for a column whose type
            changed beyond casting, ``TM-SPK-006`` for a kept table that is ahead of the log, or read another one,
            ``TM-SPK-007`` for a table without a key, ``TM-SPK-009`` for a kept table of another
            log, ``TM-SPK-011`` for events without its key, ``TM-SPK-012`` where the key changed, ``TM-SPK-015`` for a
            damaged table, ``TM-SPK-017`` for a copy of another table.
        ChangeLogError: For a log that is damaged.
    """
    summary = log.summary_at(end)
    collection = find_collection(log, summary, table)
    shown = _shown(summary, collection)
    key = key_of(shown.schemas)
    if not key:
        raise SparkError("TM-SPK-007", f"{dotted(collection)} has no key, so it has no state, only events")
    check_keyed(key, shown.schemas)
    kept = _kept(log, Target(collection, CURRENT), shown, end, warehouse)
    if kept is None:
        start = shown.oldest.begin
    else:
        check_reach(kept, log, collection, shown)
        start = max(kept.position, log.start())
    floor = shown.stale_below(kept.standing.generation, kept.standing.over) if kept else 0
    segments = shown.events(log.segments(collection, start, end))
    lineage = Lineage(shown.schemas, shown.numbers)
    # A column that was dropped before the table was kept has its rows' values.
    there = {name: type_ for name, type_ in (kept.columns if kept else {}).items() if name not in ROW_META}
    adapted = lineage.adapted(there, kept.column_ids if kept else {})
    columns = {**adapted.columns, **ROW_META}
    truncated = _last_truncate(log, segments, shown, start, end)
    if truncated is not None:
        kept, start = None, truncated + 1
    return TableView(
        log=log,
        collection=collection,
        key=key,
        columns=columns,
        base=_base(kept, {name: columns[name] for name in key}, adapted, floor) if kept else Base(),
        segments=tuple(s for s in segments if s.last_offset >= start),
        start=start,
        end=end,
        lineage=lineage,
    )


def _shown(summary: Summary, collection: str) -> Shown:
    found = shown_of(summary, collection)
    assert found is not None, "a collection with totals has a generation"
    return found


def _kept(
    log: FollowedLog, target: Target, shown: Shown, end: int, warehouse: StorePlace | None
) -> PositionedTable | None:
    """The newest version of the kept tables, up to an offset, that lacks later events at most; its files are there."""
    if warehouse is None:
        return None
    found = (_fitting(log, one, shown, end, warehouse) for one in target.versions(warehouse))
    return max((table for table in found if table is not None), key=lambda table: table.position, default=None)


def _fitting(log: FollowedLog, target: Target, shown: Shown, end: int, warehouse: StorePlace) -> PositionedTable | None:
    try:
        return _newest_fitting(log, target, shown, end, warehouse)
    except SparkError as error:
        if error.code != "TM-SPK-016":
            raise
        # Rows that others changed are no state of the source. The log still has all of it.
        logger.warning("%s; %s is read only from the log", error, target.table)
        return None


def _newest_fitting(
    log: FollowedLog, target: Target, shown: Shown, end: int, warehouse: StorePlace
) -> PositionedTable | None:
    table = PositionedTable(target.place(warehouse), log.header.log_id, target.name)
    if not table.exists:
        return None
    check_position(table, log, target.table)

    def fits(position: Position) -> bool:
        return position.offset <= end and shown.goes_on_from(position.generation, position.over)

    if not fits(table.standing):
        older = next((version for version in table.versions() if fits(version.position)), None)
        if older is None:
            return None
        table = table.at(older.version)
    own = {name: type_ for name, type_ in table.columns.items() if name not in ROW_META}
    if shown.stale_below(table.standing.generation, table.standing.over):
        # What is laid over older rows may come to have columns that these cannot have.
        return table if Lineage(shown.schemas).can_take(own, table.column_ids) else None
    return table


def _base(kept: PositionedTable, key: Columns, adapted: Adapted, floor: int) -> Base:
    try:
        listed = kept.bounds(key)
    except SparkError as error:
        if error.code != "TM-SPK-018":
            raise
        whole = BoundedFile("", kept.size, KeyBounds(None, None))
        return Base((whole,), kept.place, kept.version, error, kept.columns, adapted.places, floor)
    files = tuple(BoundedFile(file.path, file.size, bounds) for file, bounds in listed)
    return Base(files, kept.place, columns=kept.columns, places=adapted.places, floor=floor)


def _last_truncate(log: FollowedLog, segments: Sequence[Segment], shown: Shown, start: int, end: int) -> int | None:
    """The offset of the last ``t`` in ``[start, end)`` that empties the table."""
    for segment in reversed(segments):
        truncated = shown.truncated_at(segment)
        if truncated is None or truncated < start:
            continue
        if truncated < end:
            return truncated
        # The view ends inside this segment, before its last one.
        columns = {name: META_COLUMNS[name] for name in ("_op", "_offset")}
        found = None
        for batch in read_segments(log.store, [SegmentFile.of(segment)], columns, start, end):
            offsets = batch.column("_offset").filter(pc.equal(batch.column("_op"), pa.scalar("t"))).to_pylist()
            found = next((offset for offset in reversed(offsets) if offset not in shown.begins), found)
        if found is not None:
            return int(found)
    return None
