"""Finds jumps of keys: the ends of a range of a backfill where another range continues, although keys still ascend.

Ranges that are read at the same time alternate, a chunk of each. A run over the end of one chunk and the beginning of
the next seems to hold all keys between them, so it is useless to a reader. Within a chunk, two successive keys are
never far apart, compared with the ends of such a run: that distinguishes a jump.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LEAST_ROWS = 1024
"""The fewest rows among which jumps are looked for: among fewer keys, a gap of ``_SHARE`` is usual."""

_SHARE = 32
"""A jump is a gap of more than 1/32 of the rows' span of keys. Random keys leave gaps of up to 1/147 among
``LEAST_ROWS`` rows (ln n / n). A gap inside of one range costs one more run."""

_LOOKED_AT = 512
"""The number of rows that are compared first."""

_DIGITS = 4
"""Bytes that are compared: four hexadecimal digits distinguish 65,536 places, enough for ``_SHARE``."""


def _text() -> bytes:
    """The value of each byte of a text: in numbers and uuids, letters follow digits, and dashes have fixed places."""
    zero, nine = b"09"
    counted = []
    for byte in range(256):
        if chr(byte).isascii() and chr(byte).isalpha():
            counted.append(nine + 1 + ord(chr(byte).lower()) - ord("a"))
        else:
            counted.append(min(max(byte, zero), nine) if byte < 128 else byte)
    return bytes(counted)


_TEXT = _text()


def key_jumps(key: list[pa.ChunkedArray[Any]]) -> list[int]:
    """Jumps in a stretch of rows whose keys ascend.

    Args:
        key: The columns of the key, without nulls, of types that segments state.

    Returns:
        The rows, counted from 0, that come after a jump.
    """
    if not key or len(key[0]) < LEAST_ROWS:
        return []
    # A jump also lies between rows that are some places apart. Mostly there is none, and this shows it at once.
    some = pa.array([*range(0, len(key[0]) - 1, len(key[0]) // _LOOKED_AT), len(key[0]) - 1])
    if not _jumps([column.take(some) for column in key]):
        return []
    return _jumps(key)


def _jumps(key: list[pa.ChunkedArray[Any]]) -> list[int]:
    # Because keys ascend, columns before the first that differs at both ends have one value.
    values = next((found for column in key if (found := _numbers(column)) is not None), None)
    if values is None:
        return []
    gaps: Any = pc.subtract(values.slice(1), values.slice(0, len(values) - 1))
    span = values[-1].as_py() - values[0].as_py()
    jumps: list[Any] = pc.indices_nonzero(pc.greater(gaps, pa.scalar(span / _SHARE))).to_pylist()
    return [place + 1 for place in jumps]


def _numbers(column: pa.ChunkedArray[Any]) -> pa.Array[Any] | None:
    """Numbers whose differences measure the distance of values; None if the first and the last one are equal."""
    values: Any = pa.concat_arrays(column.chunks)
    first, last = values[0].as_py(), values[-1].as_py()
    if first == last:
        return None
    type_ = values.type
    if pa.types.is_binary(type_):
        return _digits(values, None)
    if pa.types.is_string(type_):
        return _digits(values.cast(pa.binary()), _TEXT)
    if pa.types.is_date32(type_) or pa.types.is_boolean(type_):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        values = values.cast(pa.int64())
    numbers: pa.Array[Any] = values.cast(pa.float64(), safe=False)
    return numbers


def _digits(values: pa.Array[Any], table: bytes | None) -> pa.Array[Any]:
    """The bytes behind what all values begin with, as the digits of a number.

    Their base is what the bytes range over: else the step from 0f to 10 would be a large one.

    Args:
        values: Byte texts.
        table: What each byte counts as.
    """
    first, last = values[0].as_py(), values[-1].as_py()
    pairs = zip(first, last, strict=False)
    shared = next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(first), len(last)))
    rest: Any = pc.binary_slice(values, shared, shared + _DIGITS)
    padded = pc.binary_join_element_wise(rest, pa.repeat(pa.scalar(bytes(_DIGITS)), len(values)), b"")
    places = []
    for place in range(_DIGITS):
        column = pc.binary_slice(padded, place, place + 1).cast(pa.binary(1)).buffers()[1].to_pybytes()
        counted = pa.py_buffer(column.translate(table))
        places.append(pa.Array.from_buffers(pa.uint8(), len(values), [None, counted]).cast(pa.float64()))
    ranges: list[Any] = [pc.min_max(column).as_py() for column in places]
    least = min(found["min"] for found in ranges)
    base = max(found["max"] for found in ranges) - least + 1
    number: Any = pa.nulls(len(values), pa.float64()).fill_null(0.0)
    for column in places:
        number = pc.add(pc.multiply(number, pa.scalar(base)), pc.subtract(column, pa.scalar(least)))
    digits: pa.Array[Any] = number
    return digits
