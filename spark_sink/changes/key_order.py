"""The order of keys: ascending, column by column, nulls first, text by its UTF-8 bytes.

It is the order of Spark's sort and of Arrow's, and of Python's tuples once nulls are seen to. So executors compare in
Arrow, Spark compares in expressions, a planner compares in Python, and all three agree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Place: TypeAlias = "tuple[tuple[Any, ...], ...]"
"""A key, or its leading columns, in a form that compares. A prefix comes before every key that begins with it."""

NULL = (0,)
NOT_A_NUMBER = (2,)
"""What a value of a key is in a ``Place``, where it is not ``(1, value)``."""

_INDEX = "__tidemark_index"


def place(values: Sequence[Any]) -> Place:
    """Where a key stands in the order.

    Args:
        values: Of the key's columns, or of the leading ones: bool, int, float, str, bytes, Decimal, date or datetime;
            or None.
    """
    # What is not a number compares with nothing in Python. Spark and Arrow have it after all numbers.
    return tuple(NULL if value is None else (1, value) if value == value else NOT_A_NUMBER for value in values)


def reaches(high: Place, key: Place) -> bool:
    """Whether a key, or a prefix of one, is not beyond the last place of a group, which may be a prefix itself."""
    return key[: len(high)] <= high


def place_of(rows: pa.Table, key: Sequence[str], index: int) -> Place:
    """Where a row stands."""
    return place([rows.column(name)[index].as_py() for name in key])


def count_before(rows: pa.Table, key: Sequence[str], bound: Place) -> int:
    """How many rows come before a bound. The rows are in order."""
    return bisect_left(range(rows.num_rows), bound, key=lambda index: place_of(rows, key, index))


def count_up_to(rows: pa.Table, key: Sequence[str], last: Place) -> int:
    """How many rows come before a key or have it. The rows are in order."""
    return bisect_right(range(rows.num_rows), last, key=lambda index: place_of(rows, key, index))


def is_ascending(rows: pa.Table, key: Sequence[str]) -> bool:
    """Whether every row's key comes after that of the row before it."""
    if rows.num_rows < 2:
        return True
    later: Any = pa.repeat(pa.scalar(False), rows.num_rows - 1)
    equal: Any = pa.repeat(pa.scalar(True), rows.num_rows - 1)
    for name in key:
        column: Any = rows.column(name).combine_chunks()
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        null_before, null_after = pc.is_null(before), pc.is_null(after)
        greater = pc.if_else(null_before, pc.invert(null_after), pc.fill_null(pc.greater(after, before), False))
        same = pc.or_(pc.and_(null_before, null_after), pc.fill_null(pc.equal(after, before), False))
        later = pc.or_(later, pc.and_(equal, greater))
        equal = pc.and_(equal, same)
    return bool(pc.all(later).as_py())


def begins_key(rows: pa.Table, key: Sequence[str]) -> Any:
    """For each row, whether its key is another than that of the row before it."""
    begins: Any = pa.repeat(pa.scalar(False), max(rows.num_rows - 1, 0))
    for name in key:
        column: Any = rows.column(name).combine_chunks()
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        differ = pc.fill_null(pc.not_equal(after, before), pc.xor(pc.is_null(before), pc.is_null(after)))
        if pa.types.is_floating(column.type):
            differ = pc.and_not(differ, pc.fill_null(pc.and_(pc.is_nan(after), pc.is_nan(before)), False))
        begins = pc.or_(begins, differ)
    return pa.concat_arrays([pa.array([True] * min(rows.num_rows, 1), pa.bool_()), begins])


def in_order(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows sorted by key. The sort is stable."""
    keys = pa.table({str(place): rows.column(name) for place, name in enumerate(key)})
    order: list[tuple[str, Literal["ascending", "descending"]]] = []
    for place in range(len(key)):
        column = keys.column(str(place))
        if column.null_count:
            # Arrow puts nulls last.
            keys = keys.append_column(f"{place} is valid", pc.is_valid(column))
            order.append((f"{place} is valid", "ascending"))
        order.append((str(place), "ascending"))
    # In one chunk: a take from many chunks looks up the chunk of every row.
    return rows.combine_chunks().take(pc.sort_indices(keys, sort_keys=order))


def keys_of(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys of rows, where equal ones are the same to Arrow's hashes, which tell -0.0 from 0.0."""
    columns: list[Any] = [rows.column(name) for name in key]
    arrays = [pc.add(column, 0.0) if pa.types.is_floating(column.type) else column for column in columns]
    return pa.table(arrays, names=list(key))


def has_key_of(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> Any:
    """For each row, whether a row of ``others`` has the same key. A null equals a null."""
    rows, others = keys_of(rows, key), keys_of(others, key)
    likely: Any = pa.repeat(pa.scalar(True), rows.num_rows)
    for name in key:
        likely = pc.and_(likely, pc.is_in(rows.column(name), value_set=others.column(name).combine_chunks()))
    if len(key) == 1 or not pc.any(likely).as_py():
        return likely
    # Each column's value occurs somewhere; now whether they occur together.
    places = pc.indices_nonzero(likely).cast(pa.int64())
    ours = rows.take(places).append_column(_INDEX, places)
    theirs = others.append_column(_INDEX, pa.repeat(pa.scalar(-1, pa.int64()), others.num_rows))
    groups = pa.concat_tables([ours, theirs]).group_by(list(key)).aggregate([(_INDEX, "min"), (_INDEX, "list")])
    shared = groups.filter(pc.equal(groups[f"{_INDEX}_min"], pa.scalar(-1, pa.int64())))
    matched: Any = pc.list_flatten(shared[f"{_INDEX}_list"])
    everyone = pa.array(range(rows.num_rows), pa.int64())
    return pc.is_in(everyone, value_set=matched.combine_chunks())


def distinct(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The keys of rows, each once."""
    return keys_of(rows, key).group_by(list(key), use_threads=False).aggregate([])
