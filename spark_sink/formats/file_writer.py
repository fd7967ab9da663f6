"""Writes sorted rows as Parquet files of bounded size, cut so that ranges of the key's columns alone locate a key.

The boundary between two rows has a *level*: the place, from 1, of the first key column in which they differ. A file is
cut only at boundaries whose level is not above that of any boundary inside it, on either end. So a file holds whole
runs of equal leading values, or a part of a single run, and within that the same holds for the next key column. The
boxes that enclose the keys of two files are then disjoint: they differ in the column of the lowest level between them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.protocol.store.arrow_files import UploadFile
from tidemark.spark_sink.formats.data_files import DataFile
from tidemark.spark_sink.formats.file_statistics import delta_statistics
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace

_DICTIONARY_BYTES = 64 * 1024
"""The largest dictionary. Dictionaries save time and space only for columns with few values."""

_GROUP_ROWS = 128 * 1024
_GROUP_BYTES = 16 * 2**20
_RUN_BYTES = 64 * 2**20
"""The largest row group, and the largest run that waits in memory for its end, in Arrow's format."""

_OVERFULL = 1.25
"""The last file may grow to this multiple of its target, so that no tiny file follows it."""


class FileWriter:
    """Writes the rows of one task to new files.

    Args:
        root: The table's place.
        columns: Names and Spark types of the table's columns.
        key: Names of the key's columns, in order; empty if rows have no order.
        target_bytes: About the size of a file.

    Raises:
        SparkError: ``TM-SPK-015`` from every method, when a file cannot be written.
    """

    def __init__(self, root: StorePlace, columns: Columns, key: Sequence[str], target_bytes: int) -> None:
        self._root = root
        self._columns = dict(columns)
        self._schema = arrow_schema(columns)
        self._key = list(key)
        self._target = target_bytes
        self._finished: list[DataFile] = []
        self._file: _OpenFile | None = None
        self._arrived: list[pa.Table] = []
        self._arrived_rows = self._arrived_bytes = 0
        self._pending = self._schema.empty_table()
        self._levels: pa.ChunkedArray[Any] = pa.chunked_array([], pa.int8())
        self._last_key: pa.Table | None = None
        self._start_level = 1
        """The level of the boundary at which the present file begins."""
        self._written = self._arrow_bytes = 0

    def write(self, rows: pa.Table) -> None:
        """Writes rows, which ascend by key over all calls."""
        if not rows.num_rows:
            return
        self._arrived.append(rows.select(list(self._columns)).cast(self._schema))
        self._arrived_rows += rows.num_rows
        self._arrived_bytes += rows.nbytes
        # Few large chunks of pending rows cost less than many small ones.
        if self._arrived_rows * 8 >= _GROUP_ROWS or self._arrived_bytes * 8 >= _GROUP_BYTES:
            self._take_arrived()
            while self._step(ended=False):
                pass

    def cut(self) -> None:
        """Ends the present file. The next rows begin a new one, since other files lie between."""
        self._take_arrived()
        while self._step(ended=True):
            pass
        self._close_file()
        self._last_key = None
        self._start_level = 1

    def finish(self) -> list[DataFile]:
        """Writes the remaining rows, and closes the last file.

        Returns:
            The new files in key order, durable.
        """
        self.cut()
        if self._finished:
            with _writing(self._root, ""):
                self._root.store.sync([file.path for file in self._finished])
        return self._finished

    def discard(self) -> None:
        """Deletes all files that were written."""
        if self._file is not None:
            self._file.discard()
            self._file = None
        for file in self._finished:
            with _writing(self._root, file.path):
                self._root.store.delete(file.path)
        self._finished = []

    def _take_arrived(self) -> None:
        """Adds the arrived rows to the pending rows, as one chunk."""
        if self._arrived:
            rows = pa.concat_tables(self._arrived).combine_chunks()
            levels = self._boundary_levels(rows)
            self._pending = pa.concat_tables([self._pending, rows])
            self._levels = pa.chunked_array([*self._levels.chunks, *levels.chunks], pa.int8())
            self._arrived, self._arrived_rows, self._arrived_bytes = [], 0, 0

    def _boundary_levels(self, rows: pa.Table) -> pa.ChunkedArray[Any]:
        """The level of the boundary before each row. Rows without a key may be cut anywhere."""
        deepest = max(1, len(self._key))
        levels: Any = pa.repeat(pa.scalar(deepest, pa.int8()), rows.num_rows)
        if self._key:
            keys = rows.select(self._key)
            before = keys.slice(0, 1) if self._last_key is None else self._last_key
            previous = pa.concat_tables([before, keys.slice(0, rows.num_rows - 1)])
            self._last_key = keys.slice(rows.num_rows - 1)
            # From the last column to the first: the first difference wins.
            for level in range(deepest - 1, 0, -1):
                now, then = keys.column(level - 1), previous.column(level - 1)
                both_null: Any = pc.and_(pc.is_null(now), pc.is_null(then))
                equal: Any = pc.equal(now, then)  # null where either is
                same: Any = pc.or_(pc.fill_null(equal, False), both_null)
                levels = pc.if_else(same, levels, pa.scalar(level, pa.int8()))
        return levels if isinstance(levels, pa.ChunkedArray) else pa.chunked_array([levels])

    def _step(self, *, ended: bool) -> bool:
        """Writes rows or closes a file, if either is due.

        Before every step the lowest level inside the present file is also that of the boundary behind what is written,
        so that the file may always be cut there.

        Args:
            ended: No more rows will come.

        Returns:
            Whether something was done, so that there may be more to do.
        """
        waiting = self._pending.num_rows
        if not waiting:
            return False
        row_bytes = max(1.0, self._pending.nbytes / waiting)
        group = max(1, int(min(_GROUP_ROWS, min(_GROUP_BYTES, self._target) / row_bytes)))
        if not self._arrow_bytes and waiting > group:
            # Where to cut depends on how well the rows compress, which these show.
            return self._write(self._last_lowest(group), group)
        # A run of which an earlier file has a part ends together with this file.
        end = self._first_below(self._start_level)
        if end == 0:
            return self._cut(0)
        bounded = ended or end < waiting
        if bounded and end <= self._fitting(row_bytes, _OVERFULL):
            return self._write(end, group)
        if not bounded and waiting < max(2, group):
            return False
        fitting = self._fitting(row_bytes)
        if fitting < end:
            return self._cut(self._last_lowest(fitting), group)
        # What is behind the last boundary of the lowest level may yet turn out not to fit.
        ready = self._last_lowest((waiting - 1) // group * group or waiting - 1)
        waits_too_long = (waiting - ready) * row_bytes > _RUN_BYTES
        if ready and (ready >= group // 2 or waits_too_long):
            return self._write(ready, group)
        return waits_too_long and self._cut(0)

    def _fitting(self, row_bytes: float, share: float = 1.0) -> int:
        """How many rows fit into the present file: at least one, if the file is empty."""
        compressed = self._written / self._arrow_bytes if self._arrow_bytes else 1
        if self._file is None:
            return max(1, int(self._target * share / (row_bytes * compressed)))
        return max(0, int((self._target * share - self._file.size) / (row_bytes * compressed)))

    def _first_inside(self) -> int:
        """The first pending row before which there is a boundary inside the present file, or at its end."""
        return 0 if self._file is not None else 1

    def _first_below(self, level: int) -> int:
        """The first boundary below a level, else the number of pending rows."""
        first = self._first_inside()
        levels: Any = self._levels.slice(first)
        found = int(pc.index(pc.less(levels, pa.scalar(level)), True).as_py())
        return self._pending.num_rows if found < 0 else first + found

    def _last_lowest(self, most: int) -> int:
        """The last boundary of the lowest level that leaves at most so many rows in the present file."""
        first = self._first_inside()
        levels = self._levels.slice(first, max(1, most + 1 - first))
        lowest: Any = pc.equal(levels, pc.min(levels))
        return first + int(pc.indices_nonzero(lowest)[-1].as_py())

    def _write(self, rows: int, group: int) -> bool:
        """Moves the first pending rows into the present file."""
        if self._file is None:
            self._file = _OpenFile(self._root, self._columns, self._schema, self._key)
        part, before = self._pending.slice(0, rows), self._file.size
        self._file.write(part, group)
        self._written += self._file.size - before
        self._arrow_bytes += part.nbytes
        self._pending, self._levels = self._pending.slice(rows), self._levels.slice(rows)
        return True

    def _cut(self, rows: int, group: int = 1) -> bool:
        """Closes the present file behind the first pending rows."""
        if rows:
            self._write(rows, group)
        self._start_level = self._levels[0].as_py()
        self._close_file()
        return True

    def _close_file(self) -> None:
        if self._file is not None:
            self._finished.append(self._file.finish())
            self._file = None


class _OpenFile:
    """A file that is being written."""

    def __init__(self, root: StorePlace, columns: Columns, schema: pa.Schema, key: Sequence[str]) -> None:
        self._name = f"part-{uuid.uuid4()}.zstd.parquet"
        self._root = root
        self._columns = columns
        self._key = key
        self._nulls = dict.fromkeys(columns, 0)
        self._doubles: dict[str, tuple[float, float] | None] = {}
        self._metadata: list[pq.FileMetaData] = []
        # Dictionaries for all but the offsets, which have about one value a row.
        dictionaries: Any = [
            f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
            for field in schema
            if field.name != "_offset"
        ]
        with _writing(root, self._name):
            self._upload = root.store.upload(self._name)
            self._sink = pa.PythonFile(UploadFile(self._upload), "w")
            self._parquet = pq.ParquetWriter(
                self._sink,
                schema,
                # Of snappy, lz4 and zstd at 1 and 3, measured on mixed columns: the least CPU, half of snappy's size.
                compression="zstd",
                compression_level=1,
                dictionary_pagesize_limit=_DICTIONARY_BYTES,
                use_dictionary=dictionaries,
                # Those of doubles leave out NaN. Spark, for which it is the greatest number, would skip rows with it.
                write_statistics=[name for name, type_ in columns.items() if type_ != "double"],
                column_encoding={"_offset": "DELTA_BINARY_PACKED"} if "_offset" in columns else None,
                write_page_checksum=True,
                metadata_collector=self._metadata,
            )

    @property
    def size(self) -> int:
        """Bytes so far."""
        return int(self._sink.tell())

    def write(self, rows: pa.Table, group: int) -> None:
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            self._nulls[name] += column.null_count
            if self._columns[name] == "double" and column.null_count < rows.num_rows:
                ends = _ends(column)
                before = self._doubles.get(name, ends)
                self._doubles[name] = ends and before and (min(ends[0], before[0]), max(ends[1], before[1]))
        with _writing(self._root, self._name):
            self._parquet.write_table(rows, row_group_size=group)

    def finish(self) -> DataFile:
        with _writing(self._root, self._name):
            self._parquet.close()
            self._sink.close()
            size = self._upload.finish()
        (metadata,) = self._metadata
        stats = delta_statistics(metadata, self._columns, self._key, self._nulls, self._doubles)
        return DataFile(self._name, size, metadata.num_rows, stats)

    def discard(self) -> None:
        self._parquet.is_open = False  # it is not to write a footer any more
        with _writing(self._root, self._name):
            self._upload.discard()


def _ends(column: Any) -> tuple[float, float] | None:
    """The smallest and the largest value of doubles; None where one is not a number."""
    if pc.any(pc.is_nan(column)).as_py():
        return None
    ends: Any = pc.min_max(column)
    return ends["min"].as_py(), ends["max"].as_py()


@contextmanager
def _writing(root: StorePlace, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise root.failed(error, path) from error
