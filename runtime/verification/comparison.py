"""Compares the rows that a table has at its source with what the log gives.

Both sides become rows of digests, which are sorted by those of the keys. A row of the source stands behind the events
that come before its chunk: the nearest of them must give the same values. A row is too many if its last event came
before the verification began, and no chunk brought it: nothing touched it meanwhile, so it was there to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.changelog import ChangeLog, Summary, TableSchema
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.verification.chunk_files import Chunk, identified, key_names, read_chunks
from tidemark.protocol.verification.digests import DIGEST, digests
from tidemark.protocol.verification.files import Begun, Ended, begin_path, end_path, read_said
from tidemark.runtime.changelog.documents.columns import arrow_type
from tidemark.runtime.verification.buckets import Buckets
from tidemark.runtime.verification.findings import Comparison, Found, Kind
from tidemark.runtime.verification.keys import keys_of
from tidemark.runtime.verification.logged_rows import LoggedBatch, LoggedRows
from tidemark.runtime.verification.states import last_digests

pc: Any = pyarrow.compute

CHANGED = "its columns changed meanwhile"

_KEPT = -2
"""The offset behind which rows of a kept table stand: before all others."""

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
    schema = next((chunk.schema for chunk in read_chunks(log.store, collection, ended)), None)
    summary = log.summary()
    first, in_log.why = _first_event(summary, collection, begun, ended)
    if in_log.why or schema is None:
        in_log.why = in_log.why or CHANGED
        return Found(in_log)
    table = _Table(log, schema, begun, ended, LoggedRows(log, schema, begun.generation, first, ended.offset), all_rows)
    table.compare_log(in_log)
    # Spark keeps nothing of a table that never had an event.
    asked = collection in summary.totals and not in_log.why
    rows = _kept_rows(kept, ended.offset, schema) if kept is not None and asked else None
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
        with Buckets(_rows(self.schema), self.rows.rows + self.ended.rows) as buckets:
            emptied = _add_events(self.rows, self.schema, buckets)
            if any(self.begun.offset <= offset for offset in emptied):
                found.why = "it was emptied meanwhile"
                return
            after = max(emptied, default=-1)
            apart = _apart(self.rows, self.schema)
            for chunk in self._chunks():
                if chunk.schema.fingerprint != self.schema.fingerprint:
                    found.why = CHANGED
                    return
                buckets.add(_of_chunk(chunk))
            undecided = [self._compare(bucket, found, after, apart) for bucket in buckets.tables()]
        _decide(undecided, self.rows, self.schema, after, found)

    def compare_kept(self, rows: Iterator[pa.Table], found: Comparison) -> None:
        """Rows that events touched while the source was read are left out: the log is compared with those."""
        touched = pa.chunked_array([self._touched(), _apart(self.rows, self.schema)], DIGEST).combine_chunks()
        with Buckets(_rows(self.schema), 2 * self.ended.rows) as buckets:
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
            found.append(digests(keys, _true(recent)))
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
        if bucket.column("digest").null_count or len(apart):
            unfit = bucket.filter(pc.and_(bucket.column("source"), bucket.column("digest").is_null())).column("id")
            out = pc.is_in(bucket.column("id"), pa.chunked_array([*unfit.chunks, apart], DIGEST).combine_chunks())
            found.kept_apart += _true(pc.and_(out, bucket.column("source")))
            bucket = bucket.filter(pc.invert(out))
        if after > _KEPT and pc.any(pc.less_equal(bucket.column("place"), 2 * after + 1)).as_py():
            bucket = bucket.filter(pc.greater(bucket.column("place"), 2 * after + 1))
        if not bucket.num_rows:
            return bucket
        places, rows = _in_order(bucket)
        of_source = rows.column("source")
        before = _same_as_before(rows)
        # A row that came twice is compared the first time.
        again = pc.and_(before, pc.and_(of_source, _before(of_source, False)))
        if pc.any(again).as_py():
            places, rows = places.filter(pc.invert(again)), rows.filter(pc.invert(again))
            of_source, before = rows.column("source"), _same_as_before(rows)
        there = pc.and_(before, _before(rows.column("there"), False))
        event = _before(rows.column("digest"), None)
        missing, both = pc.and_(of_source, pc.invert(there)), pc.and_(of_source, there)
        whole = event.is_valid()
        differs = pc.and_(both, pc.fill_null(pc.not_equal(event, rows.column("digest")), False))
        found.compared += _true(missing) + _true(pc.and_(both, whole))
        kinds = {Kind.MISSING: missing, Kind.DIFFERENT: differs}
        if self.all_rows:
            alone = pc.and_(_is_last(before), pc.and_(rows.column("there"), pc.invert(of_source)))
            kinds[Kind.TOO_MANY] = pc.and_(alone, pc.less(rows.column("place"), 2 * self.begun.offset))
        for kind, chosen in kinds.items():
            self._add(found, kind, bucket, places.filter(chosen))
        return bucket.take(places.filter(pc.and_(both, pc.invert(whole))))

    def _add(self, found: Comparison, kind: Kind, rows: pa.Table, places: Any) -> None:
        if len(places):
            key = rows.select(key_names(self.schema)).take(places)
            found.add(kind, key.columns, key.num_rows)


def _rows(schema: TableSchema) -> pa.Schema:
    """Events and rows of the source, as they are compared."""
    types = {column.name: arrow_type(column.type) for column in schema.columns}
    return pa.schema(
        [
            *zip(key_names(schema), (types[name] for name in schema.key), strict=True),
            ("id", DIGEST),  # Two digests of the key.
            ("id_2", DIGEST),
            ("place", pa.int64()),  # Of an event its offset doubled and one more, of a source's row twice its offset.
            ("source", pa.bool_()),  # It is a row of the source, and no event.
            ("there", pa.bool_()),  # It is no deletion.
            ("digest", DIGEST),  # Null where columns are left out.
        ]
    )


def _in_order(rows: pa.Table) -> tuple[Any, pa.Table]:
    """Rows sorted by key and place, without their keys; and their numbers in ``rows``.

    Nearly always one digest tells all keys apart: then it is the only one that is sorted by.
    """
    slim = rows.select(["id", "id_2", "place", "source", "there", "digest"]).combine_chunks()
    place = slim.column("place")
    places: Any = None
    if not pc.all(pc.greater_equal(place.slice(1), place.slice(0, len(place) - 1))).as_py():
        places = pc.sort_indices(place)
        slim = slim.take(places)
    by_id = pc.sort_indices(slim.column("id"))  # Stable.
    slim, places = slim.take(by_id), by_id if places is None else places.take(by_id)
    collides = pc.and_(_like_before(slim, "id"), pc.invert(_like_before(slim, "id_2")))
    if pc.any(collides).as_py():
        exact = pc.sort_indices(slim, [("id", "ascending"), ("id_2", "ascending"), ("place", "ascending")])
        slim, places = slim.take(exact), places.take(exact)
    return places, slim


def _of_chunk(chunk: Chunk) -> pa.Table:
    table, rows = chunk.rows, chunk.rows.num_rows
    true = pa.repeat(pa.scalar(True), rows)
    place = pa.repeat(pa.scalar(2 * chunk.offset, pa.int64()), rows)
    known = {name: table.column(name) for name in table.column_names if name != "digest"}
    digest = table.column("digest")
    return _named(chunk.schema, {**known, "place": place, "source": true, "there": true, "digest": digest})


def _named(schema: TableSchema, columns: dict[str, Any]) -> pa.Table:
    of = _rows(schema)
    return pa.Table.from_arrays([columns[name] for name in of.names], schema=of)


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
    found, partial = digests(batch.values.columns, count), batch.partial()
    columns = {
        **identified([batch.values.column(name) for name in schema.key], count),
        "place": pc.add(pc.multiply(batch.meta("_offset"), 2), 1),
        "source": pa.repeat(pa.scalar(False), count),
        "there": pc.not_equal(batch.meta("_op"), "d"),
        "digest": pc.if_else(partial, pa.scalar(None, DIGEST), found) if pc.any(partial).as_py() else found,
    }
    return _named(schema, columns)


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
    columns = {
        **identified([table.column(name) for name in schema.key], count),
        "place": pa.repeat(pa.scalar(2 * _KEPT + 2, pa.int64()), count),
        "source": pa.repeat(pa.scalar(False), count),
        "there": pa.repeat(pa.scalar(True), count),
        "digest": digests(table.columns, count),
    }
    return _named(schema, columns)


def _true(column: Any) -> int:
    """How many are true."""
    return pc.sum(column).as_py() or 0


def _before(column: Any, first: Any) -> Any:
    """What the row before each row has."""
    return pa.chunked_array([pa.array([first], column.type), *column.slice(0, len(column) - 1).chunks], column.type)


def _like_before(rows: pa.Table, name: str) -> Any:
    column = rows.column(name)
    return pc.fill_null(pc.equal(column, _before(column, None)), False)


def _same_as_before(rows: pa.Table) -> Any:
    """Whether each row has the key of the one before it."""
    return pc.and_(_like_before(rows, "id"), _like_before(rows, "id_2"))


def _is_last(same_as_before: Any) -> Any:
    """Whether each row is the last one with its key."""
    behind = pa.chunked_array([*same_as_before.slice(1).chunks, pa.array([False])], pa.bool_())
    return pc.invert(behind)


def _decide(undecided: list[pa.Table], rows: LoggedRows, schema: TableSchema, after: int, found: Comparison) -> None:
    """Compares the rows whose last event leaves columns out."""
    of_source = pa.concat_tables([_rows(schema).empty_table(), *undecided])
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
    key = of_source.select(key_names(schema)).filter(differs)
    found.add(Kind.DIFFERENT, key.columns, key.num_rows)
