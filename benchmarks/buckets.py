"""A place in a bucket for a benchmark: of a server that is started for it, or of one that the environment describes.

The server is that of the tests, see ``tidemark.testing.object_store``: versitygw after ``make versitygw``, else moto.
moto is written in Python, and slow: with it the clock shows moto, and not a log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import obstore

from tidemark.protocol.changelog import layout
from tidemark.protocol.store import Entry, Store
from tidemark.protocol.store.objects import ObjectStore
from tidemark.protocol.store.opening import joined, opened
from tidemark.protocol.store.settings import StoreSettings
from tidemark.testing.object_store import s3_server

_REQUESTS = 16
"""Made at once where files are copied."""

_STAGES = {layout.DATA: 0, layout.COMMITS: 1}
"""In which order the folders of a log are copied."""

T = TypeVar("T")


@dataclass(frozen=True)
class Bucket:
    """A place in a bucket, where nothing was before.

    Attributes:
        place: Its URL.
        settings: What opens it; None where the environment does.
        server: What answers, for people.
    """

    place: str
    settings: StoreSettings | None
    server: str

    def store(self, name: str = "") -> ObjectStore:
        """A store beneath the place, or the place itself."""
        return _opened(joined(self.place, name) if name else self.place, self.settings)

    def filled(self, name: str, source: Store) -> ObjectStore:
        """A store with copies of all files of a log, which are written side by side.

        Segments are there before the commits that name them, and the header comes last. The lock stays behind.
        """
        target = self.store(name)

        def copy(path: str) -> None:
            target.replace(path, source.read(path))

        stages: list[list[str]] = [[], [], []]
        for entry in source.list(""):
            if entry.path != layout.LOCK:
                stages[_STAGES.get(entry.path.partition("/")[0], 2)].append(entry.path)
        for paths in stages:
            _side_by_side(copy, paths)
        return target

    def copied(self, name: str, source: str) -> ObjectStore:
        """A store with copies of all objects of another one of the place: the server makes them."""
        client = self.store().client

        def copy(entry: Entry) -> None:
            obstore.copy(client, f"{source}/{entry.path}", f"{name}/{entry.path}")

        _side_by_side(copy, self.store(source).list(""))
        return self.store(name)


def _side_by_side(do: Callable[[T], None], each: Iterable[T]) -> None:
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="copies") as copies:
        for _ in copies.map(do, each):
            pass


def emptied(store: ObjectStore) -> None:
    """Deletes all objects of a store, a thousand by a request."""
    obstore.delete(store.client, [entry.path for entry in store.list("")])


@contextmanager
def bucket(url: str | None, folder: Path) -> Iterator[Bucket]:
    """A place until the end of the block.

    Args:
        url: Such as ``s3://bucket/prefix``, which the usual variables ``AWS_…`` open. The place is beneath it, and its
            objects are deleted at the end. None for a server of its own.
        folder: For what that server has.

    Raises:
        UsageError: As ``opened``.
    """
    if url is not None:
        given = Bucket(joined(url, f"tidemark-bench-{uuid4().hex[:8]}"), None, url)
        try:
            yield given
        finally:
            emptied(given.store())
        return
    with s3_server(folder) as server:
        yield Bucket(f"s3://{server.bucket()}/bench", server.settings, server.name)


def _opened(place: str, settings: StoreSettings | None) -> ObjectStore:
    store = opened(place, settings)
    assert isinstance(store, ObjectStore), f"{place} is no bucket"
    return store
