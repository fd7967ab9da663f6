"""Keeps one table up to date with its collection's events.

What is applied is decided by the table's own position, never by where a batch starts: a batch is news that there are
events, and the table takes all it lacks. So a batch that comes twice, or begins elsewhere, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from protocol.changelog import Segment, TableSchema
from protocol.changelog.models import META_COLUMNS
from protocol.errors import SparkError
from spark_sink.changes.net_changes import DELETED, NetChanges, net_changes
from spark_sink.formats.delta_table import PositionedTable
from spark_sink.source.followed_log import FollowedLog, Limits
from spark_sink.source.segment_reader import SegmentFile, read_segments
from spark_sink.tables.column_types import Columns, arrow_schema
from spark_sink.tables.kept_tables import CURRENT, Target
from spark_sink.tables.table_columns import own_columns, with_new_columns

_CURRENT_META = {name: META_COLUMNS[name] for name in ("_offset", "_commit_ts")}
_REDUCED_META = {name: META_COLUMNS[name] for name in ("_op", "_unchanged")}


@dataclass(frozen=True, slots=True)
class CommittedSegment:
    """A segment and the number of the commit that names it."""

    commit: int
    segment: Segment


class TableKeeper:
    """One kept table.

    Args:
        log: Directory of the change log.
        target: Which table, and of which kind.
        warehouse: Where tables are.
        limits: Of what is applied at once.

    Raises:
        SparkError: ``TM-SPK-009`` when there is a table that was not kept from this log.
    """

    def __init__(self, log: Path, target: Target, warehouse: Path, limits: Limits) -> None:
        self.target = target
        self.events = 0
        self._log = FollowedLog(log)
        self.table = PositionedTable(target.path(warehouse), self._log.header.log_id, target.name)
        self._limits = limits
        self._meta = _CURRENT_META if target.kind == CURRENT else META_COLUMNS
        self._fitting: set[str] = set()
        self._key: list[str] = []

    def apply(self, segments: Iterable[CommittedSegment]) -> None:
        """Applies what the table lacks of these segments, which are all there are from its position on, in log order.

        Raises:
            SparkError: ``TM-SPK-005`` for a column whose type changed beyond casting, ``TM-SPK-010`` for another
                writer, ``TM-SPK-011`` for names that a table cannot hold, ``TM-SPK-012`` for another key.
            ChangeLogError: For a damaged or missing segment.
        """
        self.table.refresh()
        position = self.table.position
        for part in _parts((s for s in segments if s.segment.last_offset >= position), self._limits):
            self._apply_part(part)

    def _apply_part(self, part: Sequence[Segment]) -> None:
        start, end = self.table.position, part[-1].last_offset + 1
        self._fit(list(dict.fromkeys(segment.fingerprint for segment in part)))
        columns = self.table.columns
        if self.target.kind == CURRENT:
            events = self._read(part, {**columns, **_REDUCED_META}, start, end)
            self._apply_changes(net_changes(events, self._key, list(columns)), end)
        else:
            self.table.append(self._read(part, columns, start, end), end)
        self.events += sum(segment.rows for segment in part)

    def _apply_changes(self, changes: NetChanges, end: int) -> None:
        rows = changes.rows
        if not changes.truncated and not self.table.surely_lacks(rows, self._key):
            self.table.merge(rows, self._key, changes.partial, end)
            return
        # No row of the target matters: what is not deleted is new.
        new = rows.filter(pc.invert(rows[DELETED])).select(list(self.table.columns))
        if changes.truncated:
            self.table.replace(new, end)
        else:
            self.table.append(new, end)

    def _fit(self, fingerprints: Sequence[str]) -> None:
        """Creates the table or adds columns to it, so that it holds events of these schemas."""
        if self._fitting.issuperset(fingerprints):
            return
        there = {n: t for n, t in self.table.columns.items() if n not in self._meta} if self.table.exists else {}
        summary = self._log.summary()
        newest = summary.schemas[summary.totals[self.target.collection].fingerprint]
        if self.target.kind == CURRENT:
            self._check_key([s for s in summary.schemas.values() if s.collection == self.target.collection])
            self._key = newest.key
        # A new table gets the newest schema there is: a Delta column cannot be widened later.
        columns = with_new_columns(there or own_columns(newest), [summary.schemas[f] for f in fingerprints])
        self._check_names(columns)
        if not self.table.exists:
            self.table.create({**columns, **self._meta}, f"{self.target.kind} of {self.target.table}, kept by tidemark")
        elif added := {name: spark for name, spark in columns.items() if name not in there}:
            self.table.add_columns(added)
        self._fitting.update(fingerprints)

    def _check_key(self, schemas: Sequence[TableSchema]) -> None:
        keys = {frozenset(schema.key): ", ".join(schema.key) for schema in schemas if schema.key}
        if len(keys) > 1:
            raise SparkError("TM-SPK-012", f"{self.target.table} has had the keys ({'), ('.join(keys.values())})")

    def _check_names(self, columns: Columns) -> None:
        seen: dict[str, str] = {}
        for name in [*columns, *self._meta]:
            other = seen.setdefault(name.casefold(), name)
            if other is not name:
                raise SparkError(
                    "TM-SPK-011",
                    f"{self.target.table} has columns {other} and {name}; in Delta their names are the same",
                )

    def _read(self, part: Sequence[Segment], columns: Columns, start: int, end: int) -> pa.Table:
        files = map(SegmentFile.of, part)
        batches = read_segments(self._log.root, files, columns, start, end, threads=True)
        return pa.Table.from_batches(batches, schema=arrow_schema(columns))


def _parts(segments: Iterable[CommittedSegment], limits: Limits) -> Iterator[list[Segment]]:
    """Runs of segments within the limits, cut between commits."""
    part: list[Segment] = []
    events = size = 0
    previous = -1
    for committed in segments:
        segment = committed.segment
        if part and committed.commit != previous and limits.exceeded_by(events + segment.rows, size + segment.size):
            yield part
            part, events, size = [], 0, 0
        part.append(segment)
        events, size, previous = events + segment.rows, size + segment.size, committed.commit
    if part:
        yield part
