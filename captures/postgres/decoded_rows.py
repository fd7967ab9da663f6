"""Where the lines of a chunk's COPY become rows."""

from __future__ import annotations

from captures.interface import KEY_MARK, TAIL_MARK, Rows
from captures.packed import Packed
from captures.postgres.chunk_rows import ChunkDecoder, DecodedLines


class DecodedRows:
    """Rows that come a batch of lines at a time."""

    def __init__(self, decoder: ChunkDecoder) -> None:
        self._decoder = decoder
        self._keys = Packed(KEY_MARK)
        self._tails = Packed(TAIL_MARK)

    def take(self, lines: list[bytes]) -> int:
        """Decodes lines; returns how many bytes came of them. Raises as the decoder."""
        return self._add(self._decoder.decode(lines), len(lines))

    def rows(self) -> Rows:
        return Rows(self._keys, self._tails)

    def _add(self, decoded: DecodedLines, count: int) -> int:
        self._tails.add_joined(decoded.tails, count)
        self._keys.add_joined(decoded.keys, count)
        return len(decoded.tails)


class PlacedRows(DecodedRows):
    """Rows whose lines begin with their ctid.

    Args:
        part: As of ``ChunkDecoder.decode_placed``.

    Attributes:
        last: Page and line of the last row.
    """

    def __init__(self, decoder: ChunkDecoder, part: int | None) -> None:
        super().__init__(decoder)
        self._part = part
        self.last = (0, 0)

    def take(self, lines: list[bytes]) -> int:
        decoded, self.last = self._decoder.decode_placed(lines, self._part)
        return self._add(decoded, len(lines))
