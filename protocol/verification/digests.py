"""Digests of rows: two rows have the same digest if all their values are the same, and else another one.

They are of values in Arrow, whoever made these: a segment, a chunk of the source, or a table in Spark. All is computed
on whole columns, without a loop over rows. A value of one width is one or two numbers of 64 bits. Texts and bytes of a
row are joined: their numbers are the length of each, and the sum of the words of 64 bits of all, each mixed with its
place. A row takes the numbers of its columns one after another, and then those of its texts.

Mixing is that of MurmurHash3's end (``fmix64``), a permutation of the numbers of 64 bits. Two different rows have the
same digest with a probability of about 1 to 10¹⁹. That is not a defence against somebody who looks for such rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, reduce
from itertools import chain
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute

DIGEST: Any = pa.uint64()

_FLAGS = 62
"""Columns whose nulls are in one number."""

VERSION = 2
"""Digests of another version say nothing about these."""

_ROWS = 32_768
"""At most so many are digested at once."""

_VALUES = 8 << 20
"""About so many bytes of values are digested at once: what is computed of them takes several times as many."""

_BYTES = pa.large_binary()
_NAN = pa.scalar(float("nan"))


def _number(value: int) -> Any:
    return pa.scalar(value, DIGEST)


_FIRST, _SECOND = _number(0xFF51AFD7ED558CCD), _number(0xC4CEB9FE1A85EC53)  # Of fmix64.
_SHIFT = _number(33)
_HALF = _number(32)
_STEP = _number(0x9E3779B97F4A7C15)  # Of SplitMix64: an odd number near 2⁶⁴ divided by the golden ratio.
_WORD_BITS = pa.scalar(3, pa.int64())
_LAST_BYTES = pa.scalar(7, pa.int64())
_PADDING = pa.array([bytes(count) for count in range(8)], _BYTES)

SEEDS = (_number(1), _number(2))
"""Digests of keys under both of them together have 128 bits: no two of a thousand million keys have the same."""


def digests(columns: Sequence[Any], rows: int, seed: Any = SEEDS[0]) -> Any:
    """The digest of each row.

    Args:
        columns: Arrays or chunked arrays of the log's types: see ``Column.type``.
        rows: Their length.
        seed: One of ``SEEDS``.
    """
    (found,) = digests_of_parts(columns, rows, [(range(len(columns)), seed)])
    return found


def digests_of_parts(columns: Sequence[Any], rows: int, parts: Sequence[tuple[Sequence[int], Any]]) -> list[Any]:
    """Several digests of each row, for little more than one costs. Each is as of ``digests``.

    Args:
        columns: As of ``digests``.
        rows: Their length.
        parts: For each of the digests the places of its columns, and its seed.
    """
    found: list[list[Any]] = [[pa.array([], DIGEST)] for _ in parts]
    size = sum(column.nbytes for column in columns)
    at_once = max(min(_ROWS, rows * _VALUES // max(size, 1)), 1)
    for start in range(0, rows, at_once):
        count = min(at_once, rows - start)
        sliced = [_whole(column.slice(start, count)) for column in columns]
        of_one_width = {place: _numbers(column) for place, column in enumerate(sliced) if not _has_bytes(column.type)}
        of_texts: dict[tuple[int, ...], list[Any]] = {}
        for digested, (places, seed) in zip(found, parts, strict=True):
            nulls = _nulls([sliced[place] for place in places])
            numbers = chain.from_iterable(of_one_width.get(place, ()) for place in places)
            texts = tuple(place for place in places if place not in of_one_width)
            if texts not in of_texts:
                of_texts[texts] = _of_bytes([_as_bytes(sliced[place]) for place in texts])
            digested.append(_digested(chain(nulls, numbers, of_texts[texts]), count, seed))
    return [pa.concat_arrays(each) for each in found]


def texts(columns: Sequence[Any], rows: int) -> pa.Array[Any]:
    """The values of each row for people, separated by commas: a key as ``--from`` takes it."""
    if not columns:
        return pa.repeat(pa.scalar(""), rows)
    parts = [pc.fill_null(_text(_whole(column)), "") for column in columns]
    joined: pa.Array[Any] = pc.binary_join_element_wise(*parts, ",")
    return joined


def _whole(column: Any) -> Any:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _digested(numbers: Iterable[Any], rows: int, seed: Any) -> Any:
    found = seed
    for each in numbers:
        found = pc.multiply(pc.add(found, each), _STEP)
        # A product leaves the lowest bits alone. Arrow adds in a third of the time that an exclusive or takes, which
        # only what is summed needs: numbers with the same sum have nearly the same sum of such products.
        found = pc.add(found, pc.shift_right(found, _HALF))
    return _mixed(found) if isinstance(found, pa.Array) else pa.repeat(_mixed(found), rows)


def mixed(before: Any, numbers: Any) -> Any:
    """One number for two: of rows, or a scalar."""
    return _mixed(pc.add(pc.multiply(before, _STEP), numbers))


def _mixed(numbers: Any) -> Any:
    numbers = _scattered(numbers)
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, _SHIFT))


def _scattered(numbers: Any) -> Any:
    """Mixed but for the last step, which a sum of them does not need."""
    numbers = pc.multiply(pc.bit_wise_xor(numbers, pc.shift_right(numbers, _SHIFT)), _FIRST)
    return pc.multiply(pc.bit_wise_xor(numbers, pc.shift_right(numbers, _SHIFT)), _SECOND)


def _nulls(columns: Sequence[Any]) -> Iterator[Any]:
    """Numbers that say which values are null; one number for all rows where none is."""
    for start in range(0, len(columns), _FLAGS):
        flags: Any = _number(0)
        for place, column in enumerate(columns[start : start + _FLAGS]):
            if column.null_count:
                flags = pc.bit_wise_or(flags, pc.shift_left(column.is_null().cast(DIGEST), _number(place)))
        yield flags


def _numbers(column: Any) -> list[Any]:
    """One or two numbers for each value that say the same as it; 0 for a null."""
    found = _of_column(column)
    return [pc.fill_null(each, _number(0)) if each.null_count else each for each in found]


def _has_bytes(type_: Any) -> bool:
    """Whether values have different lengths."""
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
    )


def _as_bytes(column: Any) -> Any:
    """The bytes of texts, of bytes, and of lists; none for a null."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return pa.array([b"" if items is None else orjson.dumps(items) for items in _items(column)], _BYTES)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_string())
    column = column.cast(_BYTES)
    return pc.fill_null(column, pa.scalar(b"", _BYTES)) if column.null_count else column


def _of_column(column: Any) -> list[Any]:
    type_ = column.type
    if pa.types.is_boolean(type_):
        return [column.cast(DIGEST)]
    if pa.types.is_floating(type_):
        # There are many bit patterns that are no number.
        column = pc.if_else(pc.is_nan(column), _NAN.cast(type_), column)
    return _of_width(column)


def _of_width(column: Any) -> list[Any]:
    """Values that have one width."""
    width = column.type.bit_width
    if width <= 64:
        return [column.view({8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: DIGEST}[width]).cast(DIGEST)]
    words = width // 64
    data = pa.Array.from_buffers(DIGEST, (column.offset + len(column)) * words, [None, column.buffers()[1]])
    rows = pa.FixedSizeListArray.from_arrays(data, words).slice(column.offset)
    found = [pc.list_element(rows, word) for word in range(words)]
    return found if not column.null_count else [pc.if_else(column.is_valid(), each, _number(0)) for each in found]


def _of_bytes(columns: Sequence[Any]) -> list[Any]:
    """Of each value its length; and of each row the sum of the words of all values. None without columns."""
    if not columns:
        return []
    lengths = [pc.binary_length(column) for column in columns]
    padding = _PADDING.take(pc.bit_wise_and(pc.negate(reduce(pc.add, lengths)), _LAST_BYTES))
    padded = pc.binary_join_element_wise(*columns, padding, pa.scalar(b"", _BYTES))
    found = [each.cast(DIGEST) for each in lengths]
    _, ends, data = padded.buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(padded) + 1, [None, ends], offset=padded.offset)
    ends = pc.shift_right(ends, _WORD_BITS)
    first, count = ends[0].as_py(), ends[-1].as_py() - ends[0].as_py()
    if not count:
        return [*found, pa.repeat(_number(0), len(padded))]
    words = pa.Array.from_buffers(DIGEST, count, [None, data], offset=first)
    ends = pc.subtract(ends, pa.scalar(first, pa.int64()))
    rows = pc.list_parent_indices(pa.LargeListArray.from_arrays(ends, words))
    # A word's place in its row, multiplied by the step: that is done for all words once, and for each row.
    places = pc.subtract(_steps(count), pc.multiply(ends.view(DIGEST), _STEP).take(rows))
    sums = pc.cumulative_sum(_scattered(pc.add(words, places)))
    sums = pa.concat_arrays([pa.array([0], DIGEST), sums]).take(ends)
    return [*found, pc.subtract(sums.slice(1), sums.slice(0, len(sums) - 1))]


def _steps(count: int) -> Any:
    """The numbers from 0 on, multiplied by the step."""
    return _all_steps(count.bit_length()).slice(0, count)


@cache
def _all_steps(bits: int) -> Any:
    numbers = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), 1 << bits), start=-1)
    return pc.multiply(numbers.view(DIGEST), _STEP)


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
