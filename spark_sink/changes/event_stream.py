"""Events in key order, taken a bounded number at a time, never a key in two pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tidemark.spark_sink.changes.key_order import Place, count_before, place_of
from tidemark.spark_sink.source.arrow_handover import unpacked
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.table_columns import EVENT_META

ROWS = 131_072
BYTES = 64 * 1024 * 1024
"""Events that are in memory at once: until one of these is reached."""


class EventStream:
    """Events sorted by key and offset, of which the next ones are taken.

    Args:
        batches: With the table's columns, ``_op`` and ``_unchanged``. No TRUNCATE is among them.
        key: Names of the key's columns.
        rows: To have in memory at once, about.
        size: Bytes to have in memory at once, about.
    """

    def __init__(
        self, batches: Iterator[pa.RecordBatch], key: Sequence[str], *, rows: int = ROWS, size: int = BYTES
    ) -> None:
        self._batches = batches
        self._key = list(key)
        self._rows = rows
        self._size = size
        self._held: pa.Table | None = None
        self._ended = False

    def next_key(self) -> Place | None:
        """The key of the next event; None when there is none."""
        while (self._held is None or not self._held.num_rows) and self._pull():
            pass
        return place_of(self._held, self._key, 0) if self._held is not None and self._held.num_rows else None

    def take(self, bound: Place | None) -> pa.Table | None:
        """The next events below a bound (all when it is None), with all events of every key among them.

        Returns:
            None when there is none below the bound.
        """
        while True:
            first = self.next_key()
            if first is None or (bound is not None and first >= bound):
                return None
            while self._is_small() and not self._reaches(bound) and self._pull():
                pass
            held = self._held
            assert held is not None
            count = held.num_rows
            if bound is not None:
                count = count_before(held, self._key, bound)
            if count == held.num_rows and not self._ended:
                # The last key's events may go on in the next batch.
                count = count_before(held, self._key, place_of(held, self._key, held.num_rows - 1))
            if count:
                self._held = held.slice(count)
                return held.slice(0, count)
            # One key has more events than there should be in memory.
            self._held = _fewer(held)
            self._pull()

    def _is_small(self) -> bool:
        return self._held is None or (self._held.num_rows < self._rows and self._held.nbytes < self._size)

    def _reaches(self, bound: Place | None) -> bool:
        held = self._held
        return bound is not None and held is not None and place_of(held, self._key, held.num_rows - 1) >= bound

    def _pull(self) -> bool:
        """Takes in one more batch. Returns whether there was one."""
        batch = next(self._batches, None)
        if batch is None:
            self._ended = True
            return False
        more = pa.Table.from_batches([batch])
        self._held = more if self._held is None or not self._held.num_rows else pa.concat_tables([self._held, more])
        return True


def key_by_key(batches: Iterable[pa.RecordBatch], key: Sequence[str], columns: Columns) -> Iterator[pa.Table]:
    """Events that Spark brings, in bounded memory: each key's all at once.

    Args:
        batches: Packed events with ``columns`` and ``EVENT_META``, in order of key and offset. No TRUNCATE is among
            them.
        key: Names of the key's columns.
        columns: Of the table, and their Spark types.
    """
    schema = arrow_schema({**columns, **EVENT_META})
    # Spark gives times in the session's zone.
    events = EventStream((unpacked(batch, schema.names).cast(schema) for batch in batches), key)
    while (taken := events.take(None)) is not None:
        yield taken


def _fewer(events: pa.Table) -> pa.Table:
    """Those of one key's events that decide what its row is, whatever row of the table or of a backfill it had before.

    They are the newest event, the newest that carried each column, and the last delete, before which nothing counts.
    """
    ops: list[Any] = events.column("_op").to_pylist()
    unchanged: list[Any] = events.column("_unchanged").to_pylist()
    wanted = {name for names in unchanged for name in names or ()}
    kept = {events.num_rows - 1}
    for index in range(events.num_rows - 1, -1, -1):
        if ops[index] == "d":
            kept.add(index)
            break
        carried = wanted.difference(unchanged[index] or ())
        if carried:
            kept.add(index)
            wanted -= carried
        if not wanted:
            break
    return events.take(sorted(kept))
