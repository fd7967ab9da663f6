"""The events of a change log as Delta tables without a copy: each consists of the log's own segments.

A table lies beside its segments, in ``data/<collection>/_delta_log``, and is brought up to date by one commit. Format:
the Delta transaction log protocol, https://github.com/delta-io/delta/blob/master/PROTOCOL.md.

Nobody may write such a table: VACUUM would delete the segments that it does not name. So it asks for a feature of
writers that none of them has, and those that keep to the protocol refuse to write it. Readers need not know it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from tidemark.protocol.changelog import ChangeLog, Segment, Summary, TableSchema, layout
from tidemark.protocol.changelog.columns.column_identity import identities
from tidemark.protocol.changelog.models import META_COLUMNS, KnownGeneration
from tidemark.protocol.errors import ChangeLogError, SparkError, TidemarkError
from tidemark.spark_sink.formats.delta_failures import ask_again, failed
from tidemark.spark_sink.formats.delta_storage import delta_storage
from tidemark.spark_sink.tables.column_types import Columns, arrow_schema
from tidemark.spark_sink.tables.store_place import StorePlace

READ_ONLY = "tidemarkReadOnly"
"""The feature of writers that none has."""

_CHECKPOINT_EVERY = 100
"""Versions. A reader opens the newest checkpoint and the versions after it."""

_LOCAL_TIMES = "timestampNtz"
"""The feature of tables with a column of that type, for readers and writers."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What became of one table.

    Attributes:
        collection: Its name in the log.
        place: Where the Delta table is.
        files: How many segments it has.
        added: How many of them it did not have before.
        removed: How many it has no more: others stand for them, or the table was read again.
        error: Why it stayed as it was.
    """

    collection: str
    place: StorePlace
    files: int = 0
    added: int = 0
    removed: int = 0
    error: TidemarkError | None = None


def export(log: ChangeLog, place: StorePlace, collections: Sequence[str]) -> Iterator[Exported]:
    """Makes the Delta tables of a log's collections, or brings them up to date.

    A table has all events of one generation: the last one that is whole, or else the newest.

    Args:
        log: The log.
        place: Of the log.
        collections: Those wanted. One without an event has no result.

    Raises:
        ChangeLogError: As ``ChangeLog``. What is wrong with one table is in its result.
    """
    summary, start = log.summary(), log.start()
    generations = {name: _generation(known) for name in collections if (known := summary.generations.get(name))}
    for name in [name for name, one in generations.items() if one.begin < start]:
        begin = generations.pop(name).begin
        table = place / layout.segment_path(name, 0, 0, 0).rpartition("/")[0]
        what = f"{name.replace('/', '.')} has events from offset {begin:,} on, but {place} begins at {start:,}"
        yield Exported(name, table, error=ChangeLogError("TM-LOG-018", what))
    segments: dict[str, list[Segment]] = {}
    for _, segment in log.segments_of_all(
        min((one.begin for one in generations.values()), default=summary.next_offset), summary.next_offset
    ):
        one = generations.get(segment.collection)
        if one is not None and one.number == segment.generation:
            segments.setdefault(segment.collection, []).append(segment)
    for name in filter(segments.__contains__, collections):  # Others have only begun.
        table = place / segments[name][0].path.rpartition("/")[0]
        try:
            columns = _columns(_schemas(summary, segments[name]))
            yield _brought_up_to_date(name, table, columns, segments[name], summary.next_offset)
        except SparkError as error:
            yield Exported(name, table, error=error)


def _generation(known: Sequence[KnownGeneration]) -> KnownGeneration:
    return known[0] if known[0].whole is not None else known[-1]


def _schemas(summary: Summary, segments: Sequence[Segment]) -> list[TableSchema]:
    """The schemas of segments, each once, by the last segment that has it."""
    last = {segment.fingerprint: place for place, segment in enumerate(segments)}
    return [summary.schemas[fingerprint] for fingerprint in sorted(last, key=lambda one: last[one])]


def _columns(schemas: Sequence[TableSchema]) -> Columns:
    """The columns of the newest schema, as they are in the files of all of them.

    Raises:
        SparkError: ``TM-SPK-027`` where a file has a column under another name or in another type, or lacks one that
            has a value in it all the same: in a Delta table a file has each column as the table has it, or not at all.
    """
    *earlier, newest = schemas
    *before, now = identities(schemas)
    columns = {column.name: column for column in newest.columns}
    named = {now[name]: column for name, column in columns.items()}
    for schema, known in zip(earlier, before, strict=True):
        there = {known[column.name]: column for column in schema.columns}
        for identity, column in there.items():
            if identity not in named and column.name in columns:
                raise _impossible(newest, f"column {column.name} was another column")
            same = named.get(identity, column)
            if same.name != column.name:
                raise _impossible(newest, f"column {same.name} was named {column.name}")
            if same.type != column.type:
                raise _impossible(newest, f"column {same.name} was {column.type} and is {same.type}")
        for identity, column in named.items():
            if identity not in there and column.fill is not None:
                raise _impossible(newest, f"rows from before column {column.name} was added have a value in it")
    return {**{name: column.type for name, column in columns.items()}, **META_COLUMNS}


def _impossible(schema: TableSchema, why: str) -> SparkError:
    return SparkError("TM-SPK-027", f"{schema.collection.replace('/', '.')}: {why}")


def _brought_up_to_date(
    collection: str, place: StorePlace, columns: Columns, segments: Sequence[Segment], end: int
) -> Exported:
    """Commits what the table lacks, if anything. Raises ``TM-SPK-010``, ``-015`` and ``-026``."""
    table = _opened(place)
    known = {} if table is None else _last_offsets(table)
    schema = Schema.from_arrow(arrow_schema(columns)).to_json()
    wanted = {segment.path.rpartition("/")[2]: segment for segment in segments}
    added = [path for path in wanted if path not in known]
    removed = sorted(known.keys() - wanted.keys())
    now = time.time_ns() // 1_000_000
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": now, "operation": "tidemark log export", "nextOffset": end}}
    ]
    if table is None:
        actions += [{"protocol": _protocol(columns)}, {"metaData": _metadata(str(uuid4()), schema, now)}]
    elif table.schema().to_json() != schema:
        actions += [{"protocol": _protocol(columns)}, {"metaData": _metadata(str(table.metadata().id), schema, now)}]
    # The same events in other files are no change of data.
    first, end_before = segments[0].first_offset, max(known.values(), default=-1)
    actions += [
        {"remove": {"path": path, "deletionTimestamp": now, "dataChange": known[path] < first}} for path in removed
    ]
    actions += [
        {"add": {**_file(wanted[path], now), "dataChange": wanted[path].last_offset > end_before}} for path in added
    ]
    if len(actions) > 1:
        version = 0 if table is None else table.version() + 1
        path = f"_delta_log/{version:020d}.json"
        try:
            place.store.create(path, b"".join(orjson.dumps(action) + b"\n" for action in actions))
        except FileExistsError:
            raise SparkError("TM-SPK-010", f"{place}: another process has made version {version}") from None
        except OSError as error:
            raise place.failed(error, path) from None
        if version and version % _CHECKPOINT_EVERY == 0 and (table := _opened(place)) is not None:
            with _failing(place):
                table.create_checkpoint()
                table.cleanup_metadata()
    return Exported(collection, place, len(wanted), len(added), len(removed))


def _opened(place: StorePlace) -> DeltaTable | None:
    with _failing(place):
        try:
            return ask_again(lambda: DeltaTable(place.text, storage_options=delta_storage(place)))
        except TableNotFoundError:
            return None


@contextmanager
def _failing(place: StorePlace) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        raise failed(place, error) from None


def _last_offsets(table: DeltaTable) -> dict[str, int]:
    """The last offset of each file of a table."""
    actions: Any = table.get_add_actions(flatten=True)
    return dict(zip(*(actions.column(name).to_pylist() for name in ("path", "max._offset")), strict=True))


def _protocol(columns: Columns) -> dict[str, Any]:
    if any("timestamp_ntz" in type_ for type_ in columns.values()):
        features = {"readerFeatures": [_LOCAL_TIMES], "writerFeatures": [_LOCAL_TIMES, READ_ONLY]}
        return {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [READ_ONLY]}


def _metadata(id: str, schema: str, now: int) -> dict[str, Any]:
    return {
        "id": id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {"delta.logRetentionDuration": "interval 7 days"},
        "createdTime": now,
    }


def _file(segment: Segment, now: int) -> dict[str, Any]:
    stats = {
        "numRecords": segment.rows,
        "minValues": {"_offset": segment.first_offset},
        "maxValues": {"_offset": segment.last_offset},
        "nullCount": {"_offset": 0},
    }
    return {
        "path": segment.path.rpartition("/")[2],
        "partitionValues": {},
        "size": segment.size,
        "modificationTime": now,
        "stats": orjson.dumps(stats).decode(),
    }
