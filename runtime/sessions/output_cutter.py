"""Cuts the output of a connector into lines, and batches of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidemark.protocol.batches import HEAD, CapturedBatch, read_batch_line
from tidemark.protocol.envelope import MAX_LINE_BYTES
from tidemark.protocol.errors import ProtocolError


class ColumnBatch(NamedTuple):
    """A batch: its line, and the bytes that followed it."""

    line: CapturedBatch
    body: bytes


class OutputCutter:
    """Keeps the beginning of a line or a batch until its end comes. The cost does not depend on the number of pieces.

    Args:
        batches: Batches of columns may come. Otherwise their lines are lines like all others.
    """

    def __init__(self, *, batches: bool = False) -> None:
        self._batches = batches
        self._begun: list[bytes] = []
        self._head = b""  # The beginning of what was begun.
        self._size = 0
        self._announced: CapturedBatch | None = None

    @property
    def inside(self) -> bool:
        """Whether the last piece ended inside of a line or a batch."""
        return self._size > 0 or self._announced is not None

    def cut(self, piece: bytes) -> Iterator[list[bytes] | ColumnBatch]:
        """What ``piece`` completes, in order: lines without their newlines, and batches.

        Raises:
            ProtocolError: ``TM-PRO-005`` a line is longer than the limit. Raised before the whole line is in memory.
                Others as ``read_batch_line``.
        """
        while piece or (self._announced is not None and not self._announced.bytes):
            if self._announced is not None:
                missing = self._announced.bytes - self._size
                self._keep(piece[:missing])
                piece = piece[missing:]
                if self._size == self._announced.bytes:
                    batch = ColumnBatch(self._announced, self._taken())
                    self._announced = None
                    yield batch
                continue
            of_lines, piece = self._before_batch(piece)
            lines = self._lines(of_lines)
            if self._batches and lines and lines[-1].startswith(HEAD):
                self._announced = read_batch_line(lines.pop())
            if lines:
                yield lines

    def _before_batch(self, piece: bytes) -> tuple[bytes, bytes]:
        """A piece up to the end of the first line that announces a batch, and what follows; all of it without one."""
        if not self._batches:
            return piece, b""
        begins = (self._head + piece[: len(HEAD)]).startswith(HEAD)
        start = 0 if begins else piece.find(b"\n" + HEAD) + 1
        if not (begins or start):
            return piece, b""
        end = piece.find(b"\n", start) + 1
        return (piece[:end], piece[end:]) if end else (piece, b"")

    def _lines(self, piece: bytes) -> list[bytes]:
        lines = piece.split(b"\n")
        rest = lines.pop()
        if lines and self._size:
            self._keep(lines[0])
            lines[0] = self._taken()
        if rest:
            self._keep(rest)
        if self._size >= MAX_LINE_BYTES or (lines and len(lines[0]) >= MAX_LINE_BYTES):
            raise ProtocolError("TM-PRO-005", f"a line is longer than the limit of {MAX_LINE_BYTES} bytes")
        return lines

    def _keep(self, begun: bytes) -> None:
        self._begun.append(begun)
        self._size += len(begun)
        self._head += begun[: len(HEAD) - len(self._head)]

    def _taken(self) -> bytes:
        taken = b"".join(self._begun)
        self._begun, self._size, self._head = [], 0, b""
        return taken
