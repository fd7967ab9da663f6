"""A PNG with 256 colours of its own instead of all: a picture of a page takes a third of the bytes then.

The format: https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

COLOURS = 256
_MAGIC = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}
"""By the colour type: without and with transparency."""


def smaller(png: bytes) -> bytes:
    """The same picture, each rare colour replaced by the one of 256 that is most like it."""
    header, data = b"", b""
    for kind, content in _chunks(png):
        header = content if kind == b"IHDR" else header
        data += content if kind == b"IDAT" else b""
    width, height, depth, colour = struct.unpack(">IIBB", header[:10])
    assert depth == 8 and colour in _CHANNELS, "as a browser makes them"
    rows = list(_rows(zlib.decompress(data), width, _CHANNELS[colour]))
    counts: dict[bytes, int] = {}
    for row in rows:
        for pixel in row:
            counts[pixel] = counts.get(pixel, 0) + 1
    palette = sorted(counts, key=lambda pixel: (-counts[pixel], pixel))[:COLOURS]
    places = {pixel: _nearest(pixel, palette) for pixel in counts}
    indexed = b"".join(b"\0" + bytes(places[pixel] for pixel in row) for row in rows)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(palette)),
        (b"IDAT", zlib.compress(indexed, 9)),
        (b"IEND", b""),
    )
    return _MAGIC + b"".join(_chunk(kind, content) for kind, content in parts)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_MAGIC)
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        yield png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _nearest(pixel: bytes, palette: list[bytes]) -> int:
    return min(
        range(len(palette)), key=lambda place: sum((a - b) ** 2 for a, b in zip(pixel, palette[place], strict=True))
    )


def _rows(data: bytes, width: int, channels: int) -> Iterator[list[bytes]]:
    """The pixels of each line, its filter undone: section 9 of the format."""
    length = width * channels
    before = bytearray(length)
    for start in range(0, len(data), length + 1):
        kind, line = data[start], bytearray(data[start + 1 : start + 1 + length])
        for at in range(length) if kind else ():
            left = line[at - channels] if at >= channels else 0
            corner = before[at - channels] if at >= channels else 0
            line[at] = (line[at] + _predicted(kind, left, before[at], corner)) & 255
        before = line
        yield [bytes(line[at : at + 3]) for at in range(0, length, channels)]


def _predicted(kind: int, left: int, above: int, corner: int) -> int:
    if kind < 3:
        return left if kind == 1 else above
    if kind == 3:
        return (left + above) // 2
    to_left, to_above, to_corner = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    if to_left <= to_above and to_left <= to_corner:
        return left
    return above if to_above <= to_corner else corner
