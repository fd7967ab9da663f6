"""A store whose writer dies before or after any change that it makes: nothing of it runs after that."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock
from typing import Any

from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore, FileUpload
from tidemark.protocol.store.objects import ObjectStore
from tidemark.protocol.store.opening import RETRIED
from tidemark.protocol.store.store import Upload

_REQUESTS = 8
"""At a time, where a log is copied to a bucket."""


class Died(BaseException):
    """As ``kill -9``: whatever tries to clean up dies of it, too."""


class Dying(Store):
    """Counts changes, and dies at one of them.

    Attributes:
        at: The number of the change, from 0; None for a store that lives.
        after: It dies once the change is made, and not before.
        changes: How many there were.
        died: Whether it is dead.
        uploads: All that were begun.
        one_at_a_time: Is held for each change: no thread is in the middle of one when the writer dies.
    """

    uploads: list[Upload]
    one_at_a_time: RLock
    at: int | None = None
    after = False
    changes = 0
    died = False

    def change(self, change: Callable[[], Any]) -> Any:
        with self.one_at_a_time:
            if self.died:
                raise Died
            is_last = self.changes == self.at
            self.changes += 1
            if is_last and not self.after:
                self._die()
            result = change()
            if is_last:
                self._die()
            return result

    def _die(self) -> None:
        self.died = True
        for upload in self.uploads:
            # As the kernel does. Parts of an upload to a bucket are nothing that anybody sees.
            if isinstance(upload, FileUpload):
                upload.close()
        raise Died

    def create(self, path: str, data: bytes) -> None:
        self.change(lambda: super(Dying, self).create(path, data))  # type: ignore[safe-super]

    def replace(self, path: str, data: bytes) -> None:
        self.change(lambda: super(Dying, self).replace(path, data))  # type: ignore[safe-super]

    def delete(self, path: str) -> None:
        self.change(lambda: super(Dying, self).delete(path))  # type: ignore[safe-super]

    def sync(self, paths: Collection[str]) -> None:
        self.change(lambda: super(Dying, self).sync(paths))  # type: ignore[safe-super]

    def upload(self, path: str) -> Upload:
        self.change(lambda: self.uploads.append(super(Dying, self).upload(path)))  # type: ignore[safe-super]
        return _DyingUpload(self, self.uploads[-1])


class DyingDirectory(Dying, DirectoryStore):
    """A directory."""


class DyingBucket(Dying, ObjectStore):
    """A place in a bucket."""


def dying(store: Store, at: int | None, *, after: bool) -> Dying:
    """The same place, whose writer dies at a change."""
    found: Dying
    if isinstance(store, ObjectStore):
        found = DyingBucket(store.client, store.place, RETRIED)
    else:
        assert store.directory is not None
        found = DyingDirectory(store.directory)
    found.at, found.after, found.uploads, found.one_at_a_time = at, after, [], RLock()
    return found


def copied(log: Path, to: Store) -> Store:
    """Copies the files of a log to a place where nothing is, and returns it."""
    if to.directory is not None:
        shutil.copytree(log, to.directory)
        return to
    with ThreadPoolExecutor(_REQUESTS) as requests:
        paths = [path for path in log.rglob("*") if path.is_file()]
        list(requests.map(lambda path: to.replace(path.relative_to(log).as_posix(), path.read_bytes()), paths))
    return to


class _DyingUpload(Upload):
    def __init__(self, store: Dying, begun: Upload) -> None:
        self._store = store
        self._begun = begun

    def write(self, data: bytes | bytearray | memoryview) -> int:
        with self._store.one_at_a_time:
            if self._store.died:
                raise Died
            return self._begun.write(data)

    def finish(self) -> int:
        size: int = self._store.change(self._begun.finish)
        return size

    def discard(self) -> None:
        if self._store.died:
            raise Died
        self._begun.discard()
