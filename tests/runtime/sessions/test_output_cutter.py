"""Lines and batches of columns out of pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.batches import HEAD, Meta, Part, batch_line
from tidemark.protocol.envelope import MAX_LINE_BYTES
from tidemark.protocol.errors import ProtocolError
from tidemark.runtime.sessions.output_cutter import ColumnBatch, OutputCutter

LINES = st.binary().map(lambda line: line.replace(b"\n", b"").removeprefix(HEAD))
# What looks like the beginning of a batch inside of a line is none.
TRICKY = st.sampled_from([b"", HEAD[:7], b" " + HEAD + b"}", b'{"captured":{"doc":' + HEAD + b"1}}}"])


def batch(body: bytes) -> bytes:
    part = Part(binding=0, kind="chunk", rows=1, bytes=len(body), meta=Meta(place=("[", "]")))
    return batch_line([part], 1) + body


@given(st.lists(LINES, min_size=1), st.data())
def test_lines_are_the_same_however_they_come_in_pieces(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    cutter = OutputCutter()
    found = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)
        for taken in cutter.cut(whole[start:end])
        for line in taken
    ]
    assert found == lines[:-1]
    assert cutter.inside == bool(lines[-1])
    assert list(cutter.cut(b"\n")) == [lines[-1:]]


@given(st.lists(st.tuples(st.booleans(), LINES | TRICKY), min_size=1), st.data())
def test_batches_are_the_same_however_they_come_in_pieces(parts: list[tuple[bool, bytes]], data: st.DataObject) -> None:
    """Of each part, whether it is a batch, and its bytes or the line."""
    whole = b"".join(batch(part) if is_batch else part + b"\n" for is_batch, part in parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    cutter = OutputCutter(batches=True)
    found: list[tuple[bool, bytes]] = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        for taken in cutter.cut(whole[start:end]):
            found += [(True, taken.body)] if isinstance(taken, ColumnBatch) else [(False, line) for line in taken]
    assert found == parts
    assert not cutter.inside


def test_the_end_inside_of_a_batch_is_told() -> None:
    whole = batch(b"body\nof it")
    for end in range(1, len(whole)):
        cutter = OutputCutter(batches=True)
        assert list(cutter.cut(whole[:end])) == []
        assert cutter.inside


def test_without_batches_their_line_is_one_like_all_others() -> None:
    line, _, body = batch(b"body").partition(b"\n")
    assert list(OutputCutter().cut(line + b"\n" + body)) == [[line]]


def test_the_longest_line_allowed_and_one_byte_more() -> None:
    piece = b"x" * (1024 * 1024)
    cutter = OutputCutter(batches=True)
    for _ in range(MAX_LINE_BYTES // len(piece) - 1):
        assert list(cutter.cut(piece)) == []
    (lines,) = cutter.cut(piece[:-1] + b"\n")
    assert not isinstance(lines, ColumnBatch) and list(map(len, lines)) == [MAX_LINE_BYTES - 1]
    for _ in range(MAX_LINE_BYTES // len(piece) - 1):
        assert list(cutter.cut(piece)) == []
    with pytest.raises(ProtocolError) as caught:
        list(cutter.cut(piece))
    assert caught.value.code == "TM-PRO-005"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"capturedBatch":{"events":1,"bytes":0}}', "TM-PRO-003"),
        (b'{"capturedBatch":{"events":1,"bytes":67108865,"parts":[]}}', "TM-PRO-003"),
        (b'{"capturedBatch":{"events":0,"bytes":0,"parts":[],"more":1}}', "TM-PRO-003"),
        (b'{"capturedBatch":{"events":0,"bytes":1,"parts":[]}}', "TM-PRO-008"),
        (b'{"capturedBatch":{"events":1,"bytes":0,"parts":[]}}', "TM-PRO-008"),
        (
            b'{"capturedBatch":{"events":1,"bytes":0,"parts":[{"binding":0,"kind":"chunk","rows":1,"bytes":0}]}}',
            "TM-PRO-008",
        ),
        (
            b'{"capturedBatch":{"events":1,"bytes":0,"parts":[{"binding":0,"kind":"log","rows":2,"bytes":0,"skip":[0]}]}}',
            "TM-PRO-008",
        ),
        (
            b'{"capturedBatch":{"events":1,"bytes":0,"parts":[{"binding":0,"kind":"chunk","rows":2,"bytes":0,'
            b'"meta":{"place":["",""]},"skip":[2]}]}}',
            "TM-PRO-008",
        ),
        (
            b'{"capturedBatch":{"events":2,"bytes":0,"parts":[{"binding":1,"kind":"log","rows":1,"bytes":0},'
            b'{"binding":1,"kind":"log","rows":1,"bytes":0}]}}',
            "TM-PRO-008",
        ),
    ],
)
def test_a_line_that_announces_what_cannot_be(line: bytes, code: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        list(OutputCutter(batches=True).cut(line + b"\n"))
    assert caught.value.code == code
