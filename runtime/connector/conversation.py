"""A conversation with one running connector: requests in, log lines out, and the error when it ends.

Stdin and stderr have a thread each, so that whoever reads stdout never waits for the connector to read, and the
connector never waits for its log lines to be read. A connector that does not read its stdin therefore only delays its
own acknowledgements.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from tidemark.protocol.codec import encode
from tidemark.protocol.error_codes import REGISTERED, ErrorCode
from tidemark.protocol.errors import ConnectorError
from tidemark.protocol.log_lines import LogLine, read_log_line
from tidemark.protocol.messages import Acknowledge, Request
from tidemark.runtime.connector.interface import GRACE_SECONDS, Exit, LogSink, RunningConnector
from tidemark.runtime.connector.secrets import Redactor

MAX_LOG_LINE_BYTES = 1024 * 1024
"""A longer line on stderr is read as several."""

FAILED = "TM-RUN-002"
"""The code of a connector that gives none, or no policy."""


class Conversation:
    """Talks with a connector that has been started; as a context manager ends and releases it in every case.

    Args:
        name: What messages call the connector.
        running: The connector.
        log: Takes its log lines, secrets blanked.
    """

    def __init__(self, name: str, running: RunningConnector, redactor: Redactor, log: LogSink) -> None:
        self._name = name
        self._running = running
        self._redactor = redactor
        self._log = log
        self._last: LogLine | None = None
        self._last_error: LogLine | None = None
        self._held: LogLine | None = None
        self._requests = _Requests(running)
        self._stderr = threading.Thread(target=self._read_stderr, name="connector-stderr", daemon=True)
        self._stderr.start()

    @property
    def stdout(self) -> int:
        """The descriptor to read responses from."""
        return self._running.stdout

    def send(self, request: Request) -> None:
        """Queues a request. Never blocks."""
        self._requests.send(encode(request))

    def acknowledge(self, checkpoints: int) -> None:
        """Queues an acknowledgement. Those that the connector has not read yet are added up into one."""
        self._requests.acknowledge(checkpoints)

    def finish(self) -> None:
        """Ends its stdin once everything queued is written."""
        self._requests.finish()

    def end(self) -> Exit:
        """How it ended, after the end of its stdout. If it is still running, it is killed."""
        ended = self._running.wait(GRACE_SECONDS) or self._running.stop()
        self._stderr.join()
        return ended

    def failure(self, ended: Exit) -> ConnectorError:
        """The error of a connector that did not end cleanly: its own, with its own code and remedy, if it gave one."""
        line = self._last_error or self._last
        if line is self._held:
            self._held = None  # The resulting error says the same: once is enough.
        if ended.signal is not None:
            words = f"; its last log line: {line.message}" if line else ""
            return ConnectorError("TM-RUN-003", f"{self._name} {ended}{words}")
        if line is None:
            return ConnectorError(FAILED, f"{self._name} {ended} and logged nothing")
        entry = _entry(line)
        message = line.message
        if entry.code != line.code:
            code = f" ({line.code})" if line.code else ""
            message = f"{self._name} {ended}: {line.message}{code}"
        return ConnectorError(entry, message, remedy=line.remedy or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held = self._held
        self._requests.finish()
        try:
            self._running.stop()
        finally:
            # The process is still there only when stop was interrupted, by a second Ctrl-C for example.
            self._running.kill()
            self._running.wait(None)
            self._requests.join()
            self._stderr.join()
            self._running.release()
            # An error caused only by the request to end is not a failure.
            interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
            if self._held is not None and not (interrupted and self._held is not held):
                self._log(self._held)

    def _read_stderr(self) -> None:
        for raw in _lines(self._running.stderr):
            text = raw.decode("utf-8", "replace")
            if not text.strip():
                continue
            line = self._redactor.line(read_log_line(text))
            self._last = line
            if self._held is not None:
                self._log(self._held)
                self._held = None
            if line.level in ("error", "fatal"):
                self._last_error = self._held = line  # It may be the last one, the reason why the connector ends.
            else:
                self._log(line)


class _Requests(threading.Thread):
    """Writes to a connector's stdin whatever has been queued."""

    def __init__(self, running: RunningConnector) -> None:
        super().__init__(name="connector-stdin", daemon=True)
        self._running = running
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._acknowledged = 0
        self._finished = False
        self.start()

    def send(self, line: bytes) -> None:
        with self._changed:
            self._lines.append(line)
            self._changed.notify()

    def acknowledge(self, checkpoints: int) -> None:
        with self._changed:
            self._acknowledged += checkpoints
            self._changed.notify()

    def finish(self) -> None:
        with self._changed:
            self._finished = True
            self._changed.notify()

    def run(self) -> None:
        try:
            while data := self._next():
                self._running.write(data)
        except OSError:
            pass  # It reads no more. Why, its exit and its log say; whoever reads its stdout sees the end of that.
        finally:
            self._running.close_stdin()

    def _next(self) -> bytes:
        """What to write next; empty when there will be nothing more."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._acknowledged or self._finished)
            data = b"".join(self._lines)
            if self._acknowledged:
                data += encode(Acknowledge(checkpoints=self._acknowledged))
            self._lines, self._acknowledged = [], 0
            return data


def _entry(line: LogLine) -> ErrorCode:
    """What a connector says of its error. Its codes are its own: all that is known of one is in the line."""
    entry = REGISTERED[FAILED]
    if line.policy is None:
        return entry
    if line.code:
        entry = replace(entry, code=line.code, documentation=line.documentation)
    return replace(entry, policy=line.policy, secret=line.fields.get("secret") == "refused")


def _lines(descriptor: int) -> Iterator[bytes]:
    """Lines of a log, without their ends. A last line without an end counts too."""
    rest = b""
    while piece := os.read(descriptor, 65536):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        if len(rest) > MAX_LOG_LINE_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest
