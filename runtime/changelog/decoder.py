"""From a collection's documents to a table of its columns and the change log's own.

msgspec decodes into a struct type that is made for the schema. JSON values stay ``Raw``, so that their text is exact. A
member that the schema does not have is an error.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeVar

import msgspec
import pyarrow as pa
from msgspec import Raw, Struct
from msgspec.json import Decoder

from tidemark.protocol.changelog.models import DOCUMENT_COLUMN, META_COLUMNS, TableSchema
from tidemark.protocol.changelog.table_schema import is_untyped
from tidemark.protocol.errors import ChangeLogError, ProtocolError, TidemarkError
from tidemark.runtime.changelog.columns import (
    ABSENT,
    MISFITS,
    Gather,
    arrow_type,
    as_type,
    cast,
    codec,
    json_texts,
    number_texts,
    repeated,
)
from tidemark.runtime.changelog.quarantine import Misfit

T = TypeVar("T")
Op = Literal["c", "u", "d", "t"]

_META_TYPES = {name: arrow_type(type_) for name, type_ in META_COLUMNS.items()}
_MILLISECONDS = pa.timestamp("ms", "UTC")


class Source(Struct, gc=False, frozen=True):
    """``_meta.source``; unknown members are ignored."""

    ts_ms: int | None = None
    snapshot: bool | None = None
    loc: Raw = ABSENT
    cursor: Raw = ABSENT
    txid: str | int | None = None


class Meta(Struct, gc=False):
    """``_meta`` of a document (design: documents)."""

    op: Op
    source: Source = Source()
    before: Raw = ABSENT
    unchanged: list[str] | None = None
    bad: None = None
    """A connector marks an event by this member. The event is then a misfit, so the check costs nothing."""


class Unfit(ChangeLogError):
    """A document that does not fit its collection, and can be kept apart."""


class _Marked(Struct, gc=False):
    """A ``_meta`` by which a connector marks an event: its bad values, as text, by column."""

    bad: dict[str, Any]


class Envelope(Struct, gc=False):
    """A document of which only ``_meta`` is decoded."""

    meta: Raw = msgspec.field(default=ABSENT, name="_meta")


_METAS = Decoder(Meta)
_ENVELOPES = Decoder(Envelope)


@dataclass(frozen=True, slots=True)
class Part:
    """Gathered documents and their columns. The documents are kept until the columns are cast."""

    documents: list[bytes]
    offsets: array[int]
    batch: pa.RecordBatch


class DocumentDecoder(ABC):
    """Decodes the documents of one collection under one schema.

    Attributes:
        schema: The collection's columns.
        arrow_schema: The schema of the resulting tables: the collection's columns, then ``META_COLUMNS``.
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self._types = {column.name: arrow_type(column.type) for column in schema.columns} | _META_TYPES
        self.arrow_schema = pa.schema(list(self._types.items()))

    def gather(self, documents: Sequence[bytes], offsets: array[int]) -> pa.RecordBatch:
        """The first step, under the interpreter's lock: documents to columns, some of them still text.

        Args:
            documents: JSON objects, at least one.
            offsets: The offset of each document's event.

        Raises:
            ChangeLogError: ``TM-LOG-010`` a value does not fit its column.
            ProtocolError: ``TM-PRO-001`` a document is not JSON.
        """
        arrays, metas = self._decode(documents, offsets)
        sources = [meta.source for meta in metas]
        places = [source.loc for source in sources]
        if not all(map(len, places)):
            places = [source.loc if len(source.loc) else source.cursor for source in sources]
        commit_times = [source.ts_ms for source in sources]
        befores = [meta.before for meta in metas]
        arrays += [
            repeated([meta.op for meta in metas], pa.string()),
            pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)]),
            self._column("_commit_ts", commit_times, lambda values: pa.array(values, _MILLISECONDS), offsets),
            self._column("_loc", places, json_texts, offsets),
            self._column("_txid", [source.txid for source in sources], number_texts, offsets),
            repeated([bool(source.snapshot) for source in sources], pa.bool_()),
            self._column("_before", befores, json_texts, offsets),
            repeated([meta.unchanged for meta in metas], _META_TYPES["_unchanged"]),
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.arrow_schema.names)

    def cast(self, batches: list[pa.RecordBatch]) -> pa.Table:
        """The second step, mostly without the lock: the result of ``gather`` as one table of ``arrow_schema``.

        Raises:
            ChangeLogError: ``TM-LOG-010`` a value does not fit its column.
        """
        table = pa.Table.from_batches(batches)
        columns = []
        for name, type_ in self._types.items():
            column = table.column(name)
            try:
                columns.append(cast(column, type_))
            except MISFITS:
                # ``take`` and not ``slice``: a slice of lists still holds the items of all.
                row = _first_misfit(lambda i, column=column, type_=type_: cast(column.take([i]), type_), table)
                raise self._misfit(name, table.column("_offset")[row].as_py()) from None
        return pa.Table.from_arrays(columns, schema=self.arrow_schema)

    def fit(
        self, documents: list[bytes], offsets: array[int], *, whole: bool = False
    ) -> tuple[list[Part], list[Misfit]]:
        """As ``gather``, and separates documents that do not fit; with ``whole`` also those that ``cast`` would refuse.

        Raises:
            ChangeLogError: ``TM-LOG-010`` a ``_meta`` is invalid, so the event's operation is unknown.
            ProtocolError: ``TM-PRO-001`` a document is not JSON.
        """
        try:
            batch = self.gather(documents, offsets)
            if whole:
                self.cast([batch])
        except (ChangeLogError, ProtocolError) as error:
            if len(documents) == 1:
                if not isinstance(error, Unfit):
                    raise
                return [], [Misfit(self.schema, offsets[0], documents[0], error)]
        else:
            return [Part(documents, offsets, batch)], []
        middle = len(documents) // 2
        parts, misfits = self.fit(documents[:middle], offsets[:middle], whole=whole)
        others, more = self.fit(documents[middle:], offsets[middle:], whole=whole)
        return parts + others, misfits + more

    @abstractmethod
    def _decode(self, documents: Sequence[bytes], offsets: array[int]) -> tuple[list[pa.Array[Any]], list[Meta]]:
        """The table's own columns and each document's ``_meta``."""

    def _column(self, name: str, values: Sequence[Any], gather: Gather, offsets: array[int]) -> pa.Array[Any]:
        try:
            return gather(values)
        except MISFITS:
            row = _first_misfit(lambda index: gather(values[index : index + 1]), values)
            raise self._misfit(name, offsets[row]) from None

    def _misfit(self, column: str, offset: int) -> ChangeLogError:
        collection = self.schema.collection
        if column in META_COLUMNS or column == "_meta":
            return ChangeLogError(
                "TM-LOG-010",
                f"{collection}: the _meta of the event at offset {offset} is malformed (for {column})",
                remedy=(
                    "The connector must be fixed: op is one of c, u, d, t; source.ts_ms is in milliseconds; "
                    "source.txid is a number or a string; unchanged is a list of column names."
                ),
            )
        types = {known.name: known.type for known in self.schema.columns}
        if column not in types:
            return Unfit(
                "TM-LOG-010",
                f"{collection}: the event at offset {offset} has a member {column!r}, but the schema has no such "
                "column",
                remedy="The connector must be fixed: it has to send a sourcedSchema before such a document.",
            )
        return Unfit(
            "TM-LOG-010",
            f"{collection}: the column {column!r} of type {types[column]} cannot hold the value of the event at "
            f"offset {offset}",
            remedy=f"Store the column as text, by  text: [{json.dumps(column, ensure_ascii=False)}]  in the entry of "
            f"table {collection.replace('/', '.')} in the capture file's tables:, or change its type at the source.",
        )

    def _bad_values(self, columns: list[str], offset: int) -> Unfit:
        return Unfit(
            "TM-LOG-010",
            f"{self.schema.collection}: the event at offset {offset} has bad values in {', '.join(columns)}",
            remedy=(
                "`on_bad_value: quarantine` keeps these events apart. Fix the rows at the source: the next "
                "event of each row is in its table again."
            ),
        )

    def _not_json(self, document: bytes, offset: int) -> TidemarkError:
        if _json_with_bad_texts(document):
            return Unfit(
                "TM-LOG-010",
                f"{self.schema.collection}: a text in the document at offset {offset} is not UTF-8 or holds half of a "
                "surrogate pair, or it is nested too deep",
                remedy="Fix the row at the source, or leave the column out with exclude in the entry of its table.",
            )
        return ProtocolError(
            "TM-PRO-001",
            f"{self.schema.collection}: the document at offset {offset} is not JSON, is nested too deep, or a text in "
            "it holds half of a surrogate pair",
            remedy=(
                "Have the connector send one JSON object per line. PostgreSQL's json columns may hold such an "
                "escape (\\ud800 to \\udfff by itself) or such nesting: exclude the column in the capture "
                "file. Fixing the row is enough only if the source's log does not hold it."
            ),
        )


class RowDecoder(DocumentDecoder):
    """For a closed schema: a column for each property.

    Args:
        schema: The columns.
        text: Columns that take any value and keep its text.
    """

    def __init__(self, schema: TableSchema, text: frozenset[str]) -> None:
        super().__init__(schema)
        self._codecs = {column.name: codec(column, column.name in text) for column in schema.columns}
        fields: list[tuple[str, Any, Any]] = [("meta", Meta, msgspec.field(name="_meta"))]
        for index, (name, column) in enumerate(self._codecs.items()):
            fields.append((f"c{index}", column.field_type, msgspec.field(default=column.default, name=name)))
        row = msgspec.defstruct("Row", fields, gc=False, forbid_unknown_fields=True)
        self._rows: Decoder[Any] = Decoder(row)
        self._getters = [attrgetter(f"c{index}") for index in range(len(self._codecs))]

    def _decode(self, documents: Sequence[bytes], offsets: array[int]) -> tuple[list[pa.Array[Any]], list[Meta]]:
        rows = _try_lines(documents, self._rows)
        if rows is None:
            raise self._fault(documents, offsets)
        arrays = [
            self._column(name, list(map(getter, rows)), column.gather, offsets)
            for (name, column), getter in zip(self._codecs.items(), self._getters, strict=True)
        ]
        return arrays, [row.meta for row in rows]

    def _fault(self, documents: Sequence[bytes], offsets: array[int]) -> TidemarkError:
        """The first document that cannot be decoded, as an error that names the column."""
        row = _first_misfit(lambda index: self._rows.decode(documents[index]), documents)
        offset = offsets[row]
        members = as_type(documents[row], dict[str, Raw])
        if members is None:
            return self._not_json(documents[row], offset)
        if marked := as_type(members.get("_meta", ABSENT), _Marked):
            return self._bad_values(list(marked.bad), offset)
        for name, raw in members.items():
            column = self._codecs.get(name)
            type_ = Meta if name == "_meta" else column.field_type if column else None
            if type_ is None or not _fits(raw, type_):
                return self._misfit(name, offset)
        return self._misfit("_meta", offset)


class WholeDocumentDecoder(DocumentDecoder):
    """For documents without a closed schema: their exact text.

    Other projects' connectors may put anything into ``_meta``. Members of our protocol are read, the others are only in
    the document. An event without ``op`` is a creation.
    """

    def _decode(self, documents: Sequence[bytes], offsets: array[int]) -> tuple[list[pa.Array[Any]], list[Meta]]:
        raws = [envelope.meta for envelope in self._envelopes(documents, offsets)]
        if any(marked := [as_type(raw, _Marked) for raw in raws] if b'"bad"' in b"".join(raws) else ()):
            row = next(row for row, mark in enumerate(marked) if mark)
            raise self._bad_values(list(marked[row].bad), offsets[row])
        metas = None
        if all(map(len, raws)):
            metas = _try_lines(raws, _METAS)
        if metas is None:
            metas = [
                as_type(raw, Meta) or self._foreign(raw, offset) for raw, offset in zip(raws, offsets, strict=True)
            ]
        return [self._column(DOCUMENT_COLUMN, documents, json_texts, offsets)], metas

    def _envelopes(self, documents: Sequence[bytes], offsets: array[int]) -> list[Envelope]:
        envelopes = _try_lines(documents, _ENVELOPES)
        if envelopes is None:
            row = _first_misfit(lambda index: _ENVELOPES.decode(documents[index]), documents)
            raise self._not_json(documents[row], offsets[row])
        return envelopes

    def _foreign(self, raw: Raw, offset: int) -> Meta:
        meta = as_type(raw, dict[str, Raw]) or {}
        op = meta.get("op", ABSENT)
        # An unknown operation might be a deletion: do not guess.
        if as_type(op, str) is not None and not _fits(op, Op):
            raise self._misfit("_op", offset)
        source = as_type(meta.get("source", ABSENT), dict[str, Raw]) or {}
        return Meta(
            op=as_type(op, Op) or "c",
            source=Source(
                ts_ms=as_type(source.get("ts_ms", ABSENT), int),
                snapshot=as_type(source.get("snapshot", ABSENT), bool),
                loc=source.get("loc", ABSENT),
                cursor=source.get("cursor", ABSENT),
                txid=as_type(source.get("txid", ABSENT), str | int),
            ),
            before=meta.get("before", ABSENT),
        )


def decoder(schema: TableSchema, text: frozenset[str]) -> DocumentDecoder:
    """The decoder of a collection under a schema."""
    return WholeDocumentDecoder(schema) if is_untyped(schema) else RowDecoder(schema, text)


def unknown_members(schema: TableSchema, documents: Iterable[bytes]) -> list[str]:
    """The members of documents for which the schema has no column, in their order."""
    found: dict[str, None] = {}
    for document in documents:
        found |= dict.fromkeys(as_type(document, dict[str, Raw]) or ())
    known = {"_meta", *(column.name for column in schema.columns)}
    return [] if is_untyped(schema) else [name for name in found if name not in known]


def _first_misfit(attempt: Callable[..., object], rows: Sized) -> int:
    """The first row for which ``attempt(index)`` fails. Called only after the rows together have failed."""
    for index in range(len(rows)):
        try:
            attempt(index)
        except MISFITS:
            return index
    raise AssertionError("the values fit one by one, but not together")


def _fits(raw: Raw, type_: Any) -> bool:
    try:
        msgspec.json.decode(raw, type=type_)
    except MISFITS:
        return False
    return True


def _json_with_bad_texts(document: bytes) -> bool:
    """Whether it is a JSON object, apart from invalid texts and its depth."""
    try:
        return isinstance(json.loads(document.decode("utf-8", "replace")), dict)
    except RecursionError:
        return True
    except ValueError:
        return False


def _try_lines(lines: Sequence[bytes] | Sequence[Raw], decoder: Decoder[T]) -> list[T] | None:
    """One value per line; None if a line is anything else."""
    try:
        values = decoder.decode_lines(b"\n".join(lines))
    except MISFITS:
        return None
    return values if len(values) == len(lines) else None
