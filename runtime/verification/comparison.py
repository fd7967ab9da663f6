"""Compares the rows that a table has at its source with what the log gives.

Both sides become rows of digests, which are sorted by key. A row of the source stands behind the events that come
before its chunk: the nearest of them must give the same values. A row is too many if its last event came before the
verification began, and no chunk brought it: nothing touched it meanwhile, so it was there to be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.changelog import ChangeLog, Summary, TableSchema
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.verification.chunk_files import Chunk, read_chunks
from tidemark.protocol.verification.digests import DIGEST, digests, texts
from tidemark.protocol.verification.files import Begun, Ended, begin_path, end_path, read_said
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
        kept_apart: Rows of the source that were not compared: the log keeps an event of theirs apart, or would. In a
            table in Spark also those that changed while the source was read.
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

    def add(self, kind: Kind, keys: Any) -> None:
        """Rows differ."""
        self.counts[kind] += len(keys)
        room = MOST_NAMED - len(self.named)
        self.named += [(kind, key) for key in keys.slice(0, max(0, room)).to_pylist()]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of a table.

    Attributes:
        in_log: In the change log.
        in_spark: In the table that Spark keeps of it; None where none is kept, or the log could not be compared.
    """

    in_log: Comparison
    in_spark: Comparison | None = None


_KEPT = -2
"""The offset behind which rows of a kept table stand: before all others."""

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


Kept: TypeAlias = "Callable[[int, TableSchema], Iterator[pa.Table] | None]"
"""The rows of a table in Spark as of an offset, with the columns of a schema; None where none is kept."""


def compare(log: ChangeLog, collection: str, run: int, *, all_rows: bool, kept: Kept | None = None) -> Found:
    """Compares a table with the log and with what Spark has of it, after its verification has ended.

    Args:
        log: The log, which has all events up to the end of the verification.
        collection: The table's.
        run: The verification.
        all_rows: All rows of the table were captured, so that others are too many.
        kept: The rows that Spark has.

    Raises:
        ChangeLogError: A file of the log or of the verification cannot be read.
    """
    begun = read_said(log.store, begin_path(collection, run), Begun)
    ended = read_said(log.store, end_path(collection, run), Ended)
    if ended is None:
        return Found(Comparison(why="it has not ended"))
    in_log = Comparison(offset=ended.offset, why=ended.why, covered=ended.covered)
    if ended.why:
        return Found(in_log)
    if begun is None or begun.generation is None:
        in_log.why = "its events belong to no generation: it is read again"
        return Found(in_log)
    schema = _schema(read_chunks(log.store, collection, ended))
    first, in_log.why = _first_event(log.summary(), collection, begun, ended)
    if schema is None:
        in_log.why = in_log.why or "its columns changed meanwhile"
    if in_log.why or schema is None:
        return Found(in_log)
    table = _Table(log, schema, begun, ended, LoggedRows(log, schema, begun.generation, first, ended.offset), all_rows)
    table.compare_log(in_log)
    rows = None if kept is None or in_log.why else _kept_rows(kept, ended.offset, schema)
    if rows is None:
        return Found(in_log)
    in_spark = Comparison(offset=ended.offset)
    if isinstance(rows, str):
        in_spark.why = rows
    else:
        table.compare_kept(rows, in_spark)
    return Found(in_log, in_spark)


def _kept_rows(kept: Kept, offset: int, schema: TableSchema) -> Iterator[pa.Table] | str | None:
    """The rows that Spark has; or why they cannot be read."""
    try:
        return kept(offset, schema)
    except TidemarkError as error:
        return f"{error.code}: {error.message}"


def _first_event(summary: Summary, collection: str, begun: Begun, ended: Ended) -> tuple[int, str]:
    """The offset of the first event of a table that counts; and why nothing can be compared."""
    known = [each for each in summary.generations.get(collection, []) if each.number == begun.generation]
    if not known or known[0].whole is None or known[0].whole > begun.offset:
        return 0, "its backfill was not done when it was read"
    if known[0].ended is not None and known[0].ended < ended.offset:
        return 0, "it was read again, or had other columns, meanwhile"
    return known[0].begin, ""


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of which all rows were read.

    Attributes:
        schema: That of the rows.
        rows: Its events.
    """

    log: ChangeLog
    schema: TableSchema
    begun: Begun
    ended: Ended
    rows: LoggedRows
    all_rows: bool

    def compare_log(self, found: Comparison) -> None:
        with Buckets(_ROWS, self.rows.rows + self.ended.rows) as buckets:
            emptied = _add_events(self.rows, self.schema, buckets)
            if any(self.begun.offset <= offset for offset in emptied):
                found.why = "it was emptied meanwhile"
                return
            after = max(emptied, default=-1)
            apart = _apart(self.rows, self.schema)
            for chunk in self._chunks():
                buckets.add(_of_chunk(chunk))
            undecided = [self._compare(bucket, found, after, apart) for bucket in buckets.tables()]
        _decide(undecided, self.rows, self.schema, after, found)

    def compare_kept(self, rows: Iterator[pa.Table], found: Comparison) -> None:
        """Rows that events touched while the source was read are left out: the log is compared with those."""
        touched = pa.chunked_array([self._touched(), _apart(self.rows, self.schema)], DIGEST).combine_chunks()
        with Buckets(_ROWS, 2 * self.ended.rows) as buckets:
            try:
                for table in rows:
                    buckets.add(_of_kept(table, self.schema))
            except TidemarkError as error:
                found.why = f"{error.code}: {error.message}"
                return
            for chunk in self._chunks():
                buckets.add(_of_chunk(chunk))
            for bucket in buckets.tables():
                self._compare(bucket, found, _KEPT, touched)

    def _chunks(self) -> Iterator[Chunk]:
        return read_chunks(self.log.store, self.schema.collection, self.ended)

    def _touched(self) -> Any:
        """The digests of the keys of events that came while rows were read."""
        first, end = self.begun.offset, self.ended.offset
        events = LoggedRows(self.log, self.schema, self.begun.generation or 1, first, end)
        found = [pa.array([], DIGEST)]
        for batch in events.batches():
            recent = pc.greater_equal(batch.meta("_offset"), first)
            keys = [batch.values.column(name).filter(recent) for name in self.schema.key]
            found.append(digests(keys, pc.sum(recent).as_py() or 0))
        return pa.chunked_array(found, DIGEST).combine_chunks()

    def _compare(self, bucket: pa.Table, found: Comparison, after: int, apart: Any) -> pa.Table:
        """Compares a bucket.

        Args:
            after: Only what stands behind this offset counts.
            apart: Digests of keys that are not compared.

        Returns:
            Rows of the source of which the nearest event leaves columns out.
        """
        found.rows += _true(bucket.column("source"))
        unfit = bucket.filter(pc.and_(bucket.column("source"), bucket.column("digest").is_null())).column("id")
        excluded = pa.chunked_array([*unfit.chunks, apart], DIGEST)
        if len(excluded):
            out = pc.is_in(bucket.column("id"), excluded.combine_chunks())
            found.kept_apart += _true(pc.and_(out, bucket.column("source")))
            bucket = bucket.filter(pc.invert(out))
        rows = bucket.filter(pc.greater(bucket.column("place"), 2 * after + 1))
        if not rows.num_rows:
            return rows
        rows = rows.sort_by([("id", "ascending"), ("place", "ascending")])
        # A row that came twice is compared the first time.
        again = pc.and_(_same_as_before(rows), pc.and_(rows.column("source"), _before(rows.column("source"), False)))
        rows = rows.filter(pc.invert(again))
        of_source = rows.column("source")
        there = pc.and_(_same_as_before(rows), _before(rows.column("there"), False))
        event = _before(rows.column("digest"), None)
        missing, both = pc.and_(of_source, pc.invert(there)), pc.and_(of_source, there)
        whole = event.is_valid()
        differs = pc.fill_null(pc.not_equal(event, rows.column("digest")), False)
        found.add(Kind.MISSING, rows.filter(missing).column("key"))
        found.add(Kind.DIFFERENT, rows.filter(pc.and_(both, differs)).column("key"))
        found.compared += _true(missing) + _true(pc.and_(both, whole))
        if self.all_rows:
            alone = pc.and_(_is_last(rows), pc.and_(rows.column("there"), pc.invert(of_source)))
            old = pc.less(rows.column("place"), 2 * self.begun.offset)
            found.add(Kind.TOO_MANY, rows.filter(pc.and_(alone, old)).column("key"))
        return rows.filter(pc.and_(both, pc.invert(whole)))


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


def _of_kept(table: pa.Table, schema: TableSchema) -> pa.Table:
    count = table.num_rows
    key = [table.column(name) for name in schema.key]
    arrays = [
        digests(key, count),
        pa.repeat(pa.scalar(2 * _KEPT + 2, pa.int64()), count),
        pa.repeat(pa.scalar(False), count),
        pa.repeat(pa.scalar(True), count),
        digests(table.columns, count),
        texts(key, count),
    ]
    return pa.Table.from_arrays(arrays, schema=_ROWS)


def _true(column: Any) -> int:
    """How many are true."""
    return pc.sum(column).as_py() or 0


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
    found.add(Kind.DIFFERENT, of_source.filter(differs).column("key"))
