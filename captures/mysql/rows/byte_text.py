"""The bytes of events as texts, one character for each byte: generated decoders cut the texts of values out of them."""

from __future__ import annotations

from typing import Protocol

LARGE_BYTES = 1 << 24
"""The text of more bytes is not made as a whole."""


class ByteText(Protocol):
    """What is asked of such a text: a part of it."""

    def __getitem__(self, part: slice, /) -> str: ...


class LargeText:
    """The text of a large event, made where a part is asked for: so it is not there beside its bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def __getitem__(self, part: slice, /) -> str:
        return str(self._data[part], "latin-1")


def byte_text(data: bytes) -> ByteText:
    """The text of these bytes."""
    return data.decode("latin-1") if len(data) < LARGE_BYTES else LargeText(data)
