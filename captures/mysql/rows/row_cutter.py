"""Cuts rows of the text protocol into columns of texts (MySQL internals, "Text Resultset Row").

The cutter is generated, one per table version, as the decoder of documents is: see
``tidemark.captures.mysql.rows.chunk_decoder``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidemark.captures.mysql.rows.chunk_decoder import NULL, text_length
from tidemark.captures.rows.source_literals import generated

Texts: TypeAlias = Sequence[bytes | None]
"""The texts of one column, None for NULL."""

Present: TypeAlias = Sequence[bytes]
"""The same without NULLs."""

Cutter: TypeAlias = Callable[[Sequence[bytes]], list[Any]]
"""Payloads of row packets, at least one, to the texts of each column: ``Texts``, or ``Present`` where it is NOT NULL.

Raises ValueError or LookupError for what is no row of the table.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of the texts of a column.

    Attributes:
        short: Their lengths take one byte.
    """

    short: bool
    nullable: bool


def compile_cutter(cells: Sequence[Cell]) -> Cutter:
    """Generates the cutter of rows with these cells."""
    places = range(len(cells))
    # A list for each column, and nothing for each row: the collector of garbage would look at tuples again and again.
    lines = [
        "def cut(rows):",
        *(f"    c{place} = []; a{place} = c{place}.append" for place in places),
        "    for row in rows:",
        "        q = 0",
        *(f"        {line}" for place, cell in enumerate(cells) for line in _taken(place, cell)),
        "        if q != len(row):",
        "            raise ValueError",
        f"    return [{', '.join(f'c{place}' for place in places)}]",
    ]
    cut: Cutter = generated("row cutter", lines, {"length": text_length})["cut"]
    return cut


def _taken(place: int, cell: Cell) -> list[str]:
    """The statements that take a text from ``q`` on."""
    if cell.short and not cell.nullable:
        return ["p = q + 1", "q = p + row[q]", f"a{place}(row[p:q])"]
    long = [] if cell.short else [f"if n >= {NULL}:", "    n, p = length(row, n, p)"]
    take = ["p = q + 1", *long, "q = p + n", f"a{place}(row[p:q])"]
    if not cell.nullable:
        return ["n = row[q]", *take]
    return [
        "n = row[q]",
        f"if n == {NULL}:",
        "    q += 1",
        f"    a{place}(None)",
        "else:",
        *(f"    {line}" for line in take),
    ]
