"""Ingest: documents to a committed change log, against pyarrow's own JSON reader and Parquet writer.

``python -m benchmarks.ingest [--rows N] [--rounds N]``. The reader is given its best case: the same documents without
their JSON column, whose text it cannot keep; one file in memory; a schema, so that it need not guess. Both sides may
use every core; both end in a synced Parquet file. They alternate, and medians are printed.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from benchmarks.processor_time import Spent
from benchmarks.results import in_turn, report
from tidemark.runtime.changelog.writer import LogWriter

RUN = 500
"""Documents per ``Batch.add``, as a reader finds them in one read of a pipe."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "_meta": {"type": "object"},
        "id": {"type": "integer"},
        "quantity": {"type": ["integer", "null"]},
        "price": {"type": "string", "format": "number", "x-precision": 12, "x-scale": 2},
        "placed": {"type": "string", "format": "date-time", "x-local": True},
        "paid": {"type": ["string", "null"], "format": "date-time"},
        "status": {"type": "string"},
        "gift": {"type": "boolean"},
        "weight": {"type": ["number", "string"], "format": "number"},
        "note": {"type": ["string", "null"]},
        "details": {},
    },
}

ARROW = pa.schema(
    [
        pa.field(
            "_meta",
            pa.struct(
                [
                    ("op", pa.string()),
                    (
                        "source",
                        pa.struct([("ts_ms", pa.int64()), ("loc", pa.list_(pa.int64())), ("txid", pa.int64())]),
                    ),
                ]
            ),
        ),
        pa.field("id", pa.int64()),
        pa.field("quantity", pa.int64()),
        pa.field("price", pa.decimal128(12, 2)),
        pa.field("placed", pa.timestamp("us")),
        pa.field("paid", pa.timestamp("us", "UTC")),
        pa.field("status", pa.string()),
        pa.field("gift", pa.bool_()),
        pa.field("weight", pa.float64()),
        pa.field("note", pa.string()),
    ]
)


def documents(rows: int, details: bool) -> list[bytes]:
    """Orders as a connector writes them, about 330 bytes each; a tenth of the nullable values are null."""
    rng = random.Random(1)
    result = []
    for id in range(rows):
        moment = (
            f"2026-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}T10:{rng.randrange(60):02d}:00.{id % 10**6:06d}"
        )
        members = [
            f'{{"_meta":{{"op":"{rng.choice("cccuud")}","source":{{"ts_ms":{1_790_000_000_000 + id // 7},'
            f'"loc":[{26_544_680 + id},{26_544_736 + id},{26_544_904 + id}],"txid":{745 + id // 20}}}}}',
            f'"id":{id}',
            f'"quantity":{rng.choice([*range(9), "null"])}',
            f'"price":"{rng.randrange(10**6)}.{rng.randrange(100):02d}"',
            f'"placed":"{moment}"',
            '"paid":' + ("null" if id % 10 == 0 else f'"{moment}Z"'),
            f'"status":"{rng.choice(["new", "paid", "packed", "shipped"])}"',
            f'"gift":{rng.choice(["true", "false"])}',
            f'"weight":{rng.random() * 100!r}',
            f'"note":"leave it with the neighbour at number {rng.randrange(10**5)}"',
        ]
        if details:
            members.append(f'"details":{{"colour": "c{rng.randrange(100)}", "sizes": [1, {rng.randrange(50)}, 1.50]}}')
        result.append((",".join(members) + "}").encode())
    return result


def ours(docs: list[bytes], folder: Path) -> None:
    with LogWriter.open(folder / "log", "benchmark") as log:
        orders = log.bind("public/orders", SCHEMA, ["id"])
        batch = log.begin()
        for start in range(0, len(docs), RUN):
            batch.add(orders, docs[start : start + RUN])
        log.commit(batch, {}, 1)


def pyarrow_json(lines: bytes, folder: Path) -> None:
    table = pj.read_json(
        io.BytesIO(lines),
        read_options=pj.ReadOptions(block_size=4 << 20),
        parse_options=pj.ParseOptions(explicit_schema=ARROW, unexpected_field_behavior="error"),
    )
    path = folder / "table.parquet"
    pq.write_table(table.flatten().flatten(), path, compression="zstd", row_group_size=65_536)
    with path.open("rb") as file:
        os.fsync(file.fileno())


def measure(work: Callable[[Path], None]) -> Spent:
    """Of this process."""
    with tempfile.TemporaryDirectory() as folder:
        seconds, processor = time.perf_counter(), time.process_time()
        work(Path(folder))
        return Spent(time.perf_counter() - seconds, time.process_time() - processor)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    docs = documents(options.rows, details=True)
    plain = b"\n".join(documents(options.rows, details=False))
    sides = {
        "pyarrow.json": partial(measure, lambda folder: pyarrow_json(plain, folder)),
        "tidemark": partial(measure, lambda folder: ours(docs, folder)),
    }
    in_turn(sides, 1)  # The first round warms both up.
    report(f"{options.rows:,} rows", in_turn(sides, options.rounds), options.rows)


if __name__ == "__main__":
    main()
