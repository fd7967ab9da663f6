"""Cuts the output of a pipe into lines."""

from __future__ import annotations

from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import MAX_LINE_BYTES


class LineCutter:
    """Keeps the beginning of a line until its end comes. The cost does not depend on the number of pieces."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._size = 0

    @property
    def inside_line(self) -> bool:
        """Whether the last piece ended inside a line."""
        return self._size > 0

    def cut(self, piece: bytes) -> list[bytes]:
        """The lines that ``piece`` completes, without their newlines.

        Raises:
            ProtocolError: ``TM-PRO-005`` a line is longer than the limit. Raised before the whole line is in memory.
        """
        lines = piece.split(b"\n")
        rest = lines.pop()
        if lines and self._begun:
            self._begun.append(lines[0])
            lines[0] = b"".join(self._begun)
            self._begun, self._size = [], 0
        if rest:
            self._begun.append(rest)
            self._size += len(rest)
        if self._size >= MAX_LINE_BYTES or (lines and len(lines[0]) >= MAX_LINE_BYTES):
            raise ProtocolError("TM-PRO-005", f"a line is longer than the limit of {MAX_LINE_BYTES} bytes")
        return lines
