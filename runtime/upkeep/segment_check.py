"""Reads all pages of a segment, and compares its rows with what its commit states of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidemark.protocol.changelog.models import Segment, TableSchema
from tidemark.protocol.changelog.segment_files import SegmentFile, batches
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.documents.decoder import decoder
from tidemark.runtime.changelog.segments.segment_writer import EPOCH
from tidemark.runtime.changelog.segments.stated_keys import KeyBox, stated_key

ROWS = 8192
"""Rows in memory at a time."""


def check_segment(store: Store, segment: Segment, schema: TableSchema | None) -> pa.Array[Any]:
    """Checks pages, checksums, columns, offsets, keys and figures.

    Args:
        store: That holds the log.
        segment: As its commit states it.
        schema: By its fingerprint; None where the log has none.

    Returns:
        The offsets of its rows.

    Raises:
        ChangeLogError: ``TM-LOG-009`` it is damaged, missing or another one; ``TM-LOG-002`` nobody knows its schema;
            ``TM-LOG-011`` it cannot be read.
    """
    where = store.where(segment.path)
    if schema is None or schema.fingerprint != segment.fingerprint:
        raise ChangeLogError("TM-LOG-002", f"{where} has the schema {segment.fingerprint}, which no commit introduces")
    found = _Figures(schema)
    with SegmentFile.of(segment).opened(store) as file:
        if not file.schema_arrow.equals(decoder(schema, frozenset()).arrow_schema):
            raise ChangeLogError("TM-LOG-009", f"{where} is damaged: its columns are not those of its schema")
        for batch in batches(file, ROWS, use_threads=True):
            found.add(batch)
    for what, has, stated in found.compared(segment):
        if has != stated:
            raise ChangeLogError(
                "TM-LOG-009", f"{where} is damaged: {what} of its rows are not what the log says of them"
            )
    return found.offsets()


class _Figures:
    """What a commit states of a segment, from its rows."""

    def __init__(self, schema: TableSchema) -> None:
        self._key = stated_key(schema)
        self._box = KeyBox(self._key)
        self._offsets: list[pa.Array[Any]] = []
        self._ascending = True
        self._snapshot_rows = 0
        self._truncated_at: int | None = None
        self._times: list[Any] = []

    def add(self, batch: pa.RecordBatch) -> None:
        rows = pa.Table.from_batches([batch])
        offsets = batch.column("_offset")
        before = self._offsets[-1][-1:] if self._offsets else offsets[:0]
        steps = pc.pairwise_diff(pa.concat_arrays([before, offsets]))
        self._ascending &= pc.min(steps).as_py() is None or pc.min(steps).as_py() > 0
        self._offsets.append(offsets)
        self._snapshot_rows += pc.sum(batch.column("_snapshot")).as_py() or 0
        bounds: Any = pc.min_max(batch.column("_commit_ts"))
        if bounds["min"].is_valid:
            times = [*self._times, bounds["min"].value, bounds["max"].value]
            self._times = [min(times), max(times)]
        truncations: Any = pc.equal(batch.column("_op"), pa.scalar("t"))
        if pc.any(truncations).as_py():
            self._truncated_at = offsets.filter(truncations)[-1].as_py()
            rows = rows.filter(pc.invert(truncations))
        self._box.add(rows.select([*self._key, "_offset"]))

    def offsets(self) -> pa.Array[Any]:
        return pa.concat_arrays(self._offsets)

    def compared(self, segment: Segment) -> list[tuple[str, object, object]]:
        """What it is, what it is by the rows, and what the log states."""
        times = segment.first_commit_ts, segment.last_commit_ts
        stated = [None if time is None else (time - EPOCH) // timedelta(microseconds=1) for time in times]
        key_min, key_max = self._box.finish()
        return [
            ("the offsets", self._ascending, True),
            ("the number that a backfill read", self._snapshot_rows, segment.snapshot_rows),
            ("the truncations", self._truncated_at, segment.truncated_at),
            ("the times", self._times or [None, None], stated),
            ("the keys", (key_min, key_max), (segment.key_min, segment.key_max)),
        ]
