"""Stdin: one request per line, with a limit on its length, and a thread for requests while a capture runs."""

from __future__ import annotations

import os
import select
import threading
from collections import deque

from tidemark.captures.contract.wakeup import Wakeup
from tidemark.protocol.codec import NotJson, decode_request
from tidemark.protocol.errors import ProtocolError, TidemarkError
from tidemark.protocol.messages import MAX_LINE_BYTES, Acknowledge, Control, Request

READ_BYTES = 256 * 1024


class Requests:
    """Reads requests from a descriptor.

    It uses no buffered stream, because a thread that waits in one keeps the interpreter from ending.

    Args:
        descriptor: Of stdin.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._searched = 0
        self._ended = False

    def next(self, stop: int | None = None) -> Request | None:
        """The next request; None at the end of the stream or when ``stop`` becomes readable. Skips empty lines.

        Raises:
            ProtocolError: As ``decode_request``, and ``TM-PRO-006`` when the stream ends inside a line.
        """
        while (line := self._line(stop)) is not None:
            if line.strip():
                return self._decode(line)
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

    def _decode(self, line: bytes) -> Request:
        try:
            return decode_request(line)
        except NotJson:
            if line.endswith(b"\n"):
                raise
            # A last line without a newline is valid if it is whole JSON, as from a shell. Otherwise it was cut.
            raise ProtocolError("TM-PRO-006", f"stdin ended inside a request, after {len(line)} bytes of it") from None


class SessionRequests:
    """Reads the requests after ``open`` in a thread, so that the engine never waits for stdin.

    Args:
        wakeup: Set when a request has come, and at the end of stdin.

    Attributes:
        closed: Whether the stream has ended.
    """

    def __init__(self, requests: Requests, wakeup: Wakeup) -> None:
        self._requests = requests
        self._wakeup = wakeup
        self._counts: deque[int] = deque()
        self._commands: deque[Control] = deque()
        self._failure: TidemarkError | None = None
        self._stop = Wakeup()
        self.closed = False
        self._thread = threading.Thread(target=self._run, name="requests", daemon=True)
        self._thread.start()

    def acknowledged(self) -> int:
        """The number of checkpoints that became durable since the last call.

        Raises:
            ProtocolError: The runtime sent a request that must not follow ``open``.
        """
        total = 0
        while self._counts:
            total += self._counts.popleft()
        if self._failure is not None:
            raise self._failure
        return total

    def commands(self) -> list[Control]:
        """The commands that have come since the last call, in order."""
        taken: list[Control] = []
        while self._commands:
            taken.append(self._commands.popleft())
        return taken

    def close(self) -> None:
        """Ends the thread. Unread input stays in stdin."""
        self._stop.set()
        self._thread.join()
        self._stop.close()

    def _run(self) -> None:
        try:
            while (request := self._requests.next(self._stop.descriptor)) is not None:
                if isinstance(request, Acknowledge):
                    self._counts.append(request.checkpoints)
                elif isinstance(request, Control):
                    self._commands.append(request)
                else:
                    raise ProtocolError(
                        "TM-PRO-004", f"only acknowledge and control may follow open, not {request.kind}"
                    )
                self._wakeup.set()
        except TidemarkError as error:
            self._failure = error
        finally:
            self.closed = True
            self._wakeup.set()
