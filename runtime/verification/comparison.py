"""Compares the rows that a table has at its source with what the log and Spark have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.changelog import ChangeLog, Summary, TableSchema
from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.verification.chunk_files import Chunk, key_names, read_chunks
from tidemark.protocol.verification.digests import DIGEST, digests
from tidemark.protocol.verification.files import Begun, Ended, begin_path, end_path, read_said
from tidemark.runtime.verification.buckets import Buckets
from tidemark.runtime.verification.findings import Comparison, Found, Kind
from tidemark.runtime.verification.keys import keys_of
from tidemark.runtime.verification.logged_rows import LoggedBatch, LoggedRows
from tidemark.runtime.verification.matching import Matching, true
from tidemark.runtime.verification.sides import KEPT, of_events, of_kept, of_source, side_schema
from tidemark.runtime.verification.states import last_digests

pc: Any = pyarrow.compute

CHANGED = "its columns changed meanwhile"
OTHER_VERSION = "another version of tidemark reads its rows: restart the capture with this one"

Kept: TypeAlias = "Callable[[int, TableSchema], Iterator[pa.Table] | None]"
"""The rows of a table in Spark as of an offset, ``digested`` under a schema; None where no table is kept."""


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
        with Buckets(side_schema(self.schema), self.rows.rows + self.ended.rows) as buckets:
            emptied = _add_events(self.rows, self.schema, buckets)
            if any(self.begun.offset <= offset for offset in emptied):
                found.why = "it was emptied meanwhile"
                return
            for chunk in self._chunks():
                if not chunk.comparable:
                    found.why = OTHER_VERSION
                    return
                if chunk.schema.fingerprint != self.schema.fingerprint:
                    found.why = CHANGED
                    return
                buckets.add(of_source(chunk))
            after = max(emptied, default=-1)
            matching = self._matching(found, after, _apart(self.rows, self.schema))
            undecided = [matching.compare(rows) for rows in buckets.tables()]
        _decide(undecided, self.rows, self.schema, after, found)

    def compare_kept(self, rows: Iterator[pa.Table], found: Comparison) -> None:
        """Rows that events touched while the source was read are left out: the log is compared with those."""
        touched = pa.chunked_array([self._touched(), _apart(self.rows, self.schema)], DIGEST).combine_chunks()
        with Buckets(side_schema(self.schema), 2 * self.ended.rows) as buckets:
            try:
                for table in rows:
                    buckets.add(of_kept(table, self.schema))
            except TidemarkError as error:
                found.why = f"{error.code}: {error.message}"
                return
            for chunk in self._chunks():
                buckets.add(of_source(chunk))
            matching = self._matching(found, KEPT, touched)
            for both in buckets.tables():
                matching.compare(both)

    def _matching(self, found: Comparison, after: int, apart: Any) -> Matching:
        return Matching(found, key_names(self.schema), self.begun.offset, after, apart, self.all_rows)

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
            found.append(digests(keys, true(recent)))
        return pa.chunked_array(found, DIGEST).combine_chunks()


def _add_events(rows: LoggedRows, schema: TableSchema, buckets: Buckets) -> list[int]:
    """Adds the events to the buckets. Returns the offsets of those that empty the table."""
    emptied: list[int] = []
    for batch in rows.batches():
        emptying = pc.equal(batch.meta("_op"), "t")
        if pc.any(emptying).as_py():
            emptied += batch.meta("_offset").filter(emptying).to_pylist()
            others = pc.invert(emptying)
            batch = LoggedBatch(batch.values.filter(others), batch.raw.filter(others), batch.names)
        buckets.add(of_events(batch, schema))
    return emptied


def _apart(rows: LoggedRows, schema: TableSchema) -> Any:
    """The digests of the keys of which an event is kept apart."""
    names = {column.name: column.in_source for column in schema.columns}
    documents = [
        orjson.dumps({names[name]: value for name, value in key.items() if name in names}) for key in rows.kept_apart()
    ]
    keys = keys_of(documents, schema)
    return digests(keys.columns, keys.num_rows)


def _decide(undecided: list[pa.Table], rows: LoggedRows, schema: TableSchema, after: int, found: Comparison) -> None:
    """Compares the rows whose last event leaves columns out."""
    whole_rows = pa.concat_tables([side_schema(schema).empty_table(), *undecided])
    if not whole_rows.num_rows:
        return
    ids: list[Any] = whole_rows.column("id").to_pylist()
    places: list[Any] = whole_rows.column("place").to_pylist()
    before = {each: place // 2 for each, place in zip(ids, places, strict=True)}
    logged = last_digests(rows, schema, before, after)
    events: Any = pa.array([logged.get(each) for each in ids], DIGEST)
    known = events.is_valid()
    found.unknown += pc.sum(pc.invert(known)).as_py()
    found.compared += pc.sum(known).as_py()
    differs = pc.fill_null(pc.not_equal(events, whole_rows.column("digest")), False)
    key = whole_rows.select(key_names(schema)).filter(differs)
    found.add(Kind.DIFFERENT, key.columns, key.num_rows)
