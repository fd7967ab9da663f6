"""The rows of a chunk as an Arrow IPC stream, a piece for each record batch."""

from __future__ import annotations

import io

from nanoarrow.c_array import CArray
from nanoarrow.ipc import StreamWriter

from tidemark.captures.contract.chunk_rows import PassOn

BATCH_BYTES = 512 * 1024
"""Bytes of a record batch, approximately. With what is beside its values it is below ``LARGE_BYTES`` of
``tidemark.protocol.process_memory``, so that its memory is used again for the next one."""


class ColumnStream:
    """Writes record batches.

    Args:
        pass_on: Takes all pieces but the last one as soon as they are written. Then little is left to write when a
            chunk ends; its reader gets no other chunk before that.

    Attributes:
        size: Bytes so far.
        passed: How many pieces were passed on.
    """

    def __init__(self, pass_on: PassOn | None = None) -> None:
        self.size = 0
        self.passed = 0
        self._pass_on = pass_on
        self._pieces: list[bytes] = []
        self._piece = io.BytesIO()
        self._writer = StreamWriter.from_writable(self._piece)

    def write(self, batch: CArray) -> None:
        """Appends a record batch; all have one schema."""
        if self._pass_on is not None:
            for piece in self._pieces:
                self._pass_on(piece)
            self.passed += len(self._pieces)
            self._pieces.clear()
        self._writer.write_array(batch)
        self._end_piece()

    def end(self) -> list[bytes]:
        """Ends the stream, and returns the pieces of it that were not passed on."""
        self._writer.close()
        self._end_piece()
        return self._pieces

    def _end_piece(self) -> None:
        self.size += self._piece.tell()
        self._pieces.append(self._piece.getvalue())
        self._piece.seek(0)
        self._piece.truncate()
