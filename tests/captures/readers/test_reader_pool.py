"""The pool of chunk readers: made ahead, made again after a failure, and told apart from what a table fails with."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from tidemark.backfill.fence import TransactionId
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.contract.chunk import Chunk, ChunkReader, ChunkRequest
from tidemark.captures.contract.chunk_rows import Rows
from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.readers.reader_pool import ChunkFailure, ChunkPutOff, ChunkResult, ReaderPool
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until

NOTHING = Rows()

TOGETHER = range(10, 20)
"""Bindings whose tables can be read together with others."""


class Fence:
    """Of a source where nothing happens."""

    high = 0

    def hides(self, txn: TransactionId) -> bool:
        return False


class Reader:
    """Reads empty chunks, and fails with those of binding 1."""

    def __init__(self) -> None:
        self.closed = False
        self.together: list[int] = []

    def read(self, request: ChunkRequest) -> Chunk:
        if request.binding == 1:
            raise SourceError("TM-PG-019", "this table")
        return Chunk(request, Fence(), NOTHING, True, NOTHING, 0.0)

    def read_together(self, requests: Sequence[ChunkRequest]) -> list[Chunk | None]:
        self.together.append(len(requests))
        return [self.read(each) if each.binding in TOGETHER else None for each in requests]

    def cancel(self) -> None: ...

    def close(self) -> None:
        self.closed = True


class Readers:
    """Makes readers, after as many failures as are asked for."""

    def __init__(self, failures: int = 0) -> None:
        self.made: list[Reader] = []
        self.failures = failures

    def open(self) -> ChunkReader:
        if self.failures:
            self.failures -= 1
            raise SourceError("TM-PG-001", "no connection")
        self.made.append(Reader())
        return self.made[-1]


@contextmanager
def pool_of(readers: Readers, size: int = 2, **limits: float) -> Iterator[ReaderPool]:
    wakeup = Wakeup()
    try:
        with closing(ReaderPool(readers.open, size, wakeup, **limits)) as pool:
            yield pool
    finally:
        wakeup.close()


def request(binding: int = 0) -> ChunkRequest:
    return ChunkRequest(binding, ChunkPlan(None, (), scan=True), 10)


def result(pool: ReaderPool) -> ChunkResult:
    (taken,) = wait_until(pool.take, 60, "a chunk comes back")
    return taken


def test_a_reader_that_was_made_ahead_reads_the_first_chunk() -> None:
    readers = Readers()
    with pool_of(readers) as pool:
        pool.ahead()
        wait_until(lambda: readers.made, 60, "a reader is made")
        pool.ahead()
        pool.submit(request())
        assert isinstance(result(pool), Chunk)
        assert len(readers.made) == 1 and pool.free == 2
    assert readers.made[0].closed


def test_what_fails_ahead_is_tried_again_and_told_with_the_first_chunk() -> None:
    readers = Readers(failures=2)
    with pool_of(readers) as pool:
        pool.ahead()
        wait_until(lambda: readers.failures == 1, 60, "making a reader failed")
        pool.submit(request())
        failure = result(pool)
        assert isinstance(failure, ChunkFailure) and failure.opening and failure.request.binding == 0
        pool.submit(request())
        assert isinstance(result(pool), Chunk)


def test_an_idle_reader_is_closed_and_another_made_when_there_is_a_chunk() -> None:
    readers = Readers()
    with pool_of(readers, size=1, idle_seconds=0.05) as pool:
        pool.submit(request())
        assert isinstance(result(pool), Chunk)
        wait_until(lambda: readers.made[0].closed, 60, "the idle reader is closed")
        pool.submit(request())
        assert isinstance(result(pool), Chunk)
    assert [reader.closed for reader in readers.made] == [True, True]


def test_closing_waits_for_all_readers_together() -> None:
    answered = threading.Event()

    class Silent(Reader):
        """Its server does not answer."""

        def read(self, request: ChunkRequest) -> Chunk:
            answered.wait()
            return super().read(request)

    wakeup = Wakeup()
    pool = ReaderPool(Silent, 4, wakeup, close_seconds=0.5)
    threads = set(threading.enumerate())
    for _ in range(4):
        pool.submit(request())
    readers = set(threading.enumerate()) - threads
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 1.5
    answered.set()
    for thread in readers:
        thread.join()
    wakeup.close()


def test_a_reader_that_failed_is_not_used_again() -> None:
    readers = Readers()
    with pool_of(readers, size=1) as pool:
        pool.submit(request(binding=1))
        failure = result(pool)
        assert isinstance(failure, ChunkFailure) and not failure.opening
        pool.submit(request())
        assert isinstance(result(pool), Chunk)
        assert [reader.closed for reader in readers.made] == [True, False]


def test_chunks_that_are_read_together_count_as_one() -> None:
    readers = Readers()
    with pool_of(readers, size=1) as pool:
        requests = [request(10), request(2), request(11)]
        pool.submit(*requests)
        assert pool.free == 0
        taken = wait_until(pool.take, 60, "the chunks come back")
        assert all(isinstance(each, Chunk) for each in taken) and pool.free == 1
        assert sorted(each.request.binding for each in taken) == [2, 10, 11], "one of them by itself"
        assert readers.made[0].together == [3]


def test_after_a_failure_the_rest_is_put_off() -> None:
    readers = Readers()
    with pool_of(readers, size=1) as pool:
        pool.submit(*map(request, (2, 1, 3, 10)))
        kinds = {each.request.binding: type(each) for each in wait_until(pool.take, 60, "the chunks come back")}
        assert kinds == {10: Chunk, 2: Chunk, 1: ChunkFailure, 3: ChunkPutOff}
        pool.submit(request(3))
        assert isinstance(result(pool), Chunk)
        assert [reader.closed for reader in readers.made] == [True, False]
