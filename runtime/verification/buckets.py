"""Rows with digests by the thousand million: those with the same id come together, and memory holds a part of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.verification.digests import DIGEST

pc: Any = pyarrow.compute

ROWS = 4_000_000
"""About so many are in a bucket: some 500 MB while they are sorted."""

MOST = 256
"""Ids are divided by their first bits."""

WRITTEN = 1_024
"""About so many rows go into a bucket's file at once."""


class Buckets:
    """Gathers rows with a column ``id``, which is a digest, and gives them back a bucket at a time.

    One bucket stays in memory; several are files in a temporary folder, until the object is left.

    Args:
        schema: Of the rows.
        rows: About how many will come.
        folder: In which the temporary folder is made; None for the system's own.
    """

    def __init__(self, schema: pa.Schema, rows: int, folder: Path | None = None) -> None:
        self._schema = schema
        self._count = next(count for count in (1, 4, 16, 64, MOST) if rows <= count * ROWS or count == MOST)
        self._gathered: list[pa.Table] = []
        self._files: list[pa.ipc.RecordBatchStreamWriter] = []
        self._folder: TemporaryDirectory[str] | None = None
        if self._count > 1:
            self._folder = TemporaryDirectory(prefix="tidemark-verify-", dir=folder)
            self._files = [pa.ipc.new_stream(str(self._path(number)), schema) for number in range(self._count)]

    def add(self, rows: pa.Table) -> None:
        """Takes rows."""
        self._gathered.append(rows)
        if self._files and sum(each.num_rows for each in self._gathered) >= self._count * WRITTEN:
            self._write()

    def tables(self) -> Iterator[pa.Table]:
        """All rows, a bucket at a time. None comes afterwards."""
        if not self._files:
            yield pa.concat_tables([self._schema.empty_table(), *self._gathered])
            return
        self._write()
        for file in self._files:
            file.close()
        for number in range(self._count):
            with pa.memory_map(str(self._path(number))) as stored, pa.ipc.open_stream(stored) as stream:
                yield stream.read_all()

    def _write(self) -> None:
        rows = pa.concat_tables([self._schema.empty_table(), *self._gathered]).combine_chunks()
        self._gathered.clear()
        number = pc.shift_right(rows.column("id"), pa.scalar(65 - self._count.bit_length(), DIGEST)).cast(pa.uint8())
        # Of numbers in one byte Arrow counts each, and compares none.
        rows = rows.take(pc.sort_indices(number))
        counts = {each["values"]: each["counts"] for each in pc.value_counts(number).to_pylist()}
        start = 0
        for each, count in sorted(counts.items()):
            self._files[each].write_table(rows.slice(start, count))
            start += count

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / f"{number}.arrow"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            for file in self._files:
                file.close()
            self._folder.cleanup()
