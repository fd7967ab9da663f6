"""Stdin: one request per line, with a limit on its length."""

from __future__ import annotations

import os
import select
from typing import Any

from tidemark.protocol.envelope import MAX_LINE_BYTES, NotJson, kind_and_fields
from tidemark.protocol.errors import ProtocolError

READ_BYTES = 256 * 1024


class RequestLines:
    """Reads requests from a descriptor, without their models.

    It uses no buffered stream, because a thread that waits in one keeps the interpreter from ending.

    Args:
        descriptor: Of stdin.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False

    def next(self, stop: int | None = None) -> tuple[str, Any] | None:
        """Kind and fields of the next request; None at the end of the stream or when ``stop`` becomes readable.

        Skips empty lines.

        Raises:
            ProtocolError: As ``kind_and_fields``, and ``TM-PRO-006`` when the stream ends inside a line.
        """
        while (line := self._line(stop)) is not None:
            if line.strip():
                return _opened(line)
        return None

    def _line(self, stop: int | None) -> bytes | None:
        while True:
            end = self._buffer.find(b"\n", self._searched)
            if end >= 0:
                line = bytes(self._buffer[: end + 1])
                del self._buffer[: end + 1]
                self._searched = 0
                return line
            self._searched = len(self._buffer)
            if self._searched > MAX_LINE_BYTES:
                raise ProtocolError("TM-PRO-005", f"a request is longer than {MAX_LINE_BYTES} bytes")
            if self._ended:
                rest, self._buffer, self._searched = bytes(self._buffer), bytearray(), 0
                return rest or None
            if stop is not None and stop in select.select([self._descriptor, stop], [], [])[0]:
                return None
            piece = os.read(self._descriptor, READ_BYTES)
            self._ended = not piece
            self._buffer += piece


def _opened(line: bytes) -> tuple[str, Any]:
    try:
        return kind_and_fields(line, "request")
    except NotJson:
        if line.endswith(b"\n"):
            raise
        # A last line without a newline is valid if it is whole JSON, as from a shell. Otherwise it was cut.
        raise ProtocolError("TM-PRO-006", f"stdin ended inside a request, after {len(line)} bytes of it") from None
