"""Change logs for the benchmarks of Spark: a table of any size, backfilled in any order, with live changes between.

Rows are made by NumPy and written by the log's own segment writer, so that a log of 16 million rows takes seconds, and
is byte for byte what a capture would have left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from protocol.changelog import ChangeLog, Column, Commit, LogHeader, TableSchema, layout
from protocol.changelog.models import META_COLUMNS
from runtime.changelog.columns import arrow_type
from runtime.changelog.segments import SegmentWriter

Keys = Literal["ordered", "uuid"]
Numbers: TypeAlias = "np.ndarray[Any, Any]"

COLLECTION = "public/orders"
GROUP = 65_536
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

_MOST_ROWS = 2**26
_STATES = np.array(["new", "paid", "sent", "returned"])


@dataclass(frozen=True)
class Shape:
    """Of a log.

    Attributes:
        rows: Backfilled.
        keys: Ascending numbers, or random uuids, which a backfill by key reads in their order too.
        ranges: Read side by side.
        live: Changes of random keys that come between, as a share of the rows.
        per_commit: Rows of a commit.
    """

    rows: int
    keys: Keys = "ordered"
    ranges: int = 1
    live: float = 0.0
    per_commit: int = 250_000


def table_schema(keys: Keys, collection: str = COLLECTION) -> TableSchema:
    types = {
        "id": "bigint" if keys == "ordered" else "string",
        "customer": "bigint",
        "state": "string",
        "total": "decimal(12,2)",
        "note": "string",
        "created": "timestamp",
        "updated": "timestamp",
    }
    columns = [Column(name=name, type=type_) for name, type_ in types.items()]
    return TableSchema(collection=collection, columns=columns, key=["id"])


def key_of(keys: Keys, numbers: Numbers) -> pa.Array[Any]:
    """Keys of rows that are counted from 0 in key order."""
    if keys == "ordered":
        return pa.array(numbers, pa.int64())
    # In the order of the numbers, and evenly spread, as sorted uuids are.
    heads = (numbers.astype(np.uint64) * np.uint64(2**64 // _MOST_ROWS)).tolist()
    return pa.array([f"{head:016x}-{hashlib.md5(b'%d' % head).hexdigest()[:19]}" for head in heads])


class LogMaker:
    """Writes commits of one table."""

    def __init__(self, root: Path, keys: Keys, collection: str = COLLECTION) -> None:
        self.root = root
        self.keys = keys
        self.offset = 0
        self.number = 0
        self._schema = table_schema(keys, collection)
        types = {**{c.name: c.type for c in self._schema.columns}, **META_COLUMNS}
        self._arrow = pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in types.items()])
        self._random = np.random.default_rng(7)
        (root / layout.COMMITS).mkdir(parents=True)
        header = LogHeader(log_id="benchmark", capture="benchmark", created=EPOCH)
        (root / layout.HEADER).write_text(header.model_dump_json())

    def commit(self, parts: list[tuple[Numbers, bool, str]]) -> None:
        """Writes one commit: rows by their numbers, whether a backfill read them, and the operation."""
        schema, fingerprint = self._schema, self._schema.fingerprint
        path = layout.segment_path(schema.collection, self.number, 1, 0)
        writer = SegmentWriter(self.root, path, schema, fingerprint, self._arrow)
        first = self.offset
        tables = [self._rows(*part) for part in parts]
        combined = pa.concat_tables(tables).combine_chunks()
        for start in range(0, combined.num_rows, GROUP):
            writer.write(combined.slice(start, GROUP))
        segment = writer.finish()
        commit = Commit(
            number=self.number,
            epoch=1,
            time=EPOCH + timedelta(seconds=self.number),
            first_offset=first,
            next_offset=self.offset,
            schemas={fingerprint: schema} if self.number == 0 else {},
            segments=[segment],
        )
        (self.root / layout.COMMITS / layout.commit_name(self.number)).write_text(commit.model_dump_json())
        self.number += 1

    def _rows(self, numbers: Numbers, snapshot: bool, op: str) -> pa.Table:
        count = len(numbers)
        offsets = np.arange(self.offset, self.offset + count)
        self.offset += count
        micros = 1_700_000_000_000_000 + offsets * 1000
        cents = pa.array(self._random.integers(0, 10**6, count)).cast(pa.decimal128(21, 2))
        columns = {
            "id": key_of(self.keys, numbers),
            "customer": pa.array(self._random.integers(0, 10**6, count)),
            "state": pa.array(_STATES[self._random.integers(0, 4, count)]),
            "total": cents.cast(pa.decimal128(12, 2)),
            "note": pa.array([f"order {n % 9973} of {n}" for n in numbers.tolist()]),
            "created": pa.array(micros, pa.timestamp("us", "UTC")),
            "updated": pa.array(micros + 1, pa.timestamp("us", "UTC")),
            "_op": pa.repeat(pa.scalar(op), count),
            "_offset": pa.array(offsets),
            "_commit_ts": pa.nulls(count, pa.timestamp("us", "UTC"))
            if snapshot
            else pa.array(micros, pa.timestamp("us", "UTC")),
            "_loc": pa.array([f"[{o}]" for o in offsets.tolist()]),
            "_txid": pa.repeat(pa.scalar("7"), count),
            "_snapshot": pa.repeat(pa.scalar(snapshot), count),
            "_before": pa.nulls(count, pa.string()),
            "_unchanged": pa.nulls(count, pa.list_(pa.string())),
        }
        return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in self._arrow], schema=self._arrow)


def make_log(root: Path, shape: Shape) -> LogMaker:
    """A log of a whole backfill."""
    maker = LogMaker(root, shape.keys)
    random = np.random.default_rng(1)
    for chunk in _chunks(shape):
        parts: list[tuple[Numbers, bool, str]] = [(rows, True, "c") for rows in chunk]
        if live := int(sum(map(len, chunk)) * shape.live):
            changed = random.integers(0, shape.rows, live)
            parts.insert(len(parts) // 2, (changed[: live * 9 // 10], False, "u"))
            parts.append((changed[live * 9 // 10 :], False, "d"))
        maker.commit(parts)
    return maker


def _chunks(shape: Shape) -> Iterator[list[Numbers]]:
    """For each commit the rows of its chunks: of each range some, in turn."""
    edges = np.linspace(0, shape.rows, shape.ranges + 1).astype(int)
    at = list(edges[:-1])
    size = max(1, shape.per_commit // shape.ranges)
    while any(place < end for place, end in zip(at, edges[1:], strict=True)):
        chunk = []
        for number, end in enumerate(edges[1:]):
            if at[number] < end:
                until = min(at[number] + size, end)
                chunk.append(np.arange(at[number], until))
                at[number] = until
        yield chunk


def log_bytes(root: Path) -> int:
    """Size of all segments."""
    return sum(total.bytes for total in ChangeLog(root).summary().totals.values())
