"""What a generated decoder looks like: shown once, whole, in a file beside this one.

After a change that is meant: ``python -m tests.captures.postgres.rows.test_generated_source`` writes it again.
"""

from __future__ import annotations

import linecache
from pathlib import Path

from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.rows.log_decoder import RelationColumn, compile_log_decoder

GOLDEN = Path(__file__).with_name("generated_log_decoder.txt")

COLUMNS = [
    Column("id", ColumnType(20, -1, "bigint", "base"), nullable=False),
    Column("it's", ColumnType(25, -1, "text", "base")),
    Column("seen", ColumnType(1184, -1, "timestamp with time zone", "base")),
    None,  # Left out of documents.
    Column("tags", ColumnType(1007, -1, "integer[]", "array", ColumnType(23, -1, "integer", "base"), dimensions=1)),
]


def generated() -> str:
    """The decoder of a table with REPLICA IDENTITY FULL: so its updates have old rows."""
    relation = [
        RelationColumn("secret" if column is None else column.name, 25 if column is None else column.type.oid, -1, True)
        for column in COLUMNS
    ]
    decoder = compile_log_decoder(3, COLUMNS, relation, ["id"], table="public.users")
    return "".join(linecache.getlines(decoder.insert.__code__.co_filename))


def test_the_file_shows_what_is_generated() -> None:
    assert generated() == GOLDEN.read_text()


if __name__ == "__main__":
    GOLDEN.write_text(generated())
