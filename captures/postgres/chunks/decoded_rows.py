"""Where the lines of a chunk's COPY become rows."""

from __future__ import annotations

from captures.contract.chunk import KEY_MARK, TAIL_MARK, Rows
from captures.postgres.chunks.row_decoder import ChunkDecoder, DecodedLines
from captures.tables.joined_rows import Packed


class DecodedRows:
    """Rows that come a batch of lines at a time.

    Args:
        first: Rows that the chunk has before these: they are counted on from there.
    """

    def __init__(self, decoder: ChunkDecoder, first: int = 0) -> None:
        self._decoder = decoder
        self._first = first
        self._keys = Packed(KEY_MARK)
        self._tails = Packed(TAIL_MARK)

    def take(self, lines: list[bytes]) -> int:
        """Decodes lines; returns how many bytes came of them. Raises as the decoder."""
        return self._add(self._decoder.decode(lines, self._next), len(lines))

    @property
    def _next(self) -> int:
        return self._first + len(self._tails)

    def rows(self) -> Rows:
        return Rows(self._keys, self._tails)

    def _add(self, decoded: DecodedLines, count: int) -> int:
        self._tails.add_joined(decoded.tails, count)
        self._keys.add_joined(decoded.keys, count)
        return len(decoded.tails)


class PlacedRows(DecodedRows):
    """Rows whose lines begin with their ctid.

    Attributes:
        last: Page and line of the last row.
    """

    def __init__(self, decoder: ChunkDecoder, first: int = 0) -> None:
        super().__init__(decoder, first)
        self.last = (0, 0)

    def take(self, lines: list[bytes]) -> int:
        decoded, self.last = self._decoder.decode_placed(lines, self._next)
        return self._add(decoded, len(lines))
