"""Cuts rows of the text protocol into columns of texts (MySQL internals, "Text Resultset Row").

The cutter is generated, one per table version, as the decoder of documents is: see
``tidemark.captures.mysql.rows.chunk_decoder``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from operator import attrgetter
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


_PLAIN = 32
"""Lower bytes are no printable characters. A length that is one of them can be told from any plain text."""

_NULL = bytes([NULL])


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of the texts of a column.

    Attributes:
        short: Their lengths take one byte.
        plain: They have fewer than 32 characters, all of them printable ASCII.
    """

    short: bool
    nullable: bool
    plain: bool = False


def compile_cutter(cells: Sequence[Cell]) -> Cutter:
    """Generates the cutter of rows with these cells: best those come last whose texts are plain."""
    plain = len(list(takewhile(attrgetter("plain"), reversed(cells))))
    places = range(len(cells) - plain)
    # A list for each column, and nothing for each row: the collector of garbage would look at tuples again and again.
    lines = [
        "def cut(rows):",
        *(f"    c{place} = []; a{place} = c{place}.append" for place in places),
        "    rests = []; rest = rests.append",
        "    for row in rows:",
        "        q = 0",
        *(f"        {line}" for place in places for line in _taken(place, cells[place])),
        *([] if plain else ["        if q > len(row):", "            raise ValueError"]),
        "        rest(row[q:])",
        f"    return [{''.join(f'c{place}, ' for place in places)}*plain(rests)]",
    ]
    names = {"length": text_length, "plain": partial(_plain_columns, cells[len(places) :])}
    cut: Cutter = generated("row cutter", lines, names)["cut"]
    return cut


_SEPARATED = bytes.maketrans(bytes(range(_PLAIN)), bytes(_PLAIN))


def _plain_columns(cells: Sequence[Cell], rests: Sequence[bytes]) -> list[Texts]:
    """The columns of plain texts: the lengths before them are bytes that none of them holds."""
    width, data = len(cells), b"".join(rests)
    if any(cell.nullable for cell in cells):
        data = data.replace(_NULL, b"\0" + _NULL)
    texts = data.translate(_SEPARATED).split(b"\0")
    if len(texts) != width * len(rests) + 1 or texts[0]:
        raise ValueError
    columns = [texts[place::width] for place in range(1, width + 1)]
    return [
        [None if text == _NULL else text for text in column] if cell.nullable and _NULL in column else column
        for cell, column in zip(cells, columns, strict=True)
    ]


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
