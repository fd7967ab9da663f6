"""The rows of the table ``bench`` into Parquet, as one writes it in a minute. Each is a process that is timed.

    python -m benchmarks.peers.by_hand copy PARQUET psql …
    python -m benchmarks.peers.by_hand copy_as PARQUET SCHEMA psql …
    python -m benchmarks.peers.by_hand adbc PARQUET URI
    python -m benchmarks.peers.by_hand dlt FOLDER URL

It ends once the files are on the disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = "id, customer, quantity, price::text AS price, created, updated, note, paid, weight, attributes::text"


def copy(path: str, *command: str) -> None:
    """``COPY … TO STDOUT (FORMAT csv)`` by psql, or ``mariadb --quick --batch``, read by pyarrow.csv with a schema."""
    psql = command[0].endswith("psql")
    types: dict[str, pa.DataType] = {
        "id": pa.int64(),
        "customer": pa.int64(),
        "quantity": pa.int64(),
        "price": pa.decimal128(12, 2),
    }
    types |= {"created": pa.timestamp("us"), "updated": pa.timestamp("us", "UTC" if psql else None)}
    types |= {"note": pa.string(), "paid": pa.bool_() if psql else pa.int64(), "weight": pa.float64()}
    types |= {"attributes": pa.string()}
    _copied(path, pa.schema(types), command)


def copy_as(path: str, schema: str, *command: str) -> None:
    """As ``copy``, of a table with other columns: a file has them, as Arrow writes a schema."""
    _copied(path, pa.ipc.read_schema(pa.py_buffer(Path(schema).read_bytes())), command)


def _copied(path: str, schema: pa.Schema, command: Sequence[str]) -> None:
    from pyarrow import csv

    psql = command[0].endswith("psql")
    parsers: list[Any] = [csv.ISO8601, "%Y-%m-%d %H:%M:%S+00"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        reader = csv.open_csv(
            server.stdout,
            csv.ReadOptions(column_names=schema.names, block_size=4 << 20, use_threads=False),
            csv.ParseOptions() if psql else csv.ParseOptions(delimiter="\t", quote_char=False),
            csv.ConvertOptions(
                column_types=schema,
                true_values=["t"],
                false_values=["f"],
                timestamp_parsers=parsers,
            ),
        )
        _write(path, reader.schema, reader)


def adbc(path: str, uri: str) -> None:
    """ADBC, which reads a binary COPY into Arrow. It has numbers of any length as text only."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {COLUMNS} FROM bench")
        reader = cursor.fetch_record_batch()
        price = reader.schema.get_field_index("price")
        schema = reader.schema.set(price, pa.field("price", pa.decimal128(12, 2)))
        typed = (
            batch.set_column(price, schema.field(price), batch.column(price).cast(schema.field(price).type))
            for batch in reader
        )
        _write(path, schema, typed)


def dlt(folder: str, url: str) -> None:
    """dlt with ConnectorX, as its documents show it, into files of Parquet."""
    import dlt as loaded
    from dlt.sources.sql_database import sql_table

    destination = loaded.destinations.filesystem(bucket_url=f"{folder}/files")
    pipeline = loaded.pipeline("bench", pipelines_dir=f"{folder}/work", destination=destination, dataset_name="bench")
    pipeline.run(
        sql_table(url, table="bench", backend="connectorx"), loader_file_format="parquet"
    ).raise_on_failed_jobs()
    for file in Path(folder, "files", "bench", "bench").glob("*.parquet"):
        _sync(file)


def _write(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
    _sync(Path(path))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


if __name__ == "__main__":
    _, way, target, *source = sys.argv
    ways: dict[str, Callable[..., None]] = {"copy": copy, "copy_as": copy_as, "adbc": adbc, "dlt": dlt}
    ways[way](target, *source)
