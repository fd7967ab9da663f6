"""Segments: Parquet files of one collection and one schema, written a row group at a time.

A file is not part of the log until a commit names it, so it is written under its final name.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.protocol.changelog.models import LONGEST_RUN, Segment, TableSchema
from tidemark.protocol.store import Store
from tidemark.protocol.store.arrow_files import parquet_sink
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.changelog.segments.key_runs import KeyRuns
from tidemark.runtime.changelog.segments.stated_keys import KeyBox, stated_key

_DICTIONARY_BYTES = 64 * 1024
"""The most bytes of a dictionary: it is useful for columns of few values, and costs time and space for others."""

_LOOKED_AT = 2048
"""The number of a segment's first rows that show whether a column has few values."""

_TOO_FEW = 64
"""So many values, or fewer, show nothing."""

_GROUP_ROWS = 8192
"""The fewest rows of a row group: each has its own pages and statistics for every column."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Times count from here."""


class SegmentWriter:
    """Writes one segment.

    Args:
        store: That holds the log.
        path: Its path relative to the log. It must not exist.
        table: The table of the rows, and its key.
        fingerprint: Of ``table``.
        schema: The columns of the rows.
        generation: Of the rows.
        takes_large: Values may have many megabytes. Then only the key, the offset and the time have statistics: those
            of other columns would hold copies of two values, and Parquet leaves out any of more than 4 KB.
        group_rows: The fewest rows of a row group that ends at a break of the keys.
        longest_run: The most rows of a run.

    Raises:
        ChangeLogError: ``TM-LOG-008`` from every method.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        table: TableSchema,
        fingerprint: str,
        schema: pa.Schema,
        *,
        generation: int | None = 1,
        takes_large: bool = False,
        group_rows: int = _GROUP_ROWS,
        longest_run: int = LONGEST_RUN,
    ) -> None:
        self.path = path
        self.collection = table.collection
        self.fingerprint = fingerprint
        self.generation = generation
        self.takes_large = takes_large
        self._where = store.where(path)
        self._group_rows = group_rows
        self._schema = schema
        stated = {*table.key, "_offset", "_commit_ts"} if takes_large else set(schema.names)
        # Parquet's statistics leave NaN out. Spark, for which it is the greatest number, would skip rows that have it.
        doubles = {field.name for field in schema if pa.types.is_floating(field.type)}
        self._statistics: Any = sorted(stated - doubles)
        self._rows = 0
        self._snapshot_rows = 0
        self._first_offset = self._last_offset = -1
        self._commit_times: list[int] = []
        self._uncompressed = 0
        self._truncated_at: int | None = None
        self._key = stated_key(table)
        self._box = KeyBox(self._key)
        self._runs = KeyRuns(self._key, longest_run)
        self._held: pa.Table | None = None
        with writing(self._where):
            self._upload = store.upload(path)
            self._sink = parquet_sink(self._upload)
        self._parquet: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Appends rows in the order of ``_offset``, as one or several row groups.

        Ranges of a backfill that are read at the same time alternate, and a reader separates them again. So a row group
        ends at a break of the keys: otherwise the reader of one range would decode much of the others.
        """
        offsets = table.column("_offset")
        if not self._rows:
            self._first_offset = offsets[0].as_py()
        self._last_offset = offsets[-1].as_py()
        self._rows += table.num_rows
        self._uncompressed += table.nbytes
        bounds: Any = pc.min_max(table.column("_commit_ts"))
        if bounds["min"].is_valid:
            times = [*self._commit_times, bounds["min"].value, bounds["max"].value]
            self._commit_times = [min(times), max(times)]
        breaks = self._note_truncation_and_keys(table)
        if self._held is not None:
            breaks = [place + self._held.num_rows for place in breaks]
            table = pa.concat_tables([self._held, table])
            self._held = None
        start = 0
        for end in breaks:
            if end - start >= self._group_rows:
                self._write_group(table.slice(start, end - start))
                start = end
        rest = table.slice(start)
        if start and rest.num_rows < self._group_rows:
            # A copy: a slice would keep the whole block in memory.
            self._held = rest.take(pa.array(range(rest.num_rows)))
        else:
            self._write_group(rest)

    def _write_group(self, rows: pa.Table) -> None:
        with writing(self._where):
            if self._parquet is None:
                self._parquet = self._begun(rows)
            self._parquet.write_table(rows, row_group_size=rows.num_rows)

    def _begun(self, rows: pa.Table) -> pq.ParquetWriter:
        """The writer of the file, whose first rows these are.

        Integers and times are written as differences: measured, that takes a quarter to nine tenths of the time of a
        dictionary, and a third more for random numbers of 64 bits; successive ones need hardly any space. Spark 3.3 and
        later, Arrow, DuckDB and Polars read it.
        """
        dictionaries: Any = []
        encodings: Any = {}
        for field, column in zip(self._schema, rows.columns, strict=True):
            if pa.types.is_integer(field.type) or pa.types.is_temporal(field.type):
                encodings[field.name] = "DELTA_BINARY_PACKED"
            elif pa.types.is_list(field.type):
                dictionaries.append(f"{field.name}.list.element")
            elif _has_few_values(column):
                dictionaries.append(field.name)
        return pq.ParquetWriter(
            self._sink,
            self._schema,
            compression="zstd",
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            use_dictionary=dictionaries,
            write_statistics=self._statistics,
            column_encoding=encodings,
            write_page_checksum=True,
        )

    def _note_truncation_and_keys(self, table: pa.Table) -> list[int]:
        """Returns the rows, counted from 0, that begin runs of backfilled rows."""
        breaks: list[int] = []
        snapshot = table.column("_snapshot")
        snapshot_rows: int = pc.sum(snapshot).as_py()
        self._snapshot_rows += snapshot_rows
        rows = table.select([*self._key, "_offset"])
        if snapshot_rows == table.num_rows:
            breaks = self._runs.add(rows)
        elif snapshot_rows:
            places = pc.indices_nonzero(snapshot)
            breaks = [places[place].as_py() for place in self._runs.add(rows.filter(snapshot))]
        truncations: Any = pc.equal(table.column("_op"), pa.scalar("t"))
        if pc.any(truncations).as_py():
            self._truncated_at = rows.column("_offset").filter(truncations)[-1].as_py()
            rows = rows.filter(pc.invert(truncations))
        self._box.add(rows)
        return breaks

    @property
    def empty(self) -> bool:
        """Whether no row was written."""
        return not self._rows

    def finish(self) -> Segment:
        """Closes the file; it is not synced yet."""
        if self._held is not None:
            self._write_group(self._held)
        assert self._parquet is not None
        with writing(self._where):
            self._parquet.close()
            self._sink.close()
            size = self._upload.finish()
        first, last = (
            (EPOCH + timedelta(microseconds=t) for t in self._commit_times) if self._commit_times else (None, None)
        )
        key_min, key_max = self._box.finish()
        return Segment(
            collection=self.collection,
            path=self.path,
            rows=self._rows,
            size=size,
            uncompressed=self._uncompressed,
            first_offset=self._first_offset,
            last_offset=self._last_offset,
            first_commit_ts=first,
            last_commit_ts=last,
            fingerprint=self.fingerprint,
            generation=self.generation,
            snapshot_rows=self._snapshot_rows,
            truncated_at=self._truncated_at,
            key_min=key_min,
            key_max=key_max,
            runs=self._runs.finish(),
        )

    def discard(self) -> None:
        """Deletes the file, whether finished or not."""
        if self._parquet is not None:
            self._parquet.is_open = False  # prevents a footer
        with suppress(OSError):  # What is written last is discarded, too.
            self._sink.close()
        with writing(self._where):
            self._upload.discard()


def _has_few_values(column: pa.ChunkedArray[Any]) -> bool:
    """Whether a dictionary is worth it, or may be: with one, each value costs the search for it, too."""
    first = column.slice(0, _LOOKED_AT)
    distinct: int = pc.count_distinct(first).as_py()
    return distinct <= max(len(first) * 3 // 4, _TOO_FEW)
