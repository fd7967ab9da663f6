"""Reads files of the base as Arrow record batches, where Spark's own reader is not at hand: in a Python data source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.changes.key_order import has_key_of
from tidemark.spark_sink.formats.data_files import KeyBounds
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, conformed
from tidemark.spark_sink.tables.lineage import AS_THEY_ARE, ColumnPlaces
from tidemark.spark_sink.tables.store_place import StorePlace

_ROWS = 131_072
"""Rows of a record batch: the tail's keys are looked up once for each."""

BASE_BYTES = 32 * 1024 * 1024
"""Bytes of the base's files in one partition."""

_MISSING = "is missing: a newer version of the table has replaced it. Read the table again"
"""Said of a file that was there when the read was planned."""


@dataclass(frozen=True, slots=True)
class BaseFiles:
    """Files of a kept table.

    Attributes:
        table: The table's place; None if there are no files.
        paths: Relative to it.
        places: Where they have the columns of a reader.
        floor: Rows with a smaller ``_offset`` do not count.
    """

    table: StorePlace | None
    paths: tuple[str, ...]
    places: ColumnPlaces = AS_THEY_ARE
    floor: int = 0

    def opened(self, path: str) -> AbstractContextManager[pq.ParquetFile]:
        """Opens one of them. Raises what ``StorePlace.parquet`` does."""
        assert self.table is not None, "files have a table"
        return self.table.parquet(path, _MISSING)

    def stored(self, parquet: pq.ParquetFile, schema: pa.Schema) -> list[str]:
        """The names of a file's columns that are read for a schema."""
        wanted = self.places.wanted(parquet.schema_arrow.names, schema)
        return wanted if not self.floor or "_offset" in wanted else [*wanted, "_offset"]

    def rows(self, stored: pa.Table, schema: pa.Schema) -> pa.Table:
        """The rows that count, of such columns, in the schema."""
        if self.floor:
            stored = stored.filter(pc.greater_equal(stored["_offset"], pa.scalar(self.floor)))
        return self.places.rows(stored, schema)


@dataclass(frozen=True, slots=True)
class BoundedFile:
    """A Parquet file of the base, by its path in the table, with its bytes and the bounds of the keys in it."""

    path: str
    size: int
    bounds: KeyBounds


@dataclass(frozen=True, slots=True)
class Base:
    """A version of the kept table, whose rows a tail is laid over.

    Attributes:
        files: That hold its rows.
        table: Its place; None where there are no files.
        version: Of the table, where another engine has given it a feature that only an engine for the format can read;
            its place then counts as the one file. Else None.
        error: That says so.
        columns: Names and types, as the files have them.
        places: Where the files have the columns of the view.
        floor: Rows with a smaller ``_offset`` do not count: the generation that was laid over them is whole.
    """

    files: tuple[BoundedFile, ...] = ()
    table: StorePlace | None = None
    version: int | None = None
    error: SparkError | None = None
    columns: Columns = field(default_factory=dict)
    places: ColumnPlaces = AS_THEY_ARE
    floor: int = 0

    def read(self, files: Iterable[BoundedFile]) -> BaseFiles:
        """Some of its files, for tasks."""
        return BaseFiles(self.table, tuple(file.path for file in files), self.places, self.floor)


def rows_without(files: BaseFiles, columns: Columns, keys: pa.Table | None) -> Iterator[pa.RecordBatch]:
    """The rows of files whose key is none of some keys.

    Args:
        files: The files.
        columns: To read, the key's among them where there are keys; null where a file has none.
        keys: To leave out, with the key's columns only; None to leave out nothing.

    Raises:
        SparkError: ``TM-SPK-015`` for a file that is missing or damaged.
    """
    schema = arrow_schema(columns)
    for path in files.paths:
        with files.opened(path) as parquet:
            for batch in parquet.iter_batches(_ROWS, columns=files.stored(parquet, schema), use_threads=False):
                rows = files.rows(pa.Table.from_batches([batch]), schema)
                if keys is not None and keys.num_rows:
                    rows = rows.filter(pc.invert(has_key_of(rows, keys, keys.column_names)))
                yield from rows.to_batches()


def rows_with(files: BaseFiles, columns: Columns, keys: pa.Table) -> pa.Table:
    """The rows of files whose key is one of some keys. Of a row group without any, only the key is read.

    Raises:
        SparkError: ``TM-SPK-015`` for a file that is missing or damaged.
    """
    schema = arrow_schema(columns)
    key_schema = pa.schema([schema.field(name) for name in keys.column_names])
    found = [schema.empty_table()]
    for path in files.paths:
        with files.opened(path) as parquet:
            names = files.stored(parquet, schema)
            for group in range(parquet.num_row_groups):
                there = conformed(parquet.read_row_group(group, keys.column_names, use_threads=False), key_schema)
                hit = has_key_of(there, keys, keys.column_names)
                if pc.any(hit).as_py():
                    rows = parquet.read_row_group(group, names, use_threads=False)
                    found.append(files.rows(rows.filter(hit), schema))
    return pa.concat_tables(found)
