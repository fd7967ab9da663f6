"""Digests of rows: two rows have the same digest if, and only if, all their values are the same.

They are of values in Arrow, whoever made these: a segment, a chunk of the source, or a table in Spark. A row is laid
out as bytes, column by column, without a loop over values: which of its values are null, then each value in its own
width, or behind its length. The digest is BLAKE2b (RFC 7693) of these bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

DIGEST_BYTES = 16
"""Two different rows among a billion have the same digest with a probability of 1 to 10²⁰."""

DIGEST: Any = pa.binary(DIGEST_BYTES)

_FLAGS = 62
"""Columns whose nulls are in one number."""

_ROWS = 16_384
"""Laid out at once: their bytes are in memory twice."""

_BYTES = pa.large_binary()
_NAN = pa.scalar(float("nan"))


def digests(columns: Sequence[Any], rows: int) -> Any:
    """The digest of each row.

    Args:
        columns: Arrays or chunked arrays of the log's types: see ``Column.type``.
        rows: Their length.
    """
    found: list[bytes] = []
    for start in range(0, rows, _ROWS):
        found += map(_digest, _laid_out([_whole(column.slice(start, _ROWS)) for column in columns]))
    return pa.array(found, DIGEST)


def texts(columns: Sequence[Any], rows: int) -> pa.Array[Any]:
    """The values of each row for people, separated by commas: a key as ``--from`` takes it."""
    if not columns:
        return pa.repeat(pa.scalar(""), rows)
    parts = [pc.fill_null(_text(_whole(column)), "") for column in columns]
    joined: pa.Array[Any] = pc.binary_join_element_wise(*parts, ",")
    return joined


def _digest(row: bytes) -> bytes:
    return blake2b(row, digest_size=DIGEST_BYTES).digest()


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _laid_out(columns: Sequence[Any]) -> list[bytes]:
    parts = list(_flags(columns))
    for column in columns:
        parts += _parts(column)
    joined: list[bytes] = pc.binary_join_element_wise(*parts, pa.scalar(b"", _BYTES)).to_pylist()
    return joined


def _flags(columns: Sequence[Any]) -> Iterator[Any]:
    """Which values are null."""
    for start in range(0, len(columns), _FLAGS):
        flags: Any = None
        for place, column in enumerate(columns[start : start + _FLAGS]):
            flag = pc.shift_left(column.is_null().cast(pa.int64()), pa.scalar(place, pa.int64()))
            flags = flag if flags is None else pc.bit_wise_or(flags, flag)
        yield _fixed(flags)


def _parts(column: Any) -> list[Any]:
    type_ = column.type
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _sized(pa.array([None if items is None else orjson.dumps(items) for items in _items(column)], _BYTES))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _sized(column.cast(pa.large_string()).cast(_BYTES))
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return _sized(column.cast(_BYTES))
    if pa.types.is_boolean(type_):
        return [_fixed(column.cast(pa.uint8()))]
    if pa.types.is_floating(type_):
        # There are many bit patterns that are no number.
        column = pc.if_else(pc.is_nan(column), _NAN, column)
    return [_fixed(column)]


def _sized(column: Any) -> list[Any]:
    """Values of different lengths, each behind its own."""
    filled = pc.fill_null(column, pa.scalar(b"", _BYTES))
    return [_fixed(pc.binary_length(filled)), filled]


def _fixed(column: Any) -> Any:
    """The bytes of values that have one width; of null as many zeros."""
    width = column.type.bit_width // 8
    found = column.view(pa.binary(width)).cast(pa.binary()).cast(_BYTES)
    return pc.fill_null(found, pa.scalar(bytes(width), _BYTES))


def _items(column: Any) -> list[Any]:
    """Lists with their values as text."""
    offsets = column.offsets.to_pylist()
    first = offsets[0]
    items = _text(column.values.slice(first, offsets[-1] - first)).to_pylist()
    spans = zip(offsets[:-1], offsets[1:], column.is_valid().to_pylist(), strict=True)
    return [items[start - first : end - first] if valid else None for start, end, valid in spans]


def _text(column: Any) -> Any:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else value.hex() for value in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us"))  # Arrow would look for a time zone database.
    return column.cast(pa.string())
