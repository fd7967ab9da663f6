"""Byte strings packed into pieces are the same sequence."""

from __future__ import annotations

import json
import pickle
from array import array
from struct import calcsize
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.chunk_tails import head_of
from tidemark.captures.contract.chunk_rows import (
    TAIL_MARK,
    ChunkHead,
    ColumnRows,
    JoinedRows,
    NumberKeys,
    Rows,
    joined_rows,
)

STRINGS = st.lists(st.binary(max_size=5).map(lambda text: text.replace(b"\x00", b"x")), max_size=12)


def made(batches: list[list[bytes]]) -> JoinedRows:
    strings = JoinedRows(b"\x00")
    for batch in batches:
        strings.add(batch)
    return strings


@given(st.lists(STRINGS, max_size=5))
def test_it_is_the_sequence_that_was_packed(batches: list[list[bytes]]) -> None:
    strings = made(batches)
    flat = [string for batch in batches for string in batch]
    assert list(strings) == flat and len(strings) == len(flat)
    assert [strings[i] for i in range(-len(flat), len(flat))] == flat + flat
    assert strings[1:4] == flat[1:4] and strings[::-2] == flat[::-2]
    assert strings.size == sum(len(b"-".join(batch)) for batch in batches)
    assert list(pickle.loads(pickle.dumps(strings))) == flat
    with pytest.raises(IndexError):
        strings[len(flat)]


@given(st.sampled_from("hiq"), st.data())
def test_keys_of_numbers_are_their_digits(code: Literal["h", "i", "q"], data: st.DataObject) -> None:
    most = 2 ** (8 * calcsize(code) - 1)
    batches = data.draw(st.lists(st.lists(st.integers(-most, most - 1), max_size=4), max_size=4))
    keys = NumberKeys(code)
    for batch in batches:
        keys.add(memoryview(array(code, batch)))
    flat = [str(number).encode() for batch in batches for number in batch]
    assert list(keys) == flat and len(keys) == len(flat)
    assert [keys[i] for i in range(-len(flat), len(flat))] == flat + flat
    assert keys[1:4] == flat[1:4]
    assert list(pickle.loads(pickle.dumps(keys))) == flat
    with pytest.raises(IndexError):
        keys[len(flat)]


@given(st.lists(STRINGS, max_size=5), st.binary(max_size=3))
def test_heads_stand_before_every_string(batches: list[list[bytes]], head: bytes) -> None:
    flat = [string for batch in batches for string in batch]
    assert b"".join(made(batches).spliced(head)) == b"".join(head + string for string in flat)


def test_a_mark_in_a_string_is_refused() -> None:
    with pytest.raises(ValueError, match="mark"):
        made([[b"a", b"b\x00c"]])


def test_pieces_are_of_about_one_size() -> None:
    pieces = list(joined_rows(b"\x00", [b"x" * 4] * 7, piece_bytes=10).spliced(b"-"))
    assert pieces == [b"-", b"xxxx-xxxx-xxxx", b"-", b"xxxx-xxxx-xxxx", b"-", b"xxxx"]


def test_a_large_string_is_not_copied() -> None:
    large = b"x" * 10_000
    assert next(piece for piece in made([[large]]).spliced(b"head") if piece != b"head") is large


@given(STRINGS, st.data())
def test_only_wanted_rows_are_written(tails: list[bytes], data: st.DataObject) -> None:
    rows = Rows([b"key"] * len(tails), joined_rows(TAIL_MARK, tails))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(tails)), max_size=6)))
    keep = [slice(low, high) for low, high in zip(cuts[::2], cuts[1::2], strict=False)]
    kept = [tail for part in keep for tail in tails[part]]
    assert b"".join(rows.messages(head_of(b"head"), keep)) == b"".join(b"head" + tail for tail in kept)
    assert b"".join(rows.messages(head_of(b"head"))) == b"".join(b"head" + tail for tail in tails)


@given(st.integers(0, 9), st.data())
def test_a_batch_says_which_rows_it_leaves_out(count: int, data: st.DataObject) -> None:
    rows, head = ColumnRows([b"key"] * count, [b"a ", b"stream"]), ChunkHead(3, b"", ('"a:1:', '"'))
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=6)))
    keep = [slice(low, high) for low, high in zip(cuts[::2], cuts[1::2], strict=False)]
    wanted = {number for part in keep for number in range(count)[part]}
    message = b"".join(rows.messages(head, keep))
    if not wanted:
        assert message == b""
        return
    line, stream = message.split(b"\n", 1)
    assert stream == b"a stream"
    batch = json.loads(line)["capturedBatch"]
    assert (batch["events"], batch["bytes"]) == (len(wanted), len(stream))
    (part,) = batch["parts"]
    assert sorted(wanted | set(part.pop("skip", []))) == list(range(count))
    meta = {"place": ['"a:1:', '"']}
    assert part == {"binding": 3, "kind": "chunk", "rows": count, "bytes": len(stream), "meta": meta}


def test_all_rows_of_a_batch() -> None:
    (line, stream) = ColumnRows([b"key"] * 3, [b"a stream"]).messages(ChunkHead(0, b"", ("[", "]")))
    assert b'"events":3' in line and b"skip" not in line and stream == b"a stream"
