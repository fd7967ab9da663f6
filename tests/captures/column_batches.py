"""What a change log has of rows that came as columns, and of the same rows that came as documents."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tidemark.protocol.changelog.models import Column
from tidemark.protocol.changelog.table_schema import table_schema
from tidemark.runtime.changelog.documents.columns import arrow_type, cast
from tidemark.runtime.changelog.documents.decoder import decoder

Logged = dict[str, list[str]]
"""By column, its values. They are compared by what Python shows: 0.0 is not -0.0, and NaN is NaN."""


def of_columns(stream: bytes, schema: dict[str, Any]) -> Logged:
    """What the log has of the rows of an Arrow IPC stream; ``schema`` is that of the table's documents."""
    found = pa.ipc.open_stream(stream).read_all()
    columns = _columns(schema)
    assert found.num_columns == len(columns)
    return {
        column.name: _shown(cast(found.column(place), arrow_type(column.type))) for place, column in enumerate(columns)
    }


def of_documents(documents: Sequence[bytes], schema: dict[str, Any]) -> Logged:
    """What the log has of documents."""
    if not documents:
        return {column.name: [] for column in _columns(schema)}
    decodes = decoder(table_schema("t", schema), frozenset())
    logged = decodes.cast([decodes.gather(documents, array("q", range(len(documents))))])
    return {column.name: _shown(logged.column(column.name)) for column in _columns(schema)}


def _columns(schema: dict[str, Any]) -> list[Column]:
    return list(table_schema("t", schema).columns)


def _shown(column: pa.ChunkedArray[Any]) -> list[str]:
    return list(map(repr, column.to_pylist()))
