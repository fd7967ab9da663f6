"""Chunk readers in processes of their own: decoding uses one core and the log's thread another.

A process is a fork (``tidemark.captures.readers.fork_server``). It reads pickled requests from a pipe and writes an
answer to each into another pipe. The parent has the other ends. The end of the requests, whatever its cause, ends the
process.

The pipes are no ``multiprocessing.connection.Connection``: that one is as fast (90 to 130 ms for a chunk of 12 MB,
against 95 to 105), but holds each whole message on both sides, in addition to its rows.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import queue
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, Protocol

from tidemark.captures.contract.chunk import Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ColumnRows, PassOn
from tidemark.captures.readers.fork_server import ForkServer, serve
from tidemark.protocol.errors import ConnectorError, TidemarkError
from tidemark.protocol.process_memory import bound_freed_memory

PIPE_BYTES = 1024 * 1024
"""Bytes that a pipe of answers holds, if the system allows it: the parent's thread should wake rarely."""

END_SECONDS = 5.0
"""Seconds that a process has to end when it is told to."""


class TableReader(Protocol):
    """Reads chunks in a process of its own."""

    def read(self, request: ChunkRequest, table: Any, pass_on: PassOn | None = None) -> Chunk:
        """Reads a chunk. See ``ChunkReader.read``; ``table`` is what the reader must know of the table.

        With ``pass_on``, pieces of ``ColumnRows`` may be passed on before the chunk is there.
        """

    def read_together(self, requests: Sequence[ChunkRequest], tables: Sequence[Any]) -> Sequence[Chunk | None]:
        """Reads chunks together. See ``ChunkReader.read_together``; ``tables`` is parallel to ``requests``."""
        return [None] * len(requests)

    def cancel(self) -> None:
        """Cancels a read. See ``ChunkReader.cancel``."""

    def close(self) -> None: ...


class ReaderProcess:
    """A chunk reader whose work is done by another process. See ``tidemark.captures.contract.chunk.ChunkReader``.

    Args:
        open_reader: Makes the reader in the process. It is pickled; its passwords pass only through a pipe.
        table: What the reader must know of a binding's table now; pickled with every request.

    Raises:
        TidemarkError: As ``open_reader``; ``TM-CAP-005`` the process ended.

    Attributes:
        pid: The process id.
    """

    def __init__(self, open_reader: Callable[[], TableReader], table: Callable[[int], object]) -> None:
        self._table = table
        self._running = False
        self._sending = threading.Lock()
        self._own_server: ForkServer | None = None
        if _fork_server is None or _fork_server.ended:
            self._own_server = ForkServer.started([sys.executable, "-m", "tidemark.captures.readers.reader_process"])
            self._server = self._own_server
        else:
            self._server = _fork_server
        requests, self._requests = _pipe()
        self._answers, answers = _pipe()
        try:
            with requests, answers:
                self.pid = self._server.fork(requests.fileno(), answers.fileno())
            self._running = True
            self._asked(open_reader)
        except BaseException:
            self.close()
            raise

    def read(self, request: ChunkRequest) -> Chunk:
        """See ``tidemark.captures.contract.chunk.ChunkReader``; raises ``TM-CAP-005`` besides."""
        passed: list[bytes] = []
        chunk: Chunk = self._asked((request, self._table(request.binding)), passed)
        if isinstance(chunk.rows, ColumnRows):
            chunk.rows = chunk.rows.behind(passed)
        chunk.request = request  # The engine compares requests by identity.
        return chunk

    def read_together(self, requests: Sequence[ChunkRequest]) -> Sequence[Chunk | None]:
        """See ``tidemark.captures.contract.chunk.ChunkReader``; raises ``TM-CAP-005`` besides."""
        chunks: Sequence[Chunk | None] = self._asked((requests, [self._table(each.binding) for each in requests]))
        for request, chunk in zip(requests, chunks, strict=True):
            if chunk is not None:
                chunk.request = request
        return chunks

    def cancel(self) -> None:
        """See ``tidemark.captures.contract.chunk.ChunkReader``."""
        with contextlib.suppress(BrokenPipeError):  # The process has ended, so it reads nothing.
            self._send(None)

    def close(self) -> None:
        """Ends the process, even in the middle of a read."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        if self._running:
            if not self._ends():
                os.kill(self.pid, signal.SIGKILL)
            with contextlib.suppress(ConnectorError):
                self._wait()
        self._answers.close()
        if self._own_server is not None:
            self._own_server.close()
            self._own_server = None

    def _ends(self) -> bool:
        """Waits for the end of the process, and returns whether it ended. Its answers are no longer read."""
        deadline = time.monotonic() + END_SECONDS
        while select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if not os.read(self._answers.fileno(), PIPE_BYTES):
                return True
        return False

    def _send(self, message: object) -> None:
        data = pickle.dumps(message)
        with self._sending:
            self._requests.write(data)
            self._requests.flush()

    def _asked(self, message: object, passed: list[bytes] | None = None) -> Any:
        """The answer to a message. Pieces that come before it are added to ``passed``."""
        try:
            self._send(message)
            while isinstance(answer := pickle.load(self._answers), bytes):
                assert passed is not None
                passed.append(answer)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            raise self._ended() from None
        if isinstance(answer, TidemarkError):
            raise answer
        return answer

    def _ended(self) -> ConnectorError:
        status = self._wait()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return ConnectorError("TM-CAP-005", f"a reader process {how}")

    def _wait(self) -> int:
        self._running = False
        return self._server.wait(self.pid)


@contextlib.contextmanager
def forked_readers() -> Iterator[ForkServer]:
    """Inside this context, reader processes are forks of this process as it is on entry, without threads.

    Outside of it, and once the server that the context gives has ended, each one is an interpreter of its own.
    """
    global _fork_server
    _fork_server = ForkServer.forked(work)
    try:
        yield _fork_server
    finally:
        _fork_server.close()
        _fork_server = None


_fork_server: ForkServer | None = None


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    reads, writes = os.pipe()
    return os.fdopen(reads, "rb"), os.fdopen(writes, "wb")


class _Worker:
    """Runs the reader in its process.

    A thread reads the requests, so that a running read can be canceled, and does not outlive the parent.

    Args:
        end_seconds: Of a process whose parent has ended, until its running read is canceled.
    """

    def __init__(self, requests: IO[bytes], answers: IO[bytes], end_seconds: float) -> None:
        self._requests = requests
        self._answers = answers
        self._end_seconds = end_seconds
        self._queue: queue.SimpleQueue[tuple[ChunkRequest | Sequence[ChunkRequest], Any]] = queue.SimpleQueue()
        self._reader: TableReader | None = None

    def run(self) -> NoReturn:
        open_reader = self._next()
        threading.Thread(target=self._listen, daemon=True).start()
        self._answer(self._open, open_reader)
        while True:
            self._answer(self._read, *self._queue.get())

    def _open(self, open_reader: Callable[[], TableReader]) -> None:
        self._reader = open_reader()

    def _read(self, request: ChunkRequest | Sequence[ChunkRequest], table: Any) -> Chunk | Sequence[Chunk | None]:
        assert self._reader is not None
        if isinstance(request, ChunkRequest):
            return self._reader.read(request, table, self._write)
        return self._reader.read_together(request, table)

    def _answer(self, call: Callable[..., object], *arguments: object) -> None:
        try:
            answer = call(*arguments)
        except TidemarkError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - the process's outermost edge: the parent reports it
            what = f"unexpected {type(error).__name__} in a reader process at {place(error)}"
            answer = ConnectorError("TM-CAP-002", what)
        self._write(answer)

    def _write(self, answer: object) -> None:
        try:
            pickle.dump(answer, self._answers, protocol=5)  # Large pieces go to the pipe uncopied.
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
        except (EOFError, pickle.UnpicklingError):  # The parent has ended, perhaps in the middle of a request.
            try:
                self._cancel()  # The server must not work for a parent that has ended.
            finally:
                os._exit(0)

    def _cancel(self) -> None:
        if self._reader is None:
            return
        # On a silent network this takes minutes. Then SIGALRM ends the process: it must not outlive its parent, and
        # a parent that still runs sees a reader that ended.
        signal.setitimer(signal.ITIMER_REAL, self._end_seconds)
        self._reader.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def place(error: BaseException) -> str:
    """The file and line of an unexpected error, without the values that its message might hold."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def work(requests: int, answers: int, end_seconds: float = END_SECONDS) -> NoReturn:
    """The process. See ``END_SECONDS``."""
    _widen(answers)
    with os.fdopen(requests, "rb") as incoming, os.fdopen(answers, "wb") as outgoing:
        _Worker(incoming, outgoing, end_seconds).run()


def _widen(pipe: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # The system does not allow it: the pipe keeps its size.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


if __name__ == "__main__":
    bound_freed_memory()
    serve(sys.stdin.fileno(), work)
