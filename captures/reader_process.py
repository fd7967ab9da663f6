"""Chunk readers in processes of their own, so that decoding has a core for itself and the log's thread another.

A process is this module run by the interpreter. It gets pickled requests on its stdin and answers on its stdout, in
turn; the parent holds the other ends, and the end of the requests, however it comes about, ends the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from captures.interface import Chunk, ChunkRequest
from captures.memory import bound_freed_memory
from protocol.errors import ConnectorError, TidemarkError

PIPE_BYTES = 1024 * 1024
"""What a pipe of answers holds, where the system lets us say so: the parent's thread is to be woken rarely."""

END_SECONDS = 5.0
"""How long a process may take to end when it is told to."""


class TableReader(Protocol):
    """Reads chunks in a process of its own."""

    def read(self, request: ChunkRequest, table: Any) -> Chunk:
        """As ``ChunkReader.read``, told what it has to know of the table."""

    def cancel(self) -> None:
        """As ``ChunkReader.cancel``."""

    def close(self) -> None: ...


class ReaderProcess:
    """A chunk reader whose work is done by another process. See ``captures.interface.ChunkReader``.

    Args:
        open_reader: Makes the reader, there. Pickled; passwords in it pass through a pipe, and nobody else sees them.
        table: What the reader has to know of a binding's table now; pickled with every request.

    Raises:
        TidemarkError: What ``open_reader`` raises, or ``TM-CAP-005`` when the process ended.

    Attributes:
        pid: Of the process.
    """

    def __init__(self, open_reader: Callable[[], TableReader], table: Callable[[int], object]) -> None:
        self._table = table
        self._process = subprocess.Popen(
            [sys.executable, "-m", "captures.reader_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # What a terminal sends is for the connector, which then ends this process.
        )
        self.pid = self._process.pid
        assert self._process.stdin is not None and self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self._sending = threading.Lock()
        try:
            self._send(open_reader)
            self._answer()
        except BaseException:
            self.close()
            raise

    def read(self, request: ChunkRequest) -> Chunk:
        """See ``captures.interface.ChunkReader``; raises ``TM-CAP-005`` besides."""
        self._send((request, self._table(request.binding)))
        chunk: Chunk = self._answer()
        chunk.request = request  # The engine knows its requests by identity.
        return chunk

    def cancel(self) -> None:
        """See ``captures.interface.ChunkReader``."""
        with contextlib.suppress(ConnectorError):  # Who has ended reads nothing.
            self._send(None)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def _send(self, message: object) -> None:
        data = pickle.dumps(message)
        try:
            with self._sending:
                self._requests.write(data)
                self._requests.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _answer(self) -> Any:
        try:
            answer = pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError):
            raise self._ended() from None
        if isinstance(answer, TidemarkError):
            raise answer
        return answer

    def _ended(self) -> ConnectorError:
        status = self._process.wait()
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return ConnectorError("TM-CAP-005", f"a reader process {how}")


class _Worker:
    """The other side, in the process.

    Requests are read by a thread, so that a read under way can be canceled, and does not outlive the parent.
    """

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests = requests
        self._answers = answers
        self._queue: queue.SimpleQueue[tuple[ChunkRequest, object]] = queue.SimpleQueue()
        self._reader: TableReader | None = None

    def run(self) -> NoReturn:
        open_reader = self._next()
        threading.Thread(target=self._listen, daemon=True).start()
        self._answer(self._open, open_reader)
        while True:
            self._answer(self._read, *self._queue.get())

    def _open(self, open_reader: Callable[[], TableReader]) -> None:
        self._reader = open_reader()

    def _read(self, request: ChunkRequest, table: object) -> Chunk:
        assert self._reader is not None
        return self._reader.read(request, table)

    def _answer(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            answer = call(*arguments)
        except TidemarkError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - the process's outermost edge: the parent says it
            what = f"unexpected {type(error).__name__} in a reader process at {place(error)}"
            answer = ConnectorError("TM-CAP-002", what)
        try:
            pickle.dump(answer, self._answers, protocol=5)  # Large pieces go to the pipe as they are, uncopied.
            self._answers.flush()
        except BrokenPipeError:
            os._exit(0)

    def _listen(self) -> None:
        while True:
            message = self._next()
            if message is None:
                self._cancel()
            else:
                self._queue.put(message)

    def _next(self) -> Any:
        try:
            return pickle.load(self._requests)
        except (EOFError, pickle.UnpicklingError):  # The parent has ended, in the middle of a request perhaps.
            try:
                self._cancel()  # The server is not to work for someone who is gone.
            finally:
                os._exit(0)

    def _cancel(self) -> None:
        if self._reader is not None:
            self._reader.cancel()


def place(error: BaseException) -> str:
    """Where an unexpected error came from: file and line, without the values a message might hold."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def main() -> NoReturn:
    """The process."""
    bound_freed_memory()
    requests = os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What Python itself or a library reads or prints must not get among the messages.
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _widen(answers)
    _Worker(requests, answers).run()


def _widen(pipe: IO[bytes]) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # Beyond what the system allows: then it stays as it is.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


if __name__ == "__main__":
    main()
