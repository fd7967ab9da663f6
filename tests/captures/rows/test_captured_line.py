"""Heads and tails of captured lines fit each other, and those that decoders write."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.captures.mysql.rows import chunk_decoder as mysql_decoder
from tidemark.captures.mysql.terms.columns import Column as MysqlColumn
from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder
from tidemark.captures.rows.captured_line import END, chunk_head, opening, without_columns
from tidemark.protocol.codec import split_captured

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.integers(0, 2**32 - 1), NAMES, NAMES)
def test_a_document_without_columns(binding: int, schema: str, table: str) -> None:
    line = without_columns(chunk_head(binding, "t", (schema, table), b'"loc":[1,0,2,') + b"3]}")
    source = {"snapshot": True, "schema": schema, "table": table, "loc": [1, 0, 2, 3]}
    assert line.endswith(b"\n") and b"\n" not in line[:-1]
    found = split_captured(line)
    assert found is not None and found[0] == binding
    assert orjson.loads(found[1]) == {"_meta": {"op": "t", "source": source}}


@pytest.mark.parametrize("op", ["c", "u", "d"])
def test_a_document_with_columns(op: str) -> None:
    line = f'{opening(7, op)}{{"table":"t"}},"before":{{"id":1}}}},"id":2{END}'.encode()
    assert split_captured(line) == (7, line[len(b'{"captured":{"binding":7,"doc":') : -len(b"}}\n")])
    document = orjson.loads(line)["captured"]["doc"]
    assert document == {"_meta": {"op": op, "source": {"table": "t"}, "before": {"id": 1}}, "id": 2}


def test_the_tails_of_chunks() -> None:
    head = chunk_head(0, "c", ("s", "t"), b'"loc":[1,0,2,')
    integer = ColumnType(23, -1, "int4", "base")
    tail = ChunkDecoder([Column("id", integer, nullable=False)], ["id"]).decode([b"5\n"]).tails
    expected = {"snapshot": True, "schema": "s", "table": "t", "loc": [1, 0, 2, 0]}
    assert orjson.loads(head + tail)["captured"]["doc"] == {"_meta": {"op": "c", "source": expected}, "id": 5}
    head = chunk_head(0, "c", ("s", "t"), b'"cursor":"a.1:4:')
    decode = mysql_decoder.compile_chunk_decoder([MysqlColumn("id", "int", nullable=False)], ["id"])
    ((tail,), _) = decode([b"\x015"], 3)
    document = orjson.loads(head + tail)["captured"]["doc"]
    assert document["_meta"]["source"]["cursor"] == "a.1:4:0000003" and document["id"] == 5
