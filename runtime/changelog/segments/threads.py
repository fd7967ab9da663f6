"""The threads in which segments are written."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass

from tidemark.protocol.store import Store

WRITING = 2
"""So many segments are compressed at once: each takes some 30 MB meanwhile."""

_UPLOADS = 16
"""So many are finished at once in an object store, which takes some hundredths of a second and no processor."""


@dataclass(frozen=True, slots=True)
class SegmentThreads:
    """Threads of one log's writer.

    Attributes:
        writing: Encode and compress rows.
        finishing: Make segments durable. In a directory those are the same: a commit syncs all its files at once.
    """

    writing: Executor
    finishing: Executor

    @classmethod
    def of(cls, store: Store) -> SegmentThreads:
        """Threads for a log in a store."""
        writing = ThreadPoolExecutor(WRITING, thread_name_prefix="segments")
        if store.directory is not None:
            return cls(writing, writing)
        return cls(writing, ThreadPoolExecutor(_UPLOADS, thread_name_prefix="uploads"))

    def shutdown(self) -> None:
        """Waits for what they do, and ends them."""
        self.writing.shutdown()
        self.finishing.shutdown()
