"""What the source, the log and a table in Spark say of rows, in one form: so they are compared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.verification.chunk_files import Chunk, digested, key_names
from tidemark.protocol.verification.digests import DIGEST
from tidemark.runtime.changelog.documents.columns import arrow_type
from tidemark.runtime.verification.logged_rows import LoggedBatch

pc: Any = pyarrow.compute

KEPT = -2
"""The offset behind which rows of a kept table stand: before all others."""


def side_schema(schema: TableSchema) -> pa.Schema:
    """The columns of the rows below, of a table with this schema."""
    types = {column.name: arrow_type(column.type) for column in schema.columns}
    return pa.schema(
        [
            *zip(key_names(schema), (types[name] for name in schema.key), strict=True),
            ("id", DIGEST),  # Two digests of the key.
            ("id_2", DIGEST),
            ("place", pa.int64()),  # Of an event its offset doubled and one more, of a source's row twice its offset.
            ("source", pa.bool_()),  # It is a row of the source, and no event.
            ("there", pa.bool_()),  # It is no deletion.
            ("digest", DIGEST),  # Null where columns are left out.
        ]
    )


def of_source(chunk: Chunk) -> pa.Table:
    """The rows of a chunk."""
    return _side(chunk.schema, chunk.rows, 2 * chunk.offset, source=True)


def of_events(batch: LoggedBatch, schema: TableSchema) -> pa.Table:
    """Events of the log."""
    rows, partial = digested(batch.values, schema), batch.partial()
    if pc.any(partial).as_py():
        digest = pc.if_else(partial, pa.scalar(None, DIGEST), rows.column("digest"))
        rows = rows.set_column(rows.num_columns - 1, "digest", digest)
    place = pc.add(pc.multiply(batch.meta("_offset"), 2), 1)
    return _side(schema, rows, place, source=False, there=pc.not_equal(batch.meta("_op"), "d"))


def of_kept(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Rows of a table that Spark keeps.

    Args:
        rows: With their digests, see ``digested``.
        schema: Under which these were made.
    """
    return _side(schema, rows, 2 * KEPT + 2, source=False)


def _side(schema: TableSchema, rows: pa.Table, place: Any, *, source: bool, there: Any = None) -> pa.Table:
    columns: dict[str, Any] = {name: rows.column(name) for name in rows.column_names}
    columns["place"] = pa.repeat(pa.scalar(place, pa.int64()), rows.num_rows) if isinstance(place, int) else place
    columns["source"] = pa.repeat(pa.scalar(source), rows.num_rows)
    columns["there"] = pa.repeat(pa.scalar(True), rows.num_rows) if there is None else there
    of = side_schema(schema)
    return pa.Table.from_arrays([columns[name] for name in of.names], schema=of)
