"""Commits in a thread of its own, one at a time, while the next batch fills."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from tidemark.protocol.changelog import Commit
from tidemark.protocol.messages import JsonObject
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.writer import LogWriter


class Committer:
    """At most one commit in flight.

    Attributes:
        descriptor: Becomes readable when a commit has ended; ``result`` makes it unreadable again.
        seconds: How long the last commit took.
    """

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
        self._future: Future[Commit] | None = None
        self.seconds = 0.0
        self.descriptor, self._write = os.pipe()

    @property
    def busy(self) -> bool:
        """Whether a commit was started whose result was not taken."""
        return self._future is not None

    def start(
        self, batch: Batch, state: JsonObject, checkpoints: int, before: Callable[[], None] = lambda: None
    ) -> None:
        """Starts a commit. Not while another is in flight.

        Args:
            before: Called first, in the same thread. What it raises is the error of the commit.
        """
        if self._future is not None:
            raise RuntimeError("a commit is already in flight")
        self._future = self._executor.submit(self._commit, batch, state, checkpoints, before)
        self._future.add_done_callback(lambda _: os.write(self._write, b"\0"))

    def _commit(self, batch: Batch, state: JsonObject, checkpoints: int, before: Callable[[], None]) -> Commit:
        before()
        begun = time.monotonic()
        commit = self._writer.commit(batch, state, checkpoints)
        self.seconds = time.monotonic() - begun
        return commit

    def result(self) -> Commit:
        """Waits for the commit in flight and returns it: it is durable. Raises as ``LogWriter.commit``."""
        if self._future is None:
            raise RuntimeError("no commit is in flight")
        os.read(self.descriptor, 1)
        future, self._future = self._future, None
        return future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A commit that has begun is finished: it is either durable or absent.
        self._executor.shutdown(wait=True)
        os.close(self.descriptor)
        os.close(self._write)
