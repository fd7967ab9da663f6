"""Pictures with few colours are the same pictures."""

from __future__ import annotations

import struct
import zlib

import pytest

from tests.house.small_png import _chunk, _chunks, smaller


def picture(kind: int, rows: list[list[tuple[int, int, int]]]) -> bytes:
    """A PNG whose lines all have the same filter."""
    lines, before = b"", [0] * (3 * len(rows[0]))
    for row in rows:
        flat = [part for pixel in row for part in pixel]
        line = []
        for at, value in enumerate(flat):
            left, above, corner = (flat[at - 3], before[at], before[at - 3]) if at >= 3 else (0, before[at], 0)
            guess = {0: 0, 1: left, 2: above, 3: (left + above) // 2, 4: _paeth(left, above, corner)}[kind]
            line.append((value - guess) & 255)
        lines += bytes([kind, *line])
        before = flat
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, content) for name, content in parts)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda value: abs(guess - value))


@pytest.mark.parametrize("kind", range(5))
def test_few_colours_stay_as_they_are(kind: int) -> None:
    rows = [[((7 * x) % 50, (x * y) % 4, 200 - y) for x in range(9)] for y in range(4)]
    chunks = dict(_chunks(smaller(picture(kind, rows))))
    palette = [tuple(chunks[b"PLTE"][at : at + 3]) for at in range(0, len(chunks[b"PLTE"]), 3)]
    lines = zlib.decompress(chunks[b"IDAT"])
    found = [[palette[place] for place in lines[1 + 10 * y : 10 + 10 * y]] for y in range(4)]
    assert found == rows


def test_rare_colours_become_others_that_are_like_them() -> None:
    rows = [[(x % 250, y, 0) for x in range(250)] for y in range(3)]
    chunks = dict(_chunks(smaller(picture(0, rows))))
    assert len(chunks[b"PLTE"]) == 3 * 256
