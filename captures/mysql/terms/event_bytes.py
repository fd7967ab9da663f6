"""The bytes of the log's events: the lengths in them, and the same bytes as texts, one character per byte.

Generated decoders slice the texts of values from such texts.
"""

from __future__ import annotations

from typing import Protocol

LARGE_BYTES = 1 << 24
"""From this size on, the text is not made as a whole."""


class ByteText(Protocol):
    """The operation of such a text: a slice."""

    def __getitem__(self, part: slice, /) -> str: ...


class LargeText:
    """The text of a large event, made slice by slice, so that it is not in memory besides the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def __getitem__(self, part: slice, /) -> str:
        return str(self._data[part], "latin-1")


def byte_text(data: bytes) -> ByteText:
    """The text of these bytes."""
    return data.decode("latin-1") if len(data) < LARGE_BYTES else LargeText(data)


def lenenc(body: bytes | memoryview, at: int) -> tuple[int, int]:
    """A length-encoded integer, and where it ends."""
    first = body[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(body[at + 1 : at + 1 + size], "little"), at + 1 + size
