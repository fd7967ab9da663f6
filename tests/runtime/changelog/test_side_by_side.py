"""Segments of several collections are written side by side, the blocks of each in their order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import pyarrow.parquet as pq

from tests.runtime.changelog.shop import ORDER_SCHEMA, ORDERS, order
from tidemark.protocol.changelog.columns.table_schema import table_schema
from tidemark.protocol.changelog.layout import HEADER
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.segments.threads import WRITING, SegmentThreads

OTHERS = "public/others"
T = TypeVar("T")


class FirstWorkLast(ThreadPoolExecutor):
    """Holds the first piece of work until the second one is done."""

    def __init__(self) -> None:
        super().__init__(WRITING)
        self._given = 0
        self._second_done = Event()

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        def held() -> T:
            assert self._second_done.wait(60), "the second piece of work waits for the first"
            return work(*args, **kwargs)

        self._given += 1
        if self._given == 1:
            return super().submit(held)
        future = super().submit(work, *args, **kwargs)
        if self._given == 2:
            future.add_done_callback(lambda _: self._second_done.set())
        return future


def test_a_segment_waits_for_none_of_another_collection(tmp_path: Path) -> None:
    (tmp_path / HEADER).touch()
    schemas = [table_schema(name, ORDER_SCHEMA) for name in (ORDERS, OTHERS)]
    with FirstWorkLast() as threads:
        batch = Batch(DirectoryStore(tmp_path), 1, 1, 0, SegmentThreads(threads, threads))
        # Bound anew for each call, which ends the block before.
        batch.add(BoundCollection(schemas[0]), [order(1)])
        batch.add(BoundCollection(schemas[1]), [order(2)])
        for schema in schemas:
            batch.add(BoundCollection(schema), [])
        batch.add(BoundCollection(schemas[0]), [order(3)])
        written = {segment.collection: tmp_path / segment.path for segment in batch.finish()}
    assert pq.read_table(written[ORDERS]).column("id").to_pylist() == [1, 3]
    assert pq.read_table(written[OTHERS]).column("id").to_pylist() == [2]
