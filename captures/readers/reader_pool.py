"""Reads chunks beside the log. The log's thread submits requests and takes the results.

Each reader has a thread here that waits for it. If decoding costs much, the reader is a process of its own
(``tidemark.captures.readers.reader_process``).
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tidemark.backfill.chunk_size import CHUNK_BYTES
from tidemark.captures.contract.chunk import Chunk, ChunkReader, ChunkRequest
from tidemark.captures.contract.wakeup import Wakeup

IDLE_SECONDS = 10.0
"""A reader that was idle for this long is closed: a table whose backfill is done rarely needs one, for rereads."""

CLOSE_SECONDS = 7.0
"""How long a closing pool waits for its threads. The runtime gives the process ten seconds to end, even while a server
does not answer."""


@dataclass(frozen=True, slots=True)
class ChunkPutOff:
    """A chunk that was not read because of others that were submitted with it: it is to be asked for again."""

    request: ChunkRequest


@dataclass(frozen=True, slots=True)
class ChunkFailure:
    """A chunk that could not be read. ``opening``: no reader could be opened for it."""

    request: ChunkRequest
    error: Exception
    opening: bool = False


ChunkResult = Chunk | ChunkFailure | ChunkPutOff


class ReaderPool:
    """Up to ``size`` chunk readers, each with a thread and a connection, made when first needed, or ``ahead``.

    A reader that failed, or was idle for ``idle_seconds``, is closed: the next chunk gets a new connection.

    Args:
        wakeup: Is set when a chunk was read, or could not be.
        close_seconds: How long ``close`` waits for all readers together.
    """

    def __init__(
        self,
        open_reader: Callable[[], ChunkReader],
        size: int,
        wakeup: Wakeup,
        *,
        idle_seconds: float = IDLE_SECONDS,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        self._open_reader = open_reader
        self._size = size
        self._wakeup = wakeup
        self._idle_seconds = idle_seconds
        self._close_seconds = close_seconds
        self._requests: queue.SimpleQueue[Sequence[ChunkRequest] | None] = queue.SimpleQueue()
        self._results: deque[list[ChunkResult]] = deque()
        self._threads: list[threading.Thread] = []
        self._reading: set[ChunkReader] = set()
        self._in_flight = 0
        self._closing = False
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """How many more chunks, or chunks together, can be read now."""
        return self._size - self._in_flight

    def submit(self, *requests: ChunkRequest) -> None:
        """Submits a chunk, or chunks that are read together. Only while readers are ``free``."""
        self._in_flight += 1
        if len(self._threads) < self._in_flight:
            self._start(ahead=False)
        self._requests.put(requests)

    def ahead(self) -> None:
        """Opens a first reader before it is needed, because that takes a while."""
        if not self._threads:
            self._start(ahead=True)

    def take(self) -> list[ChunkResult]:
        """The results since the last call."""
        taken: list[ChunkResult] = []
        while self._results:
            taken += self._results.popleft()
            self._in_flight -= 1
        return taken

    def close(self) -> None:
        """Cancels running reads, ends the readers, and waits for them."""
        self._closing = True
        for _ in self._threads:
            self._requests.put(None)
        with self._lock:
            for reader in self._reading:
                reader.cancel()
        deadline = time.monotonic() + self._close_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._threads.clear()

    def _start(self, *, ahead: bool) -> None:
        thread = threading.Thread(target=self._run, args=(ahead,), name=f"chunks-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, ahead: bool) -> None:
        requests = self._requests
        reader: ChunkReader | None = None
        if ahead:
            with contextlib.suppress(Exception):  # The first chunk tries again, and reports the error.
                reader = self._open_reader()
        while True:
            try:
                submitted = requests.get(timeout=None if reader is None else self._idle_seconds)
            except queue.Empty:
                assert reader is not None
                reader.close()
                reader = None
                continue
            if submitted is None:
                break
            results: list[ChunkResult] = []
            left = list(submitted)
            try:
                if reader is None:
                    reader = self._open_reader()
                with self._cancelable(reader):
                    self._read(reader, left, results)
            except Exception as error:  # noqa: BLE001 - the engine's thread handles it
                results.append(ChunkFailure(left.pop(0), error, opening=reader is None))
                if reader is not None:
                    reader.close()
                    reader = None
            self._results.append([*results, *map(ChunkPutOff, left)])
            self._wakeup.set()
        if reader is not None:
            reader.close()

    def _read(self, reader: ChunkReader, left: list[ChunkRequest], results: list[ChunkResult]) -> None:
        """Moves requests from ``left`` to their results. What is left at the end is too much for one time."""
        size = 0
        if len(left) > 1:
            together = reader.read_together(left)
            results += (chunk for chunk in together if chunk is not None)
            left[:] = [request for request, chunk in zip(left, together, strict=True) if chunk is None]
            size = sum(chunk.rows.size for chunk in together if chunk is not None)
        while left and size < CHUNK_BYTES and not self._closing:
            chunk = reader.read(left[0])
            results.append(chunk)
            size += chunk.rows.size
            del left[0]

    @contextlib.contextmanager
    def _cancelable(self, reader: ChunkReader) -> Iterator[None]:
        with self._lock:
            self._reading.add(reader)
        try:
            yield
        finally:
            with self._lock:
                self._reading.discard(reader)
