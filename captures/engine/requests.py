"""The requests after ``open``: a thread reads them while a capture runs."""

from __future__ import annotations

import threading
from collections import deque

from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.engine.request_lines import RequestLines
from tidemark.protocol.codec import request_of
from tidemark.protocol.errors import ProtocolError, TidemarkError
from tidemark.protocol.messages import Acknowledge, Control


class SessionRequests:
    """Reads the requests after ``open`` in a thread, so that the engine never waits for stdin.

    Args:
        wakeup: Set when a request has come, and at the end of stdin.

    Attributes:
        closed: Whether the stream has ended.
    """

    def __init__(self, lines: RequestLines, wakeup: Wakeup) -> None:
        self._lines = lines
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
            while (line := self._lines.next(self._stop.descriptor)) is not None:
                request = request_of(*line)
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
