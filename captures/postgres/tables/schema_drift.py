"""Tables that chunks found altered before the log has shown it, which only changes of their rows make it do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from captures.contract.chunk import Chunk, ChunkReader, ChunkRequest
from protocol.errors import SourceError

MISMATCH = "TM-PG-030"


class AlteredTables:
    """What readers' threads tell the log's thread."""

    def __init__(self) -> None:
        self._found: set[int] = set()
        self._waiting: dict[int, int] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._found or self._waiting)

    def add(self, binding: int) -> None:
        """A chunk of this binding did not have the columns that it should."""
        with self._lock:
            self._found.add(binding)

    def due(self, position: int, now: Callable[[], int]) -> list[int]:
        """The bindings whose rows of before the change have all been read from the log.

        Args:
            position: How far the log was read.
            now: Where the server's log ends. The change was committed when it was found, so it lies before that.
        """
        with self._lock:
            found = self._found - self._waiting.keys()
        if found:
            self._waiting.update(dict.fromkeys(found, now()))
        passed = [binding for binding, end in self._waiting.items() if position >= end]
        with self._lock:
            for binding in passed:
                del self._waiting[binding]
                self._found.discard(binding)
        return passed


class WatchedReader:
    """A chunk reader that tells when a table is not what it should be. See ``captures.contract.chunk.ChunkReader``."""

    def __init__(self, reader: ChunkReader, altered: AlteredTables) -> None:
        self._reader = reader
        self._altered = altered

    def read(self, request: ChunkRequest) -> Chunk:
        try:
            return self._reader.read(request)
        except SourceError as error:
            if error.code == MISMATCH:
                self._altered.add(request.binding)
            raise

    def cancel(self) -> None:
        self._reader.cancel()

    def close(self) -> None:
        self._reader.close()
