"""Files of a store as Arrow reads and writes them.

It reads by ranges, of which an object store answers each by one request.
"""

from __future__ import annotations

import io
import os
from typing import Any

import pyarrow as pa

from tidemark.protocol.store.store import Store, Upload

_BUFFER_BYTES = 1024 * 1024
"""Written at once: each call of Python waits for the interpreter's lock."""


def parquet_source(store: Store, path: str, size: int | None = None) -> str | pa.PythonFile:
    """A file as ``pyarrow.parquet.ParquetFile`` takes it.

    Args:
        store: That has it.
        path: Relative to the store.
        size: Its bytes. An object store that is not told is asked, and raises ``OSError`` where it has none.
    """
    return store.where(path) if store.directory is not None else pa.PythonFile(RangeFile(store, path, size), "r")


def parquet_sink(upload: Upload) -> pa.NativeFile:
    """An upload as ``pyarrow.parquet.ParquetWriter`` takes it. ``close`` it before the upload ends."""
    return pa.BufferedOutputStream(pa.PythonFile(UploadFile(upload), "w"), _BUFFER_BYTES)


class UploadFile(io.RawIOBase):
    """An upload as Arrow writes to it. Whoever has begun the upload ends it."""

    def __init__(self, upload: Upload) -> None:
        super().__init__()
        self._upload = upload
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        written = self._upload.write(data)
        self._size += written
        return written

    def tell(self) -> int:
        return self._size


class RangeFile(io.RawIOBase):
    """One file, which does not change.

    Args:
        store: That has it.
        path: Relative to the store.
        size: Its bytes, where they are known.

    Raises:
        OSError: As ``Store``.
    """

    def __init__(self, store: Store, path: str, size: int | None = None) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = store.size(path) if size is None else size
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
