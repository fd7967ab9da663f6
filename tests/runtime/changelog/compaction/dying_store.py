"""A directory whose writer dies before or after any change that it makes: nothing of it runs after that."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tidemark.protocol.store.local import DirectoryStore, FileUpload
from tidemark.protocol.store.store import Upload


class Died(BaseException):
    """As ``kill -9``: whatever tries to clean up dies of it, too."""


class DyingStore(DirectoryStore):
    """Counts changes, and dies at one of them.

    Args:
        root: The directory.
        at: The number of the change, from 0; after the last it lives.
        after: It dies once the change is made, and not before.
    """

    def __init__(self, root: Any, at: int, *, after: bool) -> None:
        super().__init__(root)
        self.changes = 0
        self.died = False
        self._at = at
        self._after = after

    def _change(self, change: Callable[[], Any]) -> Any:
        if self.died:
            raise Died
        is_last = self.changes == self._at
        self.changes += 1
        if is_last and not self._after:
            self.died = True
            raise Died
        result = change()
        if is_last:
            self.died = True
            raise Died
        return result

    def create(self, path: str, data: bytes) -> None:
        self._change(lambda: super(DyingStore, self).create(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self._change(lambda: super(DyingStore, self).replace(path, data))

    def delete(self, path: str) -> None:
        self._change(lambda: super(DyingStore, self).delete(path))

    def sync(self, paths: Collection[str]) -> None:
        self._change(lambda: super(DyingStore, self).sync(paths))

    def upload(self, path: str) -> Upload:
        begun: list[Upload] = []
        try:
            self._change(lambda: begun.append(super(DyingStore, self).upload(path)))
        except Died:
            for upload in begun:
                _closed(upload)
            raise
        return _DyingUpload(self, begun[0])


class _DyingUpload(Upload):
    def __init__(self, store: DyingStore, begun: Upload) -> None:
        self._store = store
        self._begun = begun

    def write(self, data: bytes | bytearray | memoryview) -> int:
        if self._store.died:
            raise Died
        return self._begun.write(data)

    def finish(self) -> int:
        size: int = self._store._change(self._begun.finish)
        return size

    def discard(self) -> None:
        if self._store.died:
            _closed(self._begun)
            raise Died
        self._begun.discard()


def _closed(upload: Upload) -> None:
    """As the kernel does when a process dies."""
    assert isinstance(upload, FileUpload)
    upload.close()
