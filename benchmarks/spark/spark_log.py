"""Change logs for the benchmarks of Spark: a table of any size, backfilled in any order, with live changes between.

Rows are made by NumPy and written by the log's own segment writer, so that a log of 16 million rows takes seconds, and
is byte for byte what a capture would have left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from tidemark.protocol.changelog import ChangeLog, Column, Commit, LogHeader, Segment, Summary, TableSchema, layout
from tidemark.protocol.changelog.models import META_COLUMNS, Generation
from tidemark.protocol.changelog.summaries import advance
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.documents.columns import arrow_type
from tidemark.runtime.changelog.segments.segment_writer import SegmentWriter

Keys = Literal["ordered", "uuid"]
Numbers: TypeAlias = "np.ndarray[Any, Any]"

COLLECTION = "public/t0"
GROUP = 65_536
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

_MOST_ROWS = 2**26
_MICROS = pa.timestamp("us", "UTC")
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


@dataclass(frozen=True)
class Part:
    """Rows of a commit, counted from 0 in key order: what happened to them, and whether a backfill read them."""

    numbers: Numbers
    op: str = "c"
    backfilled: bool = True


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
    columns = [Column(name=name, type=type_, id=str(number)) for number, (name, type_) in enumerate(types.items(), 1)]
    return TableSchema(collection=collection, columns=columns, key=["id"])


def key_of(keys: Keys, numbers: Numbers) -> pa.Array[Any]:
    """Keys of rows that are counted from 0 in key order."""
    if keys == "ordered":
        return pa.array(numbers, pa.int64())
    # In the order of the numbers, and evenly spread, as sorted uuids are.
    heads = (numbers.astype(np.uint64) * np.uint64(2**64 // _MOST_ROWS)).tolist()
    return pa.array([f"{head:016x}-{hashlib.md5(b'%d' % head).hexdigest()[:19]}" for head in heads])


class ManyTables:
    """Writes commits that have rows of every table.

    Args:
        root: Of the log.
        tables: How many.
        keys: Of all of them.
    """

    def __init__(self, root: Path, tables: int, keys: Keys = "ordered") -> None:
        self.offset = 0
        self.collections = [f"public/t{number}" for number in range(tables)]
        self._root = root
        self._keys = keys
        self._number = 0
        self._random = np.random.default_rng(7)
        self._schemas = [table_schema(keys, collection) for collection in self.collections]
        self._introduced: set[str] = set()
        self._generation = 1
        self._summary = Summary(number=-1, epoch=0, time=EPOCH, next_offset=0)
        (root / layout.COMMITS).mkdir(parents=True)
        header = LogHeader(log_id="benchmark", capture="benchmark", created=EPOCH)
        (root / layout.HEADER).write_text(header.model_dump_json())

    def alter(self, column: Column) -> None:
        """Writes one commit: every table has this column, in place of the one of its name or after all others."""
        for number, schema in enumerate(self._schemas):
            columns = {known.name: known for known in schema.columns} | {column.name: column}
            self._schemas[number] = schema.model_copy(update={"columns": list(columns.values())})
        self._write([], announced={schema.collection: schema.fingerprint for schema in self._schemas})

    def begin(self, column: Column | None = None) -> None:
        """Writes one commit: every table is read again from the start, with another column of the name of this one."""
        self._generation += 1
        if column is not None:
            for number, schema in enumerate(self._schemas):
                columns = [column if known.name == column.name else known for known in schema.columns]
                self._schemas[number] = schema.model_copy(update={"columns": columns})
        begin, parts = self.offset, [Part(np.arange(1), "t", False)]
        segments = [self._segment(index, schema, parts) for index, schema in enumerate(self._schemas)]
        self._begun = [
            Generation(collection=name, number=self._generation, begin=begin + index, why="a benchmark")
            for index, name in enumerate(self.collections)
        ]
        self._write(segments, begin, generations=self._begun)

    def complete(self) -> None:
        """Writes one commit: every table is whole."""
        self._write([], generations=[one.model_copy(update={"whole": self.offset}) for one in self._begun])

    def commit(self, *parts: Part) -> None:
        """Writes one commit: the same rows of every table."""
        first = self.offset
        self._write([self._segment(index, schema, parts) for index, schema in enumerate(self._schemas)], first)

    def _write(self, segments: list[Segment], first: int | None = None, **more: Any) -> None:
        schemas = {schema.fingerprint: schema for schema in self._schemas}
        new = {fingerprint: schema for fingerprint, schema in schemas.items() if fingerprint not in self._introduced}
        self._introduced |= new.keys()
        commit = Commit(
            number=self._number,
            epoch=1,
            time=EPOCH + timedelta(seconds=self._number),
            first_offset=self.offset if first is None else first,
            next_offset=self.offset,
            schemas=new,
            segments=segments,
            **more,
        )
        folder = self._root / layout.COMMITS
        (folder / layout.commit_name(self._number)).write_text(commit.model_dump_json())
        self._summary = advance(self._summary, commit)
        if self._number % layout.SUMMARY_EVERY == 0:
            # A capture leaves them, and a reader of a log without any reads all commits.
            (folder / layout.summary_name(self._number)).write_text(self._summary.model_dump_json())
        self._number += 1

    def _segment(self, index: int, schema: TableSchema, parts: Sequence[Part]) -> Segment:
        path = layout.segment_path(schema.collection, self._number, 1, index)
        types = {**{column.name: column.type for column in schema.columns}, **META_COLUMNS}
        arrow = pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in types.items()])
        writer = SegmentWriter(
            DirectoryStore(self._root), path, schema, schema.fingerprint, arrow, generation=self._generation
        )
        rows = pa.concat_tables([self._rows(part, arrow) for part in parts]).combine_chunks()
        for start in range(0, rows.num_rows, GROUP):
            writer.write(rows.slice(start, GROUP))
        return writer.finish()

    def _rows(self, part: Part, arrow: pa.Schema) -> pa.Table:
        count = len(part.numbers)
        offsets = np.arange(self.offset, self.offset + count)
        self.offset += count
        micros = 1_700_000_000_000_000 + offsets * 1000
        cents = pa.array(self._random.integers(0, 10**6, count)).cast(pa.decimal128(21, 2))
        committed: Any = pa.array(micros, _MICROS)
        columns: dict[str, Any] = {
            "id": key_of(self._keys, part.numbers),
            "customer": pa.array(self._random.integers(0, 10**6, count)),
            "state": pa.array(_STATES[self._random.integers(0, 4, count)]),
            "total": cents.cast(pa.decimal128(12, 2)),
            "note": pa.array([f"order {n % 9973} of {n}" for n in part.numbers.tolist()]),
            "created": committed,
            "updated": pa.array(micros + 1, _MICROS),
            "_op": pa.repeat(pa.scalar(part.op), count),
            "_offset": pa.array(offsets),
            "_commit_ts": pa.nulls(count, _MICROS) if part.backfilled else committed,
            "_loc": pa.array([f"[{o}]" for o in offsets.tolist()]),
            "_txid": pa.repeat(pa.scalar("7"), count),
            "_snapshot": pa.repeat(pa.scalar(part.backfilled), count),
            "_before": pa.nulls(count, pa.string()),
            "_unchanged": pa.nulls(count, pa.list_(pa.string())),
        }
        if part.op == "t":
            columns |= {name: pa.nulls(count) for name in columns if not name.startswith("_")}
        there = [columns.get(field.name, pa.nulls(count)).cast(field.type) for field in arrow]
        return pa.Table.from_arrays(there, schema=arrow)


class LogMaker(ManyTables):
    """Writes commits of one table."""

    def __init__(self, root: Path, keys: Keys) -> None:
        super().__init__(root, 1, keys)


def make_log(root: Path, shape: Shape) -> LogMaker:
    """A log of a whole backfill."""
    maker = LogMaker(root, shape.keys)
    random = np.random.default_rng(1)
    for chunk in _chunks(shape):
        parts = [Part(rows) for rows in chunk]
        if live := int(sum(map(len, chunk)) * shape.live):
            changed = random.integers(0, shape.rows, live)
            parts.insert(len(parts) // 2, Part(changed[: live * 9 // 10], "u", False))
            parts.append(Part(changed[live * 9 // 10 :], "d", False))
        maker.commit(*parts)
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
