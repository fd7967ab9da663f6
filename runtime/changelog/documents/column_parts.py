"""From the columns of a batch to a table of a collection's columns and the change log's own.

A connector sends values, or their text in the form of documents. Arrow casts them, without the interpreter's lock and
without a loss: a value that does not fit is an error. Rows with such values become documents, so that they are kept
apart as any other.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from tidemark.protocol.batches import CapturedBatch, Part, broken
from tidemark.protocol.changelog.columns.table_schema import is_untyped
from tidemark.protocol.changelog.models import META_COLUMNS, Column, TableSchema
from tidemark.runtime.changelog.documents.columns import MICROSECONDS_A_DAY, MISFITS, arrow_type, cast, codec
from tidemark.runtime.changelog.documents.decoder import DocumentDecoder, renamed
from tidemark.runtime.changelog.documents.quarantine import Misfit, misfit
from tidemark.runtime.changelog.events import json_value, python_values

_OF_LOG = ("n", "op", "ts_ms", "loc", "txid", "before", "unchanged")
_TYPES_OF_LOG = (pa.uint32(), pa.string(), pa.int64(), pa.string(), pa.string(), pa.string(), pa.string())
"""The columns of a part of the log behind those of the table."""

_LAST_PRINTED_DAY = 11_248_737
"""Arrow prints years as numbers of sixteen bits: this is the last day of the year 32767."""

_OPS = pa.array(["c", "u", "d", "t"])
_MILLISECONDS = pa.timestamp("ms", "UTC")
_UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OSError)
"""What Arrow raises for bytes that are no stream; OSError too, although they are in memory."""

_TAKEN: dict[str, Callable[[pa.DataType], bool]] = {
    "boolean": pa.types.is_boolean,
    "bigint": pa.types.is_integer,
    "double": lambda type_: pa.types.is_floating(type_) or pa.types.is_integer(type_),
    "string": lambda _: False,
    "binary": lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_),
    "date": pa.types.is_date32,
    "timestamp": lambda type_: pa.types.is_timestamp(type_) and type_.tz is not None,
    "timestamp_ntz": lambda type_: pa.types.is_timestamp(type_) and type_.tz is None,
}
"""By the log's type: Arrow types whose values mean the same. Text does for all but binary values and arrays."""


class ColumnPart:
    """The events of one collection in a batch.

    Args:
        part: Of the batch's line.
        stream: Its bytes.
        first_offset: The offset of the batch's first event.

    Raises:
        ProtocolError: ``TM-PRO-008`` the bytes are not what the line says.

    Attributes:
        size: In bytes.
    """

    def __init__(self, part: Part, stream: memoryview, first_offset: int) -> None:
        self._part = part
        self._first_offset = first_offset
        self.size = part.bytes
        try:
            self._table = pa.ipc.open_stream(pa.py_buffer(stream)).read_all()
        except _UNREADABLE as error:
            raise broken(_first_line(error)) from None
        if self._table.num_rows != part.rows:
            raise broken(f"a part has {self._table.num_rows} rows, not {part.rows}")
        self.rows = part.rows - len(part.skip)

    def places(self) -> pa.Array[Any]:
        """The places that the events of a part of the log have in the batch. Raises as the constructor."""
        behind = self._table.num_columns - len(_OF_LOG)
        if behind < 0 or tuple(self._table.schema.types[behind:]) != _TYPES_OF_LOG:
            expected = ", ".join(f"{name} ({type_})" for name, type_ in zip(_OF_LOG, _TYPES_OF_LOG, strict=True))
            raise broken(f"the last columns of a part of the log must be {expected}")
        places: pa.Array[Any] = self._table.column(behind).combine_chunks()
        return places

    def fit(self, decoder: DocumentDecoder) -> tuple[pa.Table, list[Misfit]]:
        """A table of ``decoder.arrow_schema``, and the events that do not fit it.

        Raises:
            ProtocolError: ``TM-PRO-008`` the columns are not those of the collection.
        """
        schema, table = decoder.schema, self._table
        of_log = len(_OF_LOG) if self._part.kind == "log" else 0
        if is_untyped(schema) or table.num_columns != len(schema.columns) + of_log:
            raise broken(f"a part has {table.num_columns - of_log} columns, which are not those of {schema.collection}")
        try:
            table.validate(full=True)  # Above all, texts must be UTF-8.
        except pa.ArrowInvalid as error:
            raise broken(f"{schema.collection}: {_first_line(error)}") from None
        meta = self._log_meta(decoder) if of_log else self._chunk_meta()
        if self._part.skip:
            table = table.take(_indices(table.num_rows, self._part.skip))
        makers = [
            _maker(schema, column, table.column(place), as_json=place in self._part.meta.json)
            for place, column in enumerate(schema.columns)
        ]
        misfits = {}
        arrays: list[Any] = []
        for column, make in zip(schema.columns, makers, strict=True):
            try:
                arrays.append(make(None))
            except MISFITS:
                for row in _unfit(make, table.num_rows):
                    misfits[row] = misfit(schema, column.name, meta[1][row].as_py())
        if not misfits:
            return pa.Table.from_arrays([*arrays, *meta], schema=decoder.arrow_schema), []
        fitting = _indices(table.num_rows, sorted(misfits))
        found = [
            Misfit(schema, meta[1][row].as_py(), self._document(schema, table, meta, row), misfits[row])
            for row in sorted(misfits)
        ]
        arrays = [*(make(fitting) for make in makers), *(array.take(fitting) for array in meta)]
        return pa.Table.from_arrays(arrays, schema=decoder.arrow_schema), found

    def _chunk_meta(self) -> list[Any]:
        """The log's own columns of a chunk's rows."""
        part = self._part
        assert part.meta.place is not None  # The line was checked.
        before, after = part.meta.place
        numbers = pc.add(_count(part.rows), part.meta.first)
        if part.skip:
            numbers = numbers.take(_indices(part.rows, part.skip))
        empty = {name: _nulls(self.rows, arrow_type(type_)) for name, type_ in META_COLUMNS.items()}
        made = {
            "_op": pa.repeat(pa.scalar("c"), self.rows),
            "_offset": pc.add(_count(self.rows), self._first_offset),
            "_snapshot": pa.repeat(pa.scalar(True), self.rows),
        }
        if part.kind != "verify":  # Rows that are compared are not stored.
            made["_loc"] = pc.binary_join_element_wise(before, numbers.cast(pa.string()), after, "")
        return list((empty | made).values())

    def _log_meta(self, decoder: DocumentDecoder) -> list[Any]:
        """The log's own columns of a part of the log."""
        n, op, ts_ms, loc, txid, before, unchanged = (
            column.combine_chunks() for column in self._table.columns[-len(_OF_LOG) :]
        )
        if op.null_count or (not pc.all(pc.is_in(op, _OPS)).as_py() and len(op)):
            raise broken(f"{decoder.schema.collection}: op must be one of c, u, d, t")
        lists = _nulls(self.rows, arrow_type(META_COLUMNS["_unchanged"]))
        try:
            if unchanged.null_count < self.rows:
                names = [text and msgspec.json.decode(text, type=list[str]) for text in unchanged.to_pylist()]
                lists = pa.array([found and decoder.stored(found) for found in names], lists.type)
            if decoder.stored_names and before.null_count < self.rows:
                texts = [text and renamed(Raw(text.encode()), decoder.stored_names) for text in before.to_pylist()]
                before = pa.array([text and bytes(text).decode() for text in texts], pa.string())
        except MISFITS:
            raise broken(f"{decoder.schema.collection}: before and unchanged are JSON") from None
        return [
            op,
            pc.add(n.cast(pa.int64()), self._first_offset),
            ts_ms.cast(_MILLISECONDS).cast(arrow_type(META_COLUMNS["_commit_ts"])),
            loc,
            txid,
            pa.repeat(pa.scalar(False), self.rows),
            before,
            lists,
        ]

    def _document(self, schema: TableSchema, table: pa.Table, meta: Sequence[Any], row: int) -> bytes:
        """The document of a row."""
        op, _, commit_ts, loc, txid, snapshot, before, unchanged = (column.slice(row, 1) for column in meta)
        time = commit_ts.cast(_MILLISECONDS)[0]
        said: dict[str, Any] = {
            "op": op[0].as_py(),
            "source": {"ts_ms": time.value, "txid": txid[0].as_py(), "loc": json_value(loc[0].as_py(), True)},
            "before": json_value(before[0].as_py(), True),
            "unchanged": unchanged[0].as_py(),
        }
        if snapshot[0].as_py():
            said["source"]["snapshot"] = True
        members: dict[str, Any] = {"_meta": said}
        for place, column in enumerate(schema.columns):
            is_json = column.json_text or place in self._part.meta.json
            cell = table.column(place).slice(row, 1).combine_chunks()
            if pa.types.is_temporal(cell.type):  # Python has no years above 9999.
                members[column.in_source] = _moment(cell)
            else:
                members[column.in_source] = json_value(python_values(cell)[0], is_json)
        return orjson.dumps(members)


def _moment(cell: pa.Array[Any]) -> str | None:
    """A date or a timestamp in the form of documents; as its number where Arrow's calendar ends."""
    moment: Any = cell[0]
    if not moment.is_valid:
        return None
    unit = 1 if pa.types.is_date(cell.type) else MICROSECONDS_A_DAY
    if abs(moment.value) > _LAST_PRINTED_DAY * unit:
        return f"{moment.value} ({cell.type})"
    text: str = cell.cast(pa.string())[0].as_py()
    return text.replace(" ", "T")


def column_parts(batch: CapturedBatch, body: bytes, first_offset: int) -> list[ColumnPart]:
    """The parts of a batch.

    Args:
        body: What followed its line.
        first_offset: The offset of its first event.

    Raises:
        ProtocolError: ``TM-PRO-008`` the bytes are not what the line says.
    """
    view = memoryview(body)
    parts = []
    end = 0
    for part in batch.parts:
        start, end = end, end + part.bytes
        parts.append(ColumnPart(part, view[start:end], first_offset))
    if any(part.kind == "log" for part in batch.parts):
        _check([part.places() for part in parts], batch.events)
    return parts


def _check(places: list[pa.Array[Any]], events: int) -> None:
    """Each event of a batch of the log has a place of its own: then offsets have no gaps, and none comes twice."""
    for each in places:
        if each.null_count or (len(each) > 1 and not pc.all(pc.less(each[:-1], each[1:])).as_py()):
            raise broken("the places of a part's events do not ascend")
    found = pc.unique(pa.chunked_array(places, pa.uint32()))
    last = pc.max(found).as_py()
    if len(found) != events or (events and last != events - 1):
        raise broken("the places of its events have gaps, or are not unique")


Make = Callable[[Any], Any]
"""A column of the log, of some rows by their indices; None for all. Raises one of ``MISFITS``."""


def _maker(schema: TableSchema, column: Column, sent: pa.ChunkedArray[Any], *, as_json: bool) -> Make:
    """How a column that was sent becomes one of the log. Raises ProtocolError ``TM-PRO-008`` if it cannot."""
    type_ = arrow_type(column.type)
    is_text = pa.types.is_string(sent.type) or pa.types.is_large_string(sent.type)
    if not is_text and (as_json or not _means(sent.type, column.type)):
        raise broken(f"{schema.collection}: column {column.in_source!r} is {sent.type}, and {column.type} in the log")
    if is_text and not as_json and (column.type == "binary" or column.type.startswith("array<")):
        raise broken(f"{schema.collection}: column {column.in_source!r} comes as text without being JSON")
    of_json = codec(column)

    def make(rows: Any) -> Any:
        chosen = sent if rows is None else sent.take(rows)
        if column.json_text:
            found = cast(chosen, type_)
            return pc.if_else(pc.equal(found, pa.scalar("null")), pa.scalar(None, type_), found)
        if not as_json:
            return cast(chosen, type_)
        texts = chosen.to_pylist()
        values = [None if text is None else msgspec.json.decode(text, type=of_json.field_type) for text in texts]
        return cast(pa.chunked_array([of_json.gather(values)]), type_)

    return make


def _means(sent: pa.DataType, type_: str) -> bool:
    if type_.startswith("array<"):
        return pa.types.is_list(sent) and _means(sent.value_type, type_[len("array<") : -1])
    if type_.startswith("decimal("):
        return pa.types.is_decimal(sent) or pa.types.is_integer(sent)
    return _TAKEN[type_](sent)


def _unfit(make: Make, rows: int) -> list[int]:
    """The rows whose values do not fit, found by halves."""
    found: list[int] = []
    spans = [(0, rows)]
    while spans:
        start, end = spans.pop()
        try:
            make(pa.array(range(start, end), pa.int64()))
        except MISFITS:
            middle = (start + end) // 2
            if end - start == 1:
                found.append(start)
            else:
                spans += [(start, middle), (middle, end)]
    return found


def _nulls(rows: int, type_: Any) -> Any:
    return pa.nulls(rows, type_)


def _count(rows: int) -> Any:
    """0, 1, 2, …"""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)


def _indices(rows: int, without: Sequence[int]) -> pa.Array[Any]:
    """The indices of rows without some of them, which are in ascending order."""
    kept = array("q")
    start = 0
    for row in without:
        kept.extend(range(start, row))
        start = row + 1
    kept.extend(range(start, rows))
    return pa.array(kept, pa.int64())


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
