"""Reads files of the base as Arrow record batches, where Spark's own reader is not at hand: in a Python data source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemark.spark_sink.changes.key_order import has_key_of
from tidemark.spark_sink.changes.sources import opened
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema, conformed
from tidemark.spark_sink.tables.lineage import AS_THEY_ARE, ColumnPlaces

_ROWS = 131_072
"""Rows of a record batch: the tail's keys are looked up once for each."""

_MISSING = "is missing: a newer version of the table has replaced it. Read the table again"
"""Said of a file that was there when the read was planned."""


@dataclass(frozen=True, slots=True)
class BaseFiles:
    """Files of a kept table.

    Attributes:
        paths: Their paths.
        places: Where they have the columns of a reader.
        floor: Rows with a smaller ``_offset`` do not count.
    """

    paths: tuple[str, ...]
    places: ColumnPlaces = AS_THEY_ARE
    floor: int = 0

    def stored(self, parquet: pq.ParquetFile, schema: pa.Schema) -> list[str]:
        """The names of a file's columns that are read for a schema."""
        wanted = self.places.wanted(parquet.schema_arrow.names, schema)
        return wanted if not self.floor or "_offset" in wanted else [*wanted, "_offset"]

    def rows(self, stored: pa.Table, schema: pa.Schema) -> pa.Table:
        """Of such columns, the rows that count, in the schema."""
        if self.floor:
            stored = stored.filter(pc.greater_equal(stored["_offset"], pa.scalar(self.floor)))
        return self.places.rows(stored, schema)


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
        with opened(Path(path), _MISSING) as parquet:
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
        with opened(Path(path), _MISSING) as parquet:
            names = files.stored(parquet, schema)
            for group in range(parquet.num_row_groups):
                there = conformed(parquet.read_row_group(group, keys.column_names, use_threads=False), key_schema)
                hit = has_key_of(there, keys, keys.column_names)
                if pc.any(hit).as_py():
                    rows = parquet.read_row_group(group, names, use_threads=False)
                    found.append(files.rows(rows.filter(hit), schema))
    return pa.concat_tables(found)
