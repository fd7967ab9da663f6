"""Where the lines of a chunk's COPY become rows."""

from __future__ import annotations

from captures.interface import KEY_MARK, TAIL_MARK, Rows
from captures.packed import Packed
from captures.postgres.chunk_rows import ChunkDecoder

LINE_BITS = 16
"""A row's line in its page takes fewer bits (itemid.h: a page has at most 32 kB)."""


class DecodedRows:
    """Rows that come a batch of lines at a time."""

    def __init__(self, decode: ChunkDecoder) -> None:
        self._decode = decode
        self._keys = Packed(KEY_MARK)
        self._tails = Packed(TAIL_MARK)

    def take(self, lines: list[bytes]) -> int:
        """Decodes lines; returns how many bytes came of them. Raises as the decoder."""
        return self._add(*self._decode(lines))

    def rows(self) -> Rows:
        return Rows(self._keys, self._tails)

    def _add(self, tails: list[bytes], keys: list[bytes]) -> int:
        before = self._tails.size
        self._tails.add(tails)
        self._keys.add(keys)
        return self._tails.size - before


class PlacedRows(DecodedRows):
    """Rows whose lines begin with their ctid.

    Args:
        part: What tells apart relations whose rows have no key, None where rows have one. A row without a key is told
            from all others by where it stands: its tail begins with the second and third number of its ``loc``.

    Attributes:
        last: Page and line of the last row.
    """

    def __init__(self, decode: ChunkDecoder, part: int | None) -> None:
        super().__init__(decode)
        self._part = part
        self.last = (0, 0)

    def take(self, lines: list[bytes]) -> int:
        places, rows = zip(*(line.split(b"\t", 1) for line in lines), strict=True)
        self.last = _page_and_line(places[-1])
        tails, keys = self._decode(rows)
        if self._part is not None:
            located = (
                b"%d,%d]}}," % (self._part, page << LINE_BITS | line) for page, line in map(_page_and_line, places)
            )
            tails = [place + tail for place, tail in zip(located, tails, strict=True)]
        return self._add(tails, keys)


def _page_and_line(ctid: bytes) -> tuple[int, int]:
    page, line = ctid[1:-1].split(b",")
    return int(page), int(line)
