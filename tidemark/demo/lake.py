"""Reads the demo's Delta tables as any other program would: with deltalake, no Spark and nothing of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from tidemark.demo.comparison import Row, canonical, canonical_json


def lake_rows(path: Path, columns: Sequence[str], key: Sequence[str], as_json: frozenset[str]) -> Iterator[Row]:
    """The rows of a Delta table in key order, streamed.

    Args:
        columns: Those to read, in this order.
        as_json: Which of them hold JSON text.
    """
    query = f"SELECT {_names(columns)} FROM lake ORDER BY {_names(key)}"
    places = [list(columns).index(name) for name in key]
    converters = [canonical_json if name in as_json else canonical for name in columns]
    for batch in QueryBuilder().register("lake", DeltaTable(path)).execute(query):
        values = [column.to_pylist() for column in pa.record_batch(batch).columns]
        texts = [list(map(convert, column)) for convert, column in zip(converters, values, strict=True)]
        yield from zip(zip(*(values[place] for place in places), strict=True), zip(*texts, strict=True), strict=True)


def _names(columns: Sequence[str]) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in columns)
