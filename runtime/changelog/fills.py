"""Constants that fill a column of older rows, as the log states them."""

from __future__ import annotations

from array import array
from collections.abc import Collection

import orjson

from tidemark.protocol.changelog.models import TableSchema
from tidemark.runtime.changelog.documents.decoder import RowDecoder
from tidemark.runtime.changelog.events import json_value, python_values

_BEFORE_ANY_EVENT = array("q", [-1])


def with_stated_fills(schema: TableSchema, text: Collection[str]) -> TableSchema:
    """A schema whose fills are as the columns hold them.

    Args:
        schema: With fills as the connector sent them.
        text: Columns that are stored as text whatever their type, as the source calls them.

    Raises:
        ChangeLogError: ``TM-LOG-010`` a column cannot hold its fill.
    """
    filled = [column for column in schema.columns if column.fill is not None]
    if not filled:
        return schema
    decoder = RowDecoder(schema.model_copy(update={"columns": filled, "key": []}), frozenset(text))
    document = orjson.dumps({"_meta": {"op": "c"}, **{column.in_source: column.fill for column in filled}})
    (row,) = decoder.cast([decoder.gather([document], _BEFORE_ANY_EVENT)]).to_batches()
    fills = {name: json_value(python_values(row.column(name))[0], raw=False) for name in row.schema.names}
    return schema.model_copy(
        update={"columns": [column.model_copy(update={"fill": fills.get(column.name)}) for column in schema.columns]}
    )


def without_fills(schema: TableSchema) -> TableSchema:
    """A schema that says nothing of older rows."""
    return schema.model_copy(
        update={"columns": [column.model_copy(update={"fill": None}) for column in schema.columns]}
    )
