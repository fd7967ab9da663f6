"""Compares the rows that a table has at its source with what the log gives.

Both sides become rows of digests, which are sorted by key. A row of the source stands behind the events that come
before its chunk: the nearest of them must give the same values. A row is too many if its last event came before the
verification began, and no chunk brought it: nothing touched it meanwhile, so it was there to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.changelog import ChangeLog, TableSchema
from tidemark.protocol.store import Store
from tidemark.protocol.verification.digests import DIGEST, digests, texts
from tidemark.protocol.verification.files import Begun, Chunk, Ended, begin_path, end_path, read_chunks, read_said
from tidemark.runtime.verification.buckets import Buckets
from tidemark.runtime.verification.keys import keys_of
from tidemark.runtime.verification.logged_rows import LoggedBatch, LoggedRows
from tidemark.runtime.verification.states import last_digests

pc: Any = pyarrow.compute

MOST_NAMED = 10_000
"""Keys that are named of each table; all are counted."""


class Kind(StrEnum):
    """How a row differs from the source's."""

    MISSING = "missing"
    """The source has it alone."""

    DIFFERENT = "different"
    """It has other values."""

    TOO_MANY = "too many"
    """The source does not have it."""


@dataclass(slots=True)
class Comparison:
    """What a comparison of a table has found.

    Attributes:
        rows: Of the source.
        compared: Those of them that could be compared.
        kept_apart: Rows of the source that were not compared, since the log keeps an event of theirs apart, or would.
        unknown: Those that were not, since the log's events leave out columns that no earlier event has.
        counts: Rows that differ.
        named: Their keys, the first ``MOST_NAMED`` of them.
        offset: The log was compared up to here.
        why: Why the table was not compared, for people; empty if it was.
        covered: It can be compared at all, at another time if there is a ``why``.
    """

    rows: int = 0
    compared: int = 0
    kept_apart: int = 0
    unknown: int = 0
    counts: Counter[Kind] = field(default_factory=Counter)
    named: list[tuple[Kind, str]] = field(default_factory=list)
    offset: int = 0
    why: str = ""
    covered: bool = True

    @property
    def different(self) -> int:
        """How many rows differ."""
        return self.counts.total()

    def found(self, kind: Kind, keys: Any) -> None:
        """Rows differ."""
        self.counts[kind] += len(keys)
        room = MOST_NAMED - len(self.named)
        self.named += [(kind, key) for key in keys.slice(0, max(0, room)).to_pylist()]


_ROWS = pa.schema(
    [
        ("id", DIGEST),
        ("place", pa.int64()),  # Of an event its offset doubled and one more, of a row of the source twice its offset.
        ("source", pa.bool_()),  # It is a row of the source, and no event.
        ("there", pa.bool_()),  # It is no deletion.
        ("digest", DIGEST),  # Null where columns are left out.
        ("key", pa.string()),
    ]
)


def compare(log: ChangeLog, collection: str, run: int, *, all_rows: bool, folder: Path | None = None) -> Comparison:
    """Compares a table with the log, after its verification has ended.

    Args:
        log: The log, which has all events up to the end of the verification.
        collection: The table's.
        run: The verification.
        all_rows: All rows of the table were captured, so that others are too many.
        folder: For temporary files.

    Raises:
        ChangeLogError: A file of the log or of the verification cannot be read.
    """
    begun, ended = _said(log.store, collection, run)
    found = Comparison(offset=0 if ended is None else ended.offset)
    if ended is None or ended.why:
        found.why = "it has not ended" if ended is None else ended.why
        found.covered = ended is None or ended.covered
        return found
    if begun is None or begun.generation is None:
        found.why = "its events belong to no generation: it is read again"
        return found
    summary = log.summary()
    generation = next(
        (each for each in summary.generations.get(collection, []) if each.number == begun.generation), None
    )
    if generation is None or generation.whole is None or generation.whole > begun.offset:
        found.why = "its backfill was not done when it was read"
        return found
    if generation.ended is not None and generation.ended < ended.offset:
        found.why = "it was read again, or had other columns, meanwhile"
        return found
    schema = _schema(read_chunks(log.store, collection, ended))
    if schema is None:
        found.why = "its columns changed meanwhile"
        return found
    rows = LoggedRows(log, schema, begun.generation, generation.begin, ended.offset)
    with Buckets(_ROWS, rows.rows + ended.rows, folder) as buckets:
        emptied = _add_events(rows, schema, buckets)
        if any(begun.offset <= offset for offset in emptied):
            found.why = "it was emptied meanwhile"
            return found
        after = max(emptied, default=-1)
        apart = _apart(rows, schema)
        for chunk in read_chunks(log.store, collection, ended):
            buckets.add(_of_chunk(chunk))
        undecided: list[pa.Table] = []
        for bucket in buckets.tables():
            _compare_bucket(bucket, after, begun.offset, apart, found, undecided, all_rows=all_rows)
    _decide(undecided, rows, schema, after, found)
    return found


def _said(store: Store, collection: str, run: int) -> tuple[Begun | None, Ended | None]:
    return read_said(store, begin_path(collection, run), Begun), read_said(store, end_path(collection, run), Ended)


def _schema(chunks: Iterator[Chunk]) -> TableSchema | None:
    """That of all chunks; None if there are several."""
    schemas = {chunk.schema.fingerprint: chunk.schema for chunk in chunks}
    return next(iter(schemas.values())) if len(schemas) == 1 else None


def _of_chunk(chunk: Chunk) -> pa.Table:
    rows = chunk.rows.num_rows
    true = pa.repeat(pa.scalar(True), rows)
    place = pa.repeat(pa.scalar(2 * chunk.offset, pa.int64()), rows)
    table = chunk.rows
    arrays: list[Any] = [table.column("id"), place, true, true, table.column("digest"), table.column("key")]
    return pa.Table.from_arrays(arrays, schema=_ROWS)


def _add_events(rows: LoggedRows, schema: TableSchema, buckets: Buckets) -> list[int]:
    """Adds the events to the buckets. Returns the offsets of those that empty the table."""
    emptied: list[int] = []
    for batch in rows.batches():
        emptying = pc.equal(batch.meta("_op"), "t")
        if pc.any(emptying).as_py():
            emptied += batch.meta("_offset").filter(emptying).to_pylist()
            others = pc.invert(emptying)
            batch = LoggedBatch(batch.values.filter(others), batch.raw.filter(others), batch.names)
        buckets.add(_of_events(batch, schema))
    return emptied


def _of_events(batch: LoggedBatch, schema: TableSchema) -> pa.Table:
    count = batch.raw.num_rows
    key = [batch.values.column(name) for name in schema.key]
    found = digests(batch.values.columns, count)
    arrays = [
        digests(key, count),
        pc.add(pc.multiply(batch.meta("_offset"), 2), 1),
        pa.repeat(pa.scalar(False), count),
        pc.not_equal(batch.meta("_op"), "d"),
        pc.if_else(batch.partial(), pa.scalar(None, DIGEST), found),
        texts(key, count),
    ]
    return pa.Table.from_arrays(arrays, schema=_ROWS)


def _apart(rows: LoggedRows, schema: TableSchema) -> Any:
    """The digests of the keys of which an event is kept apart."""
    names = {column.name: column.in_source for column in schema.columns}
    documents = [
        orjson.dumps({names[name]: value for name, value in key.items() if name in names}) for key in rows.kept_apart()
    ]
    keys = keys_of(documents, schema)
    return digests(keys.columns, keys.num_rows)


def _compare_bucket(
    bucket: pa.Table,
    after: int,
    begun: int,
    apart: pa.Array[Any],
    found: Comparison,
    undecided: list[pa.Table],
    *,
    all_rows: bool,
) -> None:
    found.rows += pc.sum(bucket.column("source")).as_py() or 0
    unfit = bucket.filter(pc.and_(bucket.column("source"), bucket.column("digest").is_null())).column("id")
    excluded = pa.chunked_array([*unfit.chunks, apart], DIGEST)
    if len(excluded):
        out = pc.is_in(bucket.column("id"), excluded.combine_chunks())
        found.kept_apart += pc.sum(pc.and_(out, bucket.column("source"))).as_py() or 0
        bucket = bucket.filter(pc.invert(out))
    rows = bucket.filter(pc.greater(bucket.column("place"), 2 * after + 1))
    rows = rows.sort_by([("id", "ascending"), ("place", "ascending")]).combine_chunks()
    if not rows.num_rows:
        return
    same = _same_as_before(rows)
    # A row that came twice is compared the first time.
    again = pc.and_(same, pc.and_(rows.column("source"), _before(rows.column("source"), False)))
    if pc.any(again).as_py():
        rows = rows.filter(pc.invert(again))
        same = _same_as_before(rows)
    of_source = rows.column("source")
    there = pc.and_(same, _before(rows.column("there"), False))
    event = _before(rows.column("digest"), None)
    found.found(Kind.MISSING, rows.filter(pc.and_(of_source, pc.invert(there))).column("key"))
    both = pc.and_(of_source, there)
    whole = event.is_valid()
    differs = pc.fill_null(pc.not_equal(event, rows.column("digest")), False)
    found.found(Kind.DIFFERENT, rows.filter(pc.and_(both, differs)).column("key"))
    undecided.append(rows.filter(pc.and_(both, pc.invert(whole))))
    found.compared += pc.sum(pc.and_(of_source, pc.or_(pc.invert(there), whole))).as_py() or 0
    if all_rows:
        last = _is_last(rows)
        alone = pc.and_(pc.and_(last, rows.column("there")), pc.less(rows.column("place"), 2 * begun))
        found.found(Kind.TOO_MANY, rows.filter(pc.and_(alone, pc.invert(of_source))).column("key"))


def _before(column: Any, first: Any) -> Any:
    """Of each row, what the row before it has."""
    return pa.chunked_array([pa.array([first], column.type), *column.slice(0, len(column) - 1).chunks], column.type)


def _same_as_before(rows: pa.Table) -> Any:
    """Whether each row has the id of the one before it."""
    ids = rows.column("id")
    return pc.fill_null(pc.equal(ids, _before(ids, None)), False)


def _is_last(rows: pa.Table) -> Any:
    """Whether each row is the last one with its id."""
    ids = rows.column("id")
    behind = pa.chunked_array([*ids.slice(1).chunks, pa.nulls(1, DIGEST)], DIGEST)
    return pc.invert(pc.fill_null(pc.equal(ids, behind), False))


def _decide(undecided: list[pa.Table], rows: LoggedRows, schema: TableSchema, after: int, found: Comparison) -> None:
    """Compares the rows whose last event leaves columns out."""
    of_source = pa.concat_tables([_ROWS.empty_table(), *undecided])
    if not of_source.num_rows:
        return
    ids: list[Any] = of_source.column("id").to_pylist()
    places: list[Any] = of_source.column("place").to_pylist()
    before = {each: place // 2 for each, place in zip(ids, places, strict=True)}
    logged = last_digests(rows, schema, before, after)
    events: Any = pa.array([logged.get(each) for each in ids], DIGEST)
    known = events.is_valid()
    found.unknown += pc.sum(pc.invert(known)).as_py()
    found.compared += pc.sum(known).as_py()
    differs = pc.fill_null(pc.not_equal(events, of_source.column("digest")), False)
    found.found(Kind.DIFFERENT, of_source.filter(differs).column("key"))
