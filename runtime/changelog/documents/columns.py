"""From the decoded values of one column to an Arrow array, without losing a digit.

There are two steps. ``gather`` runs under the interpreter's lock and does little: numbers become numbers, and JSON
strings stay text. ``cast`` parses that text by Arrow, without the lock and strictly: a value that does not fit is an
error, and never null or rounded.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from tidemark.protocol.changelog.models import Column

Gather: TypeAlias = "Callable[[Sequence[Any]], pa.Array[Any]]"

MISFITS = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError, RecursionError, msgspec.MsgspecError)
"""The errors of decoding, ``gather`` and ``cast`` for a value that does not fit."""

ABSENT = Raw()
"""Stands for a member that the document does not have."""

_ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")

# Years 1 to 9999, as in Spark, Python and ISO 8601. Arrow itself accepts the year 0.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
MICROSECONDS_A_DAY = 86_400_000_000

_DOUBLES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True, slots=True)
class ColumnCodec:
    """The conversion of one column's values to Arrow.

    Attributes:
        field_type: The type as which msgspec decodes a value.
        default: The value of an absent member.
        gather: From values to the argument of ``cast``. Raises one of ``MISFITS``.
    """

    field_type: Any
    default: Any
    gather: Gather


def arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of a Spark SQL type of ``Column.type``."""
    if match := _DECIMAL.fullmatch(type_):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := _ARRAY.fullmatch(type_):
        return pa.list_(arrow_type(match[1]))
    return _ARROW_TYPES[type_]


def codec(column: Column, as_text: bool = False) -> ColumnCodec:
    """The codec of a column; with ``as_text`` a codec that takes any JSON value and keeps its text."""
    if column.json_text:
        return ColumnCodec(Raw, ABSENT, json_texts)
    if as_text:
        return ColumnCodec(Raw, ABSENT, plain_texts)
    value, gather = _values(column.type)
    return ColumnCodec(value | None, None, gather)


def cast(column: pa.ChunkedArray[Any], type_: pa.DataType) -> pa.ChunkedArray[Any]:
    """Parses gathered text as ``type_``, or takes values that are of it, or of one that it can hold.

    Raises:
        One of ``MISFITS``: A value does not fit.
    """
    result: pa.ChunkedArray[Any] = column if column.type.equals(type_) else column.cast(type_)
    leaves: Any = pc.list_flatten(result) if pa.types.is_list(result.type) else result
    if pa.types.is_temporal(leaves.type):
        unit = 1 if pa.types.is_date(leaves.type) else MICROSECONDS_A_DAY
        bounds: Any = pc.min_max(leaves)
        first, last = bounds["min"].value, bounds["max"].value
        if first is not None and (first < _FIRST_DAY * unit or last >= (_LAST_DAY + 1) * unit):
            raise pa.ArrowInvalid("a date outside the years 1 to 9999")
    return result


def as_type(raw: Raw | bytes, type_: Any) -> Any:
    """A JSON value of some type; None if it is of another type."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except MISFITS:
        return None


def json_texts(raws: Sequence[Raw] | Sequence[bytes]) -> pa.StringArray:
    """JSON values as their exact text; an absent one and ``null`` as null."""
    lengths = list(map(len, raws))
    if 4 in lengths:
        raws = [ABSENT if n == 4 and bytes(raw) == b"null" else raw for n, raw in zip(lengths, raws, strict=True)]
        lengths = list(map(len, raws))
    validity = None
    if 0 in lengths:
        if not any(lengths):
            return pa.nulls(len(lengths), pa.string())
        validity = pa.array(map(bool, lengths), pa.bool_(), size=len(lengths)).buffers()[1]
    offsets = array("i", accumulate(lengths, initial=0))
    # One join and no object per value: this is several times faster than an array of bytes objects.
    texts = pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(b"".join(raws)), validity)
    texts.validate(full=True)
    return texts


def plain_texts(raws: Sequence[Raw]) -> pa.StringArray:
    """Any JSON values as text: a string without its quotes, anything else as its JSON text, ``null`` as null."""
    return pa.array(list(map(_plain_text, raws)), pa.string())


def number_texts(values: Sequence[str | int | None]) -> pa.StringArray:
    """Strings as they are, integers in decimal."""
    try:
        return pa.array(values, pa.string())
    except pa.ArrowTypeError:
        return pa.array([str(value) if isinstance(value, int) else value for value in values], pa.string())


def repeated(values: Sequence[Any], type_: Any) -> pa.Array[Any]:
    """An array of values that are usually all equal."""
    if values.count(values[0]) != len(values):
        various: pa.Array[Any] = pa.array(values, type_)
        return various
    constant: pa.Array[Any] = pa.repeat(pa.scalar(values[0], type_), len(values))
    return constant


def _values(type_: str) -> tuple[Any, Gather]:
    """The type as which msgspec decodes a value of a Spark SQL type, and the function that gathers such values."""
    if match := _ARRAY.fullmatch(type_):
        item, gather = _values(match[1])
        return list[item | None], lambda lists: _lists(lists, gather)  # type: ignore[valid-type]
    if _DECIMAL.fullmatch(type_):
        return str | int, number_texts
    python = {"boolean": bool, "bigint": int, "binary": bytes}.get(type_)
    if python is not None:
        arrow = _ARROW_TYPES[type_]
        return python, lambda values: pa.array(values, arrow)
    if type_ == "double":
        return float | int | str, _doubles
    return str, lambda values: pa.array(values, pa.string())


def _doubles(values: Sequence[float | int | str | None]) -> pa.DoubleArray:
    try:
        return pa.array(values, pa.float64())
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(list(map(_double, values)), pa.float64())


def _double(value: float | int | str | None) -> float | None:
    if value is None or isinstance(value, float):
        return value
    number = _DOUBLES.get(value) if isinstance(value, str) else float(value)
    if number is None or (isinstance(value, int) and number != value):
        raise pa.ArrowInvalid("a number that does not fit a double")
    return number


def _lists(lists: Sequence[list[Any] | None], gather: Gather) -> pa.ListArray[Any]:
    ends = accumulate((len(items) if items else 0 for items in lists), initial=0)
    # A null offset makes its list null; the last offset only ends the last list.
    offsets = [None if items is None else end for items, end in zip([*lists, []], ends, strict=True)]
    items = gather(list(chain.from_iterable(filter(None, lists))))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)


def _plain_text(raw: Raw) -> str | None:
    text = bytes(raw)
    if text in (b"", b"null"):
        return None
    return msgspec.json.decode(text, type=str) if text.startswith(b'"') else text.decode()
