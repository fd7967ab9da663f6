"""Lines out of pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import MAX_LINE_BYTES
from tidemark.runtime.sessions.lines import LineCutter


@given(st.lists(st.binary().map(lambda line: line.replace(b"\n", b"")), min_size=1), st.data())
def test_lines_are_the_same_however_they_come_in_pieces(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)))))
    cutter = LineCutter()
    found = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)
        for line in cutter.cut(whole[start:end])
    ]
    assert found == lines[:-1]
    assert cutter.inside_line == bool(lines[-1])
    assert cutter.cut(b"\n") == lines[-1:]


def test_the_longest_line_allowed_and_one_byte_more() -> None:
    piece = b"x" * (1024 * 1024)
    cutter = LineCutter()
    for _ in range(MAX_LINE_BYTES // len(piece) - 1):
        assert cutter.cut(piece) == []
    assert [len(line) for line in cutter.cut(piece[:-1] + b"\n")] == [MAX_LINE_BYTES - 1]
    for _ in range(MAX_LINE_BYTES // len(piece) - 1):
        assert cutter.cut(piece) == []
    with pytest.raises(ProtocolError) as caught:
        cutter.cut(piece)
    assert caught.value.code == "TM-PRO-005"
