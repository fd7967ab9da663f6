"""Keys of rows that are no columns of the log, because a value of theirs is none."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import orjson
import pyarrow as pa
from msgspec import Raw

from tidemark.protocol.changelog import TableSchema
from tidemark.runtime.changelog.documents.columns import arrow_type, as_type
from tidemark.runtime.changelog.documents.decoder import RowDecoder


def keys_of(documents: Sequence[bytes], schema: TableSchema) -> pa.Table:
    """The columns of the key of documents, which hold them as their source calls them.

    A document without a key that can be read is left out.
    """
    columns = [column for column in schema.columns if column.name in schema.key]
    columns.sort(key=lambda column: schema.key.index(column.name))
    of_key = schema.model_copy(update={"columns": columns})
    # A column that is stored as text may be a number in documents.
    text = frozenset(column.in_source for column in columns if column.type == "string" and not column.json_text)
    decoder = RowDecoder(of_key, text)
    types = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    tables = [types.empty_table()]
    for document in documents:
        members = as_type(document, dict[str, Raw]) or {}
        said = {column.in_source: members.get(column.in_source) for column in columns}
        if any(value is None for value in said.values()):
            continue
        alone = orjson.dumps(
            {"_meta": {"op": "c"}, **{name: orjson.Fragment(bytes(raw)) for name, raw in said.items() if raw}}
        )
        parts, _ = decoder.fit([alone], array("q", [0]), whole=True)
        tables += [decoder.cast([part.batch]).select(types.names) for part in parts]
    return pa.concat_tables(tables)
