"""Rows of the text protocol become columns of their texts."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tidemark.captures.mysql.chunks.arrow_rows import Cell, compile_cutter

LENGTHS = st.sampled_from([0, 1, 20, 250, 251, 252, 255, 256, 65_535, 65_536, 70_000])


PRINTABLE = "".join(map(chr, range(32, 127)))


def payload(texts: list[bytes | None]) -> bytes:
    """The row packet of texts (MySQL internals, "length-encoded string")."""
    return b"".join(b"\xfb" if text is None else length(len(text)) + text for text in texts)


def length(size: int) -> bytes:
    if size < 251:
        return bytes([size])
    return b"\xfc" + size.to_bytes(2, "little") if size < 65_536 else b"\xfd" + size.to_bytes(3, "little")


CELLS = st.sampled_from(
    [Cell(short, nullable, plain) for short, nullable, plain in product((False, True), repeat=3) if short or not plain]
)


@settings(max_examples=examples(100))
@given(data=st.data(), cells=st.lists(CELLS, min_size=1, max_size=6))
def test_each_column_gets_its_texts(data: st.DataObject, cells: list[Cell]) -> None:
    def text(cell: Cell) -> st.SearchStrategy[bytes | None]:
        if cell.plain:
            plain = st.text(PRINTABLE, min_size=1, max_size=31).map(str.encode)
            return st.none() | plain if cell.nullable else plain
        sizes = LENGTHS.filter(lambda size: size < 251) if cell.short else LENGTHS
        found = sizes.map(lambda size: (b"\x00\xfb\xff\xfc" * size)[:size])
        return st.none() | found if cell.nullable else found

    rows = data.draw(st.lists(st.tuples(*map(text, cells)), min_size=1, max_size=5))
    cut = compile_cutter(cells)([payload(list(row)) for row in rows])
    assert [list(texts) for texts in cut] == [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("row", [b"\x01a", b"\x01a\x01b\x01c", b"\x05a\x01b", b"\x01a\x05b", b"\x01a\xfc\x00", b""])
def test_what_is_no_row_of_the_table_is_refused(row: bytes) -> None:
    cut = compile_cutter([Cell(short=True, nullable=False), Cell(short=False, nullable=True)])
    with pytest.raises((ValueError, LookupError)):
        cut([b"\x01a\x01b", row])


@pytest.mark.parametrize("row", [b"\x01a", b"\x01a\x01b\x01c", b"a\x01b", b""])
def test_what_is_no_row_of_plain_texts_is_refused(row: bytes) -> None:
    for first_is_plain in (False, True):
        first = Cell(short=True, nullable=False, plain=first_is_plain)
        cut = compile_cutter([first, Cell(short=True, nullable=True, plain=True)])
        with pytest.raises((ValueError, LookupError)):
            cut([row])


def test_a_plain_text_that_is_too_long_is_refused() -> None:
    cut = compile_cutter([Cell(short=True, nullable=False, plain=True)] * 2)
    assert cut([b"\x01a\x1f" + b"b" * 31]) == [[b"a"], [b"b" * 31]]
    with pytest.raises(ValueError):
        cut([b"\x01a\x20" + b"b" * 32])
