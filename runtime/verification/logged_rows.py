"""A table's events in the log as rows of one schema, whatever schema each was written under."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.changelog import ChangeLog, Segment, TableSchema
from tidemark.protocol.changelog.columns.column_identity import identities
from tidemark.protocol.changelog.models import META_COLUMNS, QUARANTINE
from tidemark.protocol.changelog.segment_files import SegmentFile, asked_for, batches
from tidemark.runtime.changelog.documents.columns import arrow_type, cast
from tidemark.runtime.changelog.documents.decoder import RowDecoder

pc: Any = pyarrow.compute

_ROWS = 32_768
_META = ("_offset", "_op", "_unchanged")


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """Some events.

    Attributes:
        values: Under the schema that is read under.
        raw: As the log has them.
        names: What ``raw`` calls each column of ``values``; None for one that it lacks.
    """

    values: pa.Table
    raw: pa.RecordBatch
    names: list[str | None]

    def meta(self, name: str) -> Any:
        """One of the log's own columns."""
        return self.raw.column(name)

    def partial(self) -> Any:
        """Whether each event leaves columns out."""
        return pc.greater(pc.fill_null(pc.list_value_length(self.meta("_unchanged")), 0), 0)


class LoggedRows:
    """The events of one generation of a table.

    Args:
        log: The log.
        schema: That is read under.
        generation: The number of the generation.
        first: The offset of its first event.
        end: The offset of the first event that is not read.
    """

    def __init__(self, log: ChangeLog, schema: TableSchema, generation: int, first: int, end: int) -> None:
        self._log = log
        self._schema = schema
        self._constants = _constants(schema)
        found = log.segments(schema.collection, first, end)
        self.segments = [segment for segment in found if segment.generation == generation]
        self._end = end
        self._names = self._named()

    @property
    def rows(self) -> int:
        """How many there are, about."""
        return sum(segment.rows for segment in self.segments)

    def batches(self) -> Iterator[LoggedBatch]:
        """All events, in the order of their offsets. Raises as ``SegmentFile.opened``."""
        files = [SegmentFile.of(segment) for segment in self.segments]
        of_path = {segment.path: segment for segment in self.segments}
        for file, data in asked_for(self._log.store, files):
            segment = of_path[file.path]
            with file.opened(self._log.store, data) as parquet:
                read = [name for name in parquet.schema_arrow.names if name not in META_COLUMNS or name in _META]
                for batch in batches(parquet, _ROWS, columns=read, use_threads=True):
                    if segment.last_offset >= self._end:
                        batch = batch.filter(pc.less(batch.column("_offset"), self._end))
                    yield self._under(segment, batch)

    def _under(self, segment: Segment, batch: pa.RecordBatch) -> LoggedBatch:
        names = self._names[segment.fingerprint]
        columns: list[Any] = []
        for column, name in zip(self._schema.columns, names, strict=True):
            type_: Any = arrow_type(column.type)
            if name is None:
                columns.append(pa.chunked_array([pa.repeat(self._constants[column.name], batch.num_rows)], type_))
            else:
                columns.append(cast(pa.chunked_array([batch.column(name)]), type_))
        values = pa.Table.from_arrays(columns, names=[column.name for column in self._schema.columns])
        return LoggedBatch(values, batch, names)

    def _named(self) -> dict[str, list[str | None]]:
        """By fingerprint of a segment, what it calls each column of the schema; None for one that it lacks."""
        summary = self._log.summary()
        fingerprints = list(dict.fromkeys(segment.fingerprint for segment in self.segments))
        *known, latest = identities([*(summary.schemas[each] for each in fingerprints), self._schema])
        named = {}
        for fingerprint, names in zip(fingerprints, known, strict=True):
            called = {identity: name for name, identity in names.items()}
            named[fingerprint] = [called.get(latest[column.name]) for column in self._schema.columns]
        return named

    def kept_apart(self) -> list[dict[str, Any]]:
        """The keys of events that are kept apart, as far as they are known: JSON values by column."""
        if not self.segments:
            return []
        first = self.segments[0].first_offset
        keys = []
        for segment in self._log.segments(QUARANTINE, first, self._end):
            with SegmentFile.of(segment).opened(self._log.store) as parquet:
                for batch in batches(parquet, _ROWS, columns=["collection", "key"]):
                    ours = batch.filter(pc.equal(batch.column("collection"), self._schema.collection))
                    keys += [orjson.loads(key) for key in ours.column("key").to_pylist() if key is not None]
        return keys


def _constants(schema: TableSchema) -> dict[str, Any]:
    """The value of each column in events whose schema lacks it."""
    constants: dict[str, Any] = {column.name: pa.scalar(None, arrow_type(column.type)) for column in schema.columns}
    stated = [column for column in schema.columns if column.fill is not None]
    constants |= {column.name: pa.scalar(column.fill, pa.string()) for column in stated if column.json_text}
    typed = [column for column in stated if not column.json_text]
    if typed:
        decoder = RowDecoder(schema.model_copy(update={"columns": typed, "key": []}), frozenset())
        document = orjson.dumps({"_meta": {"op": "c"}, **{column.in_source: column.fill for column in typed}})
        row = decoder.cast([decoder.gather([document], array("q", [0]))])
        constants |= {column.name: row.column(column.name)[0] for column in typed}
    return constants
