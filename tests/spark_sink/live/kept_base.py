"""Makes the kept table that a live view begins from, as it must be at some offset, without the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.spark_sink.log_builder import LogBuilder
from tidemark.protocol.changelog.models import META_COLUMNS
from tidemark.spark_sink.changes.key_order import in_order
from tidemark.spark_sink.formats.delta_table import PositionedTable
from tidemark.spark_sink.formats.file_writer import FileWriter
from tidemark.spark_sink.formats.positions import Position
from tidemark.spark_sink.tables.column_types import arrow_schema
from tidemark.spark_sink.tables.kept_tables import Target
from tidemark.spark_sink.tables.store_place import StorePlace

ROW_META = {name: META_COLUMNS[name] for name in ("_offset", "_commit_ts")}


def kept(log: LogBuilder, warehouse: Path, collection: str = "public/items") -> PositionedTable:
    target = Target(collection, "current")
    return PositionedTable(target.place(StorePlace.of(warehouse)), "log-1", target.name)


def fold(
    table: PositionedTable,
    own: Mapping[str, str],
    key: list[str],
    rows: Iterable[Mapping[str, Any]],
    position: int,
    rows_a_file: int = 3,
) -> None:
    """Replaces all that a table holds, with a few rows in each file, in key order."""
    columns = {**own, **ROW_META}
    if not table.exists:
        table.create(columns, "for a test")
    elif added := {name: spark for name, spark in columns.items() if name not in table.columns}:
        table.add_columns(added)
    held = pa.Table.from_pylist([dict(row) for row in rows], arrow_schema(columns))
    ordered = in_order(held, key)
    adds = []
    for start in range(0, ordered.num_rows, rows_a_file):
        writer = FileWriter(table.place, columns, key, 1 << 20)
        writer.write(ordered.slice(start, rows_a_file))
        adds += writer.finish()
    table.commit(adds, [file.path for file in table.files()], Position(position))
