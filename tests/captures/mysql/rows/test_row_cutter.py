"""Rows of the text protocol become columns of their texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tidemark.captures.mysql.rows.row_cutter import Cell, compile_cutter

LENGTHS = st.sampled_from([0, 1, 20, 250, 251, 252, 255, 256, 65_535, 65_536, 70_000])


def payload(texts: list[bytes | None]) -> bytes:
    """The row packet of texts (MySQL internals, "length-encoded string")."""
    return b"".join(b"\xfb" if text is None else length(len(text)) + text for text in texts)


def length(size: int) -> bytes:
    if size < 251:
        return bytes([size])
    return b"\xfc" + size.to_bytes(2, "little") if size < 65_536 else b"\xfd" + size.to_bytes(3, "little")


@settings(max_examples=examples(100))
@given(data=st.data(), cells=st.lists(st.builds(Cell, st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_each_column_gets_its_texts(data: st.DataObject, cells: list[Cell]) -> None:
    def text(cell: Cell) -> st.SearchStrategy[bytes | None]:
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
