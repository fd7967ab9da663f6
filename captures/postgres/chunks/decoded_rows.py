"""Where the lines of a chunk's COPY become rows."""

from __future__ import annotations

from tidemark.captures.contract.chunk_rows import ChunkRows
from tidemark.captures.postgres.chunks.row_decoder import ChunkDecoder, DecodedLines


class DecodedRows(ChunkRows):
    """Rows that come a batch of lines at a time. Arguments as there."""

    def __init__(self, decoder: ChunkDecoder, first: int = 0) -> None:
        super().__init__(first)
        self._decoder = decoder

    def take(self, lines: list[bytes]) -> int:
        """Decodes lines; returns how many bytes came of them. Raises as the decoder."""
        return self._take(self._decoder.decode(lines, self.number), len(lines))

    def _take(self, decoded: DecodedLines, count: int) -> int:
        self.add_joined(decoded.keys, decoded.tails, count)
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
        decoded, self.last = self._decoder.decode_placed(lines, self.number)
        return self._take(decoded, len(lines))
