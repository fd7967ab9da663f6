"""Columns of a chunk converted together against their values converted one by one: usual texts, others, and mixed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.contract.chunk_rows import TAIL_MARK
from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder
from tidemark.captures.postgres.values.types import column_conversion

TEXTS: dict[str, tuple[int, list[str], list[str]]] = {
    "bigint": (20, ["1", "-9223372036854775808"], []),
    "numeric": (1700, ["1.50", "-0"], ["NaN", "Infinity"]),
    "double precision": (701, ["1", "-1.5e-300"], ["NaN", "Infinity", "-Infinity"]),
    "boolean": (16, ["t", "f"], []),
    "date": (1082, ["2024-02-29", "0001-01-01"], ["infinity", "-infinity", "10000-01-01", "0044-03-15 BC"]),
    "timestamp without time zone": (
        1114,
        ["2024-02-29 23:59:59", "0001-01-01 00:00:00.000001"],
        ["infinity", "-infinity", "294276-12-31 00:00:00", "0044-03-15 00:00:00 BC", "20000-01-01 00:00:00"],
    ),
    "timestamp with time zone": (
        1184,
        ["2024-02-29 23:59:59+00", "0001-01-01 00:00:00.000001+00"],
        ["infinity", "-infinity", "10000-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"],
    ),
    "text": (25, ["", "plain", "é😀"], ['"', "\\", "\t", "a\nb", "\\N", "null", "\x01\x1b", "\\u0041"]),
    "jsonb": (3802, ["{}", '{"a": "b\\n"}', "null"], ["[" * 400 + "1" * 400 + "]" * 400]),
    "json": (114, ["{}", '{"a" : 1}'], ['{\n"a"\t:\r\n1}']),
    "bytea": (17, ["\\x", "\\x00ff"], []),
    "integer[]": (1007, ["{}", "{1,NULL,3}"], ["[2:3]={1,2}"]),
}
"""By type: its oid, texts as most are, and others."""

ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def column(name: str) -> Column:
    oid = TEXTS[name][0]
    if name.endswith("[]"):
        element = ColumnType(23, -1, "integer", "base")
        return Column(name, ColumnType(oid, -1, name, "array", element=element, dimensions=1))
    # As text where a value would be bad otherwise, but for json, which then is another one.
    return Column(name, ColumnType(oid, -1, name, "base"), on_bad_value="stop" if "json" in name else "text")


def line(texts: list[str | None]) -> bytes:
    fields = ("\\N" if text is None else "".join(ESCAPES.get(c, c) for c in text) for text in texts)
    return ("\t".join(fields) + "\n").encode()


def one_by_one(columns: list[Column], texts: list[str | None], place: int) -> bytes:
    members = (
        f'"{column.name}":'.encode()
        + (
            b"null"
            if text is None
            else column_conversion(column).convert(text.encode().decode("latin-1")).encode("latin-1")
        )
        for column, text in zip(columns, texts, strict=True)
    )
    return b"%d]}},%b}}}\n" % (place, b",".join(members))


@given(st.data())
def test_any_mixture(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(TEXTS)), min_size=1, max_size=4, unique=True))
    columns = [column(name) for name in names]
    # Some columns of a batch have usual texts only, some have others or NULLs here and there.
    texts: list[st.SearchStrategy[str | None]] = []
    for name in names:
        _, usual, others = TEXTS[name]
        besides: list[list[str | None]] = [[], [*others], [None], [*others, None]]
        texts.append(st.sampled_from([*usual, *data.draw(st.sampled_from(besides))]))
    rows = [[data.draw(text) for text in texts] for _ in range(data.draw(st.integers(1, 8)))]
    decoded = ChunkDecoder(columns, []).decode([line(row) for row in rows])
    assert decoded.tails.split(TAIL_MARK) == [one_by_one(columns, row, place) for place, row in enumerate(rows)]


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_a_batch_of_usual_texts_and_each_other_one(name: str) -> None:
    _, usual, others = TEXTS[name]
    columns = [column(name)]
    for other in [*others, None]:
        rows: list[list[str | None]] = [[text] for text in (*usual, other, *usual)]
        decoded = ChunkDecoder(columns, []).decode([line(row) for row in rows])
        assert decoded.tails.split(TAIL_MARK) == [one_by_one(columns, row, place) for place, row in enumerate(rows)]
