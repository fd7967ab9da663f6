"""The kernel: one part's events, merged with a table's rows in key order. All ways to apply a part end here.

A row of the table counts as the oldest event of its key. Then nothing is special: a key's events, that one among them,
are reduced to its row, which takes unchanged columns from the row before because that is an event too. Backfilled rows
take part as sources as well, so an event that is older than the row a backfill read says nothing about it.

Everything is a stream. In memory are one group of sources and a bounded number of events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.spark_sink.changes.event_stream import EventStream
from tidemark.spark_sink.changes.key_order import (
    Place,
    begins_key,
    count_before,
    count_up_to,
    has_key_of,
    in_order,
    place_of,
    reaches,
)
from tidemark.spark_sink.changes.net_changes import DELETED, net_changes, numbers
from tidemark.spark_sink.changes.sources import BaseFile, SourceGroup, SourceReader, as_events


class RowWriter(Protocol):
    """Takes rows in key order, and makes files of them."""

    def write(self, rows: pa.Table) -> None: ...

    def cut(self) -> None:
        """What comes next begins a new file."""


def merge(
    groups: Sequence[SourceGroup],
    events: EventStream,
    key: Sequence[str],
    columns: Sequence[str],
    reader: SourceReader,
    writer: RowWriter,
    small: int,
    low: Place = (),
    high: Place | None = None,
    *,
    whole: bool = False,
) -> list[str]:
    """Merges events with groups of sources.

    A group of the table's own files that no event touches stays as it is, unless its keys go beyond the range, so that
    another task has the rest of it, or the reader leaves out rows of it.

    Args:
        groups: In key order.
        events: Of the part.
        key: Names of the key's columns.
        columns: Of the table, ``_offset`` among them.
        reader: Of the sources.
        writer: Of the table's new files.
        small: Bytes below which a group of files is rewritten with its neighbour.
        low: Where the range begins.
        high: Where it ends, exclusive; None for the range that has no end.
        whole: All files are rewritten, those without events, too.

    Returns:
        Paths of the table's files whose rows were rewritten.

    Raises:
        ChangeLogError, SparkError: As ``SourceReader``.
    """
    merger = _Merger(events, list(key), list(columns), reader, writer, low, high, whole)
    for group, following in zip_longest(groups, groups[1:]):
        merger.write_events(group.low)
        merger.merge(group, following, small)
    merger.write_events(None)
    return merger.removed


@dataclass(slots=True)
class _Merger:
    events: EventStream
    key: list[str]
    columns: list[str]
    reader: SourceReader
    writer: RowWriter
    low: Place
    high: Place | None
    whole: bool
    removed: list[str] = field(default_factory=list)

    def write_events(self, bound: Place | None) -> None:
        """Writes the rows of the events below a bound that no group has taken; of all of them when it is None."""
        while (events := self.events.take(bound)) is not None:
            self._write(self._reduced(events))

    def merge(self, group: SourceGroup, following: SourceGroup | None, small: int) -> None:
        """Merges a group with the events up to the next one."""
        bound = following.low if following else None
        first = self.events.next_key()
        has_events = first is not None and (bound is None or first < bound)
        touched = has_events and first is not None and group.may_hold(first)
        shared = self._is_shared(group)
        changes = self.whole or touched or shared or group.is_new or self.reader.is_stale(group)
        if not (changes or (has_events and group.size < small)):
            # Its files stay, so no new file may span them.
            self.writer.cut()
            self.write_events(bound)
            if has_events and following is not None:
                self.writer.cut()
            return
        if not has_events and not shared and len(group.sources) == 1:
            for batch in self.reader.stream(group.sources[0]):
                self._write(pa.Table.from_batches([batch]))
        else:
            self._merge_rows(group, bound)
        for source in group.sources:
            if isinstance(source, BaseFile):
                self.removed.append(source.path)

    def _is_shared(self, group: SourceGroup) -> bool:
        """Whether some of its keys are in another range."""
        return group.low < self.low or (self.high is not None and reaches(group.high, self.high))

    def _merge_rows(self, group: SourceGroup, bound: Place | None) -> None:
        rows = self.reader.load(group)
        if self._is_shared(group):
            first = count_before(rows, self.key, self.low)
            rows = rows.slice(first)
            if self.high is not None:
                rows = rows.slice(0, count_before(rows, self.key, self.high))
        while (events := self.events.take(bound)) is not None:
            count = count_up_to(rows, self.key, place_of(events, self.key, events.num_rows - 1))
            self._write(self._overlaid(rows.slice(0, count), events))
            rows = rows.slice(count)
        self._write(rows)

    def _overlaid(self, rows: pa.Table, events: pa.Table) -> pa.Table:
        """Rows after events, both in key order."""
        if not rows.num_rows:
            return self._reduced(events)
        changed = has_key_of(rows, events, self.key)
        before = rows.filter(changed)
        if before.num_rows:
            oldest = as_events(before).select(events.column_names)
            events = in_order(pa.concat_tables([oldest, events]), [*self.key, "_offset"])
        new = self._reduced(events)
        was_there = has_key_of(new, before, self.key)
        kept = _with_updates(rows, changed, has_key_of(before, new, self.key), new.filter(was_there))
        inserted = new.filter(pc.invert(was_there))
        if not inserted.num_rows or not kept.num_rows:
            return kept if kept.num_rows else inserted
        both = pa.concat_tables([kept, inserted])
        is_behind = place_of(kept, self.key, kept.num_rows - 1) < place_of(inserted, self.key, 0)
        return both if is_behind else in_order(both, self.key)

    def _reduced(self, events: pa.Table) -> pa.Table:
        """The rows that events in key order come down to, in key order."""
        begins = begins_key(events, self.key)
        ends = pa.concat_arrays([begins.slice(1), pa.array([True])])
        alone = pc.and_(begins, ends)
        # Most keys have one event, which then is the row.
        single = events.filter(alone).filter(pc.not_equal(events.column("_op").filter(alone), pa.scalar("d")))
        single = single.select(self.columns)
        several: Any = pc.invert(alone)
        if not pc.any(several).as_py():
            return single
        changes = net_changes(events.filter(several), self.key, self.columns)
        rest = changes.rows.filter(pc.invert(changes.rows[DELETED])).select(self.columns)
        return in_order(pa.concat_tables([single, rest]), self.key) if single.num_rows else rest

    def _write(self, rows: pa.Table) -> None:
        if rows.num_rows:
            self.writer.write(rows)


def _with_updates(rows: pa.Table, changed: Any, stays: Any, updates: pa.Table) -> pa.Table:
    """Rows with those that changed replaced by their updates, or left out. A sort would cost more than all the rest.

    Args:
        rows: In key order.
        changed: For each row, whether it changed.
        stays: For each row that changed, whether it has an update.
        updates: In the same order.
    """
    pieces = [rows.slice(0, 0)]
    changed, stays = _joined(changed), _joined(stays)
    first = seen = used = 0
    # Batch by batch, as they were read: one without a change is not copied.
    for batch in rows.to_batches():
        count = batch.num_rows
        here = changed.slice(first, count)
        hits = int(pc.sum(here).as_py() or 0)
        piece = pa.Table.from_batches([batch])
        if hits:
            staying = stays.slice(seen, hits).cast(pa.int64())
            updated = int(pc.sum(staying).as_py() or 0)
            # A place in the batch, or behind it among its updates; null for what is left out.
            behind = pc.add(pc.cumulative_sum(staying), pa.scalar(count - 1, pa.int64()))
            behind = pc.if_else(staying.cast(pa.bool_()), behind, pa.scalar(None, pa.int64()))
            places = pc.replace_with_mask(numbers(count), here, behind)
            both = pa.concat_tables([piece, updates.slice(used, updated)]).combine_chunks()
            piece = both.take(pc.drop_null(places))
            seen, used = seen + hits, used + updated
        pieces.append(piece)
        first += count
    return pa.concat_tables(pieces)


def _joined(flags: Any) -> Any:
    return flags.combine_chunks() if isinstance(flags, pa.ChunkedArray) else flags
