"""From a collection's documents to a table of its columns and the change log's own.

msgspec decodes into a struct type that is made for the schema. JSON values stay ``Raw``, so that their text is exact. A
member that the schema does not have is an error.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, TypeVar

import msgspec
import pyarrow as pa
from msgspec import Raw, Struct
from msgspec.json import Decoder

from tidemark.protocol.changelog.columns.table_schema import is_untyped
from tidemark.protocol.changelog.models import DOCUMENT_COLUMN, META_COLUMNS, Column, TableSchema
from tidemark.protocol.errors import ChangeLogError, ProtocolError, TidemarkError
from tidemark.runtime.changelog.documents.columns import (
    ABSENT,
    MISFITS,
    ColumnCodec,
    Gather,
    arrow_type,
    as_type,
    cast,
    codec,
    json_texts,
    number_texts,
    repeated,
)
from tidemark.runtime.changelog.documents.quarantine import Misfit, Unfit, bad_values, misfit, not_json, unknown_member

T = TypeVar("T")
Document = TypeVar("Document", bytes, Raw)
Op = Literal["c", "u", "d", "t"]

_META_TYPES = {name: arrow_type(type_) for name, type_ in META_COLUMNS.items()}
_NO_FIELD = re.compile(r'["\\\x00-\x1f]')
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


class _Marked(Struct, gc=False):
    """A ``_meta`` by which a connector marks an event: its bad values, as text, by column."""

    bad: dict[str, Any]


class _Members:
    """Decodes documents into structs of ``_meta`` and the members that are columns.

    Args:
        columns: The columns.
        text: Those that take any value and keep its text, as the source calls them.
        meta: The type of ``_meta``.
        others: Documents may have other members. Then they need no ``_meta``, either.
    """

    def __init__(self, columns: Sequence[Column], text: frozenset[str], meta: Any, *, others: bool) -> None:
        self.codecs: dict[str, ColumnCodec] = {}
        of_meta = msgspec.field(default=ABSENT, name="_meta") if others else msgspec.field(name="_meta")
        fields: list[tuple[str, Any, Any]] = [("meta", meta, of_meta)]
        sources = {column.in_source: f"c{index}" for index, column in enumerate(columns)}
        # msgspec has no fields of such names: documents get members of other names first.
        self._places = {**sources, "_meta": "_meta"} if any(map(_NO_FIELD.search, sources)) else {}
        for (source, place), column in zip(sources.items(), columns, strict=True):
            found = self.codecs[column.name] = codec(column, source in text)
            name = place if self._places else source
            fields.append((place, found.field_type, msgspec.field(default=found.default, name=name)))
        row = msgspec.defstruct("Row", fields, gc=False, forbid_unknown_fields=not others)
        self._decoder: Decoder[Any] = Decoder(row)
        self._getters = [attrgetter(place) for place in sources.values()]

    def rows(self, documents: Sequence[bytes]) -> list[Any] | None:
        """A struct for each document; None if one does not fit."""
        if self._places:
            documents = [renamed(document, self._places, others="?") for document in documents]
        return _try_lines(documents, self._decoder)

    def values(self, rows: Sequence[Any]) -> Iterator[tuple[str, ColumnCodec, list[Any]]]:
        """Name, codec and values of each column."""
        for (name, column), getter in zip(self.codecs.items(), self._getters, strict=True):
            yield name, column, list(map(getter, rows))


_METAS = Decoder(Meta)


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
        stored_names: By the name in the source, of columns that have another one in the log.
    """

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.stored_names = {
            column.in_source: column.name for column in schema.columns if column.in_source != column.name
        }
        self._types = {column.name: arrow_type(column.type) for column in schema.columns} | _META_TYPES
        self.arrow_schema = pa.schema(list(self._types.items()))

    def stored(self, names: Iterable[str]) -> list[str]:
        """The names in the log of columns that the source calls so."""
        return [self.stored_names.get(name, name) for name in names]

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
        befores, unchanged = [meta.before for meta in metas], [meta.unchanged for meta in metas]
        if self.stored_names:
            befores = [renamed(before, self.stored_names) for before in befores]
            unchanged = [names and self.stored(names) for names in unchanged]
        arrays += [
            repeated([meta.op for meta in metas], pa.string()),
            pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)]),
            self._column("_commit_ts", commit_times, lambda values: pa.array(values, _MILLISECONDS), offsets),
            self._column("_loc", places, json_texts, offsets),
            self._column("_txid", [source.txid for source in sources], number_texts, offsets),
            repeated([bool(source.snapshot) for source in sources], pa.bool_()),
            self._column("_before", befores, json_texts, offsets),
            repeated(unchanged, _META_TYPES["_unchanged"]),
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
                raise misfit(self.schema, name, table.column("_offset")[row].as_py()) from None
        return pa.Table.from_arrays(columns, schema=self.arrow_schema)

    def fit(
        self, documents: list[bytes], offsets: array[int], *, whole: bool = False
    ) -> tuple[list[Part], list[Misfit]]:
        """Gathers documents, and separates those that do not fit; with ``whole`` also those that ``cast`` would refuse.

        What fits ``cast`` is not needed any more as documents, and the parts have none then.

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
            return [Part([] if whole else documents, offsets, batch)], []
        middle = len(documents) // 2
        parts, misfits = self.fit(documents[:middle], offsets[:middle], whole=whole)
        others, more = self.fit(documents[middle:], offsets[middle:], whole=whole)
        return parts + others, misfits + more

    @abstractmethod
    def _decode(self, documents: Sequence[bytes], offsets: array[int]) -> tuple[list[pa.Array[Any]], list[Meta]]:
        """The table's own columns and each document's ``_meta``."""

    def _arrays(self, members: _Members, rows: Sequence[Any], offsets: array[int]) -> list[pa.Array[Any]]:
        return [self._column(name, found, column.gather, offsets) for name, column, found in members.values(rows)]

    def _column(self, name: str, values: Sequence[Any], gather: Gather, offsets: array[int]) -> pa.Array[Any]:
        try:
            return gather(values)
        except MISFITS:
            row = _first_misfit(lambda index: gather(values[index : index + 1]), values)
            raise misfit(self.schema, name, offsets[row]) from None


class RowDecoder(DocumentDecoder):
    """For a closed schema: a column for each property.

    Args:
        schema: The columns.
        text: Columns that take any value and keep its text, as the source calls them.
    """

    def __init__(self, schema: TableSchema, text: frozenset[str]) -> None:
        super().__init__(schema)
        self._members = _Members(schema.columns, text, Meta, others=False)

    def _decode(self, documents: Sequence[bytes], offsets: array[int]) -> tuple[list[pa.Array[Any]], list[Meta]]:
        rows = self._members.rows(documents)
        if rows is None:
            raise self._fault(documents, offsets)
        return self._arrays(self._members, rows, offsets), [row.meta for row in rows]

    def _fault(self, documents: Sequence[bytes], offsets: array[int]) -> TidemarkError:
        """The first document that cannot be decoded, as an error that names the column."""
        row = next(row for row, document in enumerate(documents) if self._members.rows([document]) is None)
        offset = offsets[row]
        members = as_type(documents[row], dict[str, Raw])
        if members is None:
            return not_json(self.schema, documents[row], offset)
        if marked := as_type(members.get("_meta", ABSENT), _Marked):
            return bad_values(self.schema, list(marked.bad), offset)
        columns = {column.in_source: column.name for column in self.schema.columns}
        for member, raw in members.items():
            if member == "_meta":
                continue
            if member not in columns:
                return unknown_member(self.schema, member, offset)
            if not _fits(raw, self._members.codecs[columns[member]].field_type):
                return misfit(self.schema, columns[member], offset)
        return misfit(self.schema, "_meta", offset)


class WholeDocumentDecoder(DocumentDecoder):
    """For documents without a closed schema: their exact text, and the columns of their key.

    Other projects' connectors may put anything into ``_meta``. Members of our protocol are read, the others are only in
    the document. An event without ``op`` is a creation.
    """

    def __init__(self, schema: TableSchema, text: frozenset[str]) -> None:
        super().__init__(schema)
        key = [column for column in schema.columns if column.name != DOCUMENT_COLUMN]
        self._members = _Members(key, text, Raw, others=True)

    def _decode(self, documents: Sequence[bytes], offsets: array[int]) -> tuple[list[pa.Array[Any]], list[Meta]]:
        rows = self._members.rows(documents)
        if rows is None:
            raise self._fault(documents, offsets)
        raws = [row.meta for row in rows]
        if any(marked := [as_type(raw, _Marked) for raw in raws] if b'"bad"' in b"".join(raws) else ()):
            row = next(row for row, mark in enumerate(marked) if mark)
            raise bad_values(self.schema, list(marked[row].bad), offsets[row])
        metas = None
        if all(map(len, raws)):
            metas = _try_lines(raws, _METAS)
        if metas is None:
            metas = [
                as_type(raw, Meta) or self._foreign(raw, offset) for raw, offset in zip(raws, offsets, strict=True)
            ]
        key = self._arrays(self._members, rows, offsets)
        return [*key, self._column(DOCUMENT_COLUMN, documents, json_texts, offsets)], metas

    def _fault(self, documents: Sequence[bytes], offsets: array[int]) -> TidemarkError:
        """The first document that cannot be decoded, as an error that names the column of the key, if it is one."""
        row = next(row for row, document in enumerate(documents) if self._members.rows([document]) is None)
        members = as_type(documents[row], dict[str, Raw]) or {}
        sources = {column.name: column.in_source for column in self.schema.columns}
        for name, column in self._members.codecs.items():
            raw = members.get(sources[name])
            if raw is not None and not _fits(raw, column.field_type):
                return misfit(self.schema, name, offsets[row])
        return not_json(self.schema, documents[row], offsets[row])

    def _foreign(self, raw: Raw, offset: int) -> Meta:
        meta = as_type(raw, dict[str, Raw]) or {}
        op = meta.get("op", ABSENT)
        # An unknown operation might be a deletion: do not guess.
        if as_type(op, str) is not None and not _fits(op, Op):
            raise misfit(self.schema, "_op", offset)
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
    return WholeDocumentDecoder(schema, text) if is_untyped(schema) else RowDecoder(schema, text)


def unknown_members(schema: TableSchema, documents: Iterable[bytes]) -> list[str]:
    """The members of documents for which the schema has no column, in their order."""
    found: dict[str, None] = {}
    for document in documents:
        found |= dict.fromkeys(as_type(document, dict[str, Raw]) or ())
    known = {"_meta", *(column.in_source for column in schema.columns)}
    return [] if is_untyped(schema) else [name for name in found if name not in known]


def renamed(document: Document, names: Mapping[str, str], others: str = "") -> Document:
    """A JSON object whose members have other names, those without one behind ``others``; anything else as it is."""
    members = as_type(document, dict[str, Raw])
    if members is None:
        return document
    named = {names.get(member) or others + member: raw for member, raw in members.items()}
    return type(document)(msgspec.json.encode(named))


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


def _try_lines(lines: Sequence[bytes] | Sequence[Raw], decoder: Decoder[T]) -> list[T] | None:
    """One value per line; None if a line is anything else."""
    try:
        values = decoder.decode_lines(b"\n".join(lines))
    except MISFITS:
        return None
    return values if len(values) == len(lines) else None
