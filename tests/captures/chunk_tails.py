"""What chunks have of rows that are written as captured lines."""

from __future__ import annotations

from tidemark.captures.contract.chunk_rows import ChunkHead, ReadRows, Rows


def tails(rows: ReadRows) -> list[bytes]:
    """What follows the head in the line of each row."""
    assert isinstance(rows, Rows)
    return list(rows.tails)


def head_of(line: bytes) -> ChunkHead:
    """A head with this text before the number of a row."""
    return ChunkHead(0, line, ("", ""))
