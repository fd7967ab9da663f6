"""Gathers the rows of a chunk, some at a time."""

from __future__ import annotations

from collections.abc import Sequence

from tidemark.captures.contract.chunk import KEY_MARK, TAIL_MARK, Rows
from tidemark.captures.rows.joined_rows import JoinedRows


class ChunkRows:
    """Keys and tails, in order.

    Args:
        first: The number of earlier rows of the chunk: numbers continue from there.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._keys = JoinedRows(KEY_MARK)
        self._tails = JoinedRows(TAIL_MARK)

    @property
    def number(self) -> int:
        """The number of the next row in the chunk."""
        return self._first + len(self._tails)

    @property
    def size(self) -> int:
        """Bytes in the tails."""
        return self._tails.size

    def __len__(self) -> int:
        return len(self._tails)

    def add(self, keys: Sequence[bytes], tails: Sequence[bytes]) -> None:
        """Appends rows. Raises ValueError if a key or a tail holds its mark."""
        self._keys.add(keys)
        self._tails.add(tails)

    def add_joined(self, keys: bytes, tails: bytes, count: int) -> None:
        """Appends ``count`` rows, at least one, with ``KEY_MARK`` and ``TAIL_MARK`` between them."""
        self._keys.add_joined(keys, count)
        self._tails.add_joined(tails, count)

    def rows(self) -> Rows:
        """All rows."""
        return Rows(self._keys, self._tails)
