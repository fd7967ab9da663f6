"""What the generated decoders of a table look like, whole: ``generated_decoders.txt`` shows it.

After a change of what is generated: ``python -m tests.captures.mysql.rows.test_generated_decoders`` writes it anew.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.chunk_decoder import compile_chunk_decoder
from tidemark.captures.mysql.rows.row_images import DecodedTable, Image
from tidemark.captures.mysql.rows.row_loops import rows_cells, rows_loop, updates_cells, updates_loop
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.terms.columns import Column

SHOWN = Path(__file__).with_name("generated_decoders.txt")

TABLE = """CREATE TABLE goods (
    id INT PRIMARY KEY,
    price DECIMAL(5, 2),
    made DATETIME(3),
    note VARCHAR(50) CHARACTER SET utf8mb4
)"""

COLUMNS = (
    Column("id", "int", nullable=False),
    Column("price", "decimal", precision=5, scale=2),
    Column("made", "datetime", fraction=3),
    Column("note", "varchar", charset="utf8mb4", length=50),
)

LOGGED = (
    LoggedColumn(table_map.LONG),
    LoggedColumn(table_map.NEWDECIMAL, 5, 2),
    LoggedColumn(table_map.DATETIME2, 0, 3),
    LoggedColumn(table_map.VARCHAR, 200),
)


def source_of(function: Callable[..., Any] | None) -> str:
    assert function is not None
    return "".join(linecache.getlines(function.__code__.co_filename))


def generated() -> str:
    image = Image(DecodedTable(LOGGED, COLUMNS, (0,), COLUMNS[:1]), range(len(COLUMNS)))
    shown = {
        "Inserts and deletes with all columns": rows_loop(image, ""),
        "Updates with all columns": updates_loop(image, "", lambda *_: 0),
        "An image with all columns, any of which may be NULL": image.read,
        "The same, column by column: for rows that lack columns, and partial JSON": image.parts,
        "Inserts and deletes with all columns, for columns of Arrow": rows_cells(image),
        "Updates with all columns, for columns of Arrow": updates_cells(image, image),
        "An image with all columns, any of which may be NULL, for columns of Arrow": image.cells,
        "Rows of a chunk": compile_chunk_decoder(COLUMNS, ["id"]),
    }
    parts = [f"The decoders of\n\n{TABLE}\n"]
    parts += [f"# {title}\n\n{source_of(function)}" for title, function in shown.items()]
    return "\n".join(parts)


def test_what_is_generated() -> None:
    assert SHOWN.read_text() == generated()


if __name__ == "__main__":
    SHOWN.write_text(generated())
