"""A file of a store as Arrow reads it: by ranges, of which an object store answers each by one request."""

from __future__ import annotations

import io
import os

import pyarrow as pa

from tidemark.protocol.store.store import Store


def parquet_source(store: Store, path: str) -> str | pa.PythonFile:
    """A file as ``pyarrow.parquet.ParquetFile`` takes it. Raises ``OSError`` where an object store has none."""
    return store.where(path) if store.directory is not None else pa.PythonFile(RangeFile(store, path), "r")


class RangeFile(io.RawIOBase):
    """One file, which does not change.

    Args:
        store: That has it.
        path: Relative to the store.

    Raises:
        OSError: As ``Store``.
    """

    def __init__(self, store: Store, path: str) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = store.size(path)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        left = max(self._size - self._at, 0)
        length = left if size < 0 else min(size, left)
        data = self._store.read(self._path, self._at, length) if length else b""
        self._at += len(data)
        return data
