"""Segments' files: each is opened here, and compared with what its commit states.

A file in which another segment was copied is whole, and wrong: its rows would be applied as those of this one. Its size
and its footer tell, which is read anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidemark.protocol.changelog.models import META_COLUMNS, Segment
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store, StoreUnavailableError
from tidemark.protocol.store.arrow_files import parquet_source
from tidemark.protocol.store.local import DirectoryStore

WHOLE_BYTES = 2 * 1024 * 1024
"""A file of at most so many is read from an object store by one request: it takes about as long as the shortest one."""

_REQUESTS = 16
"""Made at once."""

_AHEAD_BYTES = 256 * 1024
"""The most of a file that is read before its turn: so those have 4 MB together."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment's file, as far as its reader needs to know it.

    Attributes:
        path: The path relative to the log.
        rows: The number of rows by the log.
        first: The offset of the first row.
        last: The offset of the last row.
        size: The size of the file in bytes.
        renamed: Columns that are read under other names, and these; None for columns that are not read.
        filled: Columns that the file lacks, and their value in all its rows but deletes, as JSON.
    """

    path: str
    rows: int
    first: int
    last: int
    size: int
    renamed: tuple[tuple[str, str | None], ...] = ()
    filled: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        segment: Segment,
        renamed: tuple[tuple[str, str | None], ...] = (),
        filled: tuple[tuple[str, str], ...] = (),
    ) -> SegmentFile:
        return cls(segment.path, segment.rows, segment.first_offset, segment.last_offset, segment.size, renamed, filled)

    @contextmanager
    def opened(self, log: Store | Path, data: Future[bytes] | None = None) -> Iterator[pq.ParquetFile]:
        """Opens the file, which is that of this segment. Of a large one no data page is read for it.

        Args:
            log: The store or the directory of the change log.
            data: The bytes of the file, where they were asked for, see ``asked_for``.

        Raises:
            ChangeLogError: ``TM-LOG-009`` for a file that is missing, damaged, or another one, also where it shows only
                when its pages are read; ``TM-LOG-011`` for a file that may not be read, and ``TM-LOG-017`` for a store
                that does not answer.
        """
        store = log if isinstance(log, Store) else DirectoryStore(log)
        where = store.where(self.path)
        with (
            _named(where),
            pq.ParquetFile(
                self._source(store, data), page_checksum_verification=True, pre_buffer=store.directory is None
            ) as parquet,
        ):
            self._check(where, parquet)
            yield parquet

    def _source(self, store: Store, data: Future[bytes] | None) -> Any:
        """What a file is read from, which has the segment's size."""
        if data is None and (store.directory is not None or self.size > WHOLE_BYTES):
            self.check_size(store)
            return parquet_source(store, self.path, self.size)
        found = store.read(self.path) if data is None else data.result()
        _compare(store.where(self.path), "bytes", len(found), self.size)
        return pa.BufferReader(found)

    def check(self, log: Store | Path) -> None:
        """Makes sure that the file is that of this segment, by its size and its footer. Raises as ``opened``."""
        with self.opened(log):
            pass

    def check_size(self, log: Store | Path) -> None:
        """Makes sure that the file is there, and has the segment's size. Raises as ``opened``."""
        store = log if isinstance(log, Store) else DirectoryStore(log)
        where = store.where(self.path)
        with _named(where):
            _compare(where, "bytes", store.size(self.path), self.size)

    def _check(self, path: str, parquet: pq.ParquetFile) -> None:
        metadata = parquet.metadata
        if lost := META_COLUMNS.keys() - set(parquet.schema_arrow.names):
            raise ChangeLogError("TM-LOG-009", f"{path} is damaged: it has no column {', '.join(sorted(lost))}")
        _compare(path, "rows", metadata.num_rows, self.rows)
        place = metadata.schema.names.index("_offset")
        ends: list[Any] = [
            metadata.row_group(group).column(place).statistics for group in (0, metadata.num_row_groups - 1)
        ]
        if all(end is not None and end.has_min_max for end in ends):
            _compare(path, "as its first offset", ends[0].min, self.first)
            _compare(path, "as its last offset", ends[1].max, self.last)


def asked_for(store: Store, files: Iterable[SegmentFile]) -> Iterator[tuple[SegmentFile, Future[bytes] | None]]:
    """Files in their order, of which the next small ones are read from an object store meanwhile, side by side.

    An answer takes some hundredths of a second, however small it is, and a log has small segments by the thousand.

    Args:
        store: That the log is in.
        files: To be opened one after the other, each with what comes with it.
    """
    if store.directory is not None:
        yield from ((file, None) for file in files)
        return
    ahead: deque[tuple[SegmentFile, Future[bytes] | None]] = deque()
    with ThreadPoolExecutor(_REQUESTS, thread_name_prefix="segments") as requests:
        try:
            for file in files:
                small = file.size <= _AHEAD_BYTES
                ahead.append((file, requests.submit(store.read, file.path) if small else None))
                if len(ahead) == _REQUESTS:
                    yield ahead.popleft()
            while ahead:
                yield ahead.popleft()
        finally:
            requests.shutdown(cancel_futures=True)


def batches(
    segment: pq.ParquetFile,
    rows: int,
    columns: list[str] | None = None,
    groups: Iterable[int] | None = None,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of an open segment, one row group after the other: an object store is asked once for each.

    Args:
        segment: As ``SegmentFile.opened`` gives it.
        rows: The most rows of a batch.
        columns: Those that are read; None for all.
        groups: The row groups that are read; None for all.
        use_threads: Whether columns are decoded side by side.
    """
    for group in range(segment.num_row_groups) if groups is None else groups:
        yield from segment.iter_batches(rows, row_groups=[group], columns=columns, use_threads=use_threads)


def _compare(path: str, what: str, has: int, stated: int) -> None:
    if has != stated:
        raise ChangeLogError("TM-LOG-009", f"{path} is damaged: it has {has} {what}, but the log says {stated}")


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Makes what goes wrong with a file an error that names it."""
    try:
        yield
    except (PermissionError, StoreUnavailableError) as error:
        raise unreadable(path, error) from None
    except FileNotFoundError:
        raise ChangeLogError("TM-LOG-009", f"{path} is missing") from None
    except (pa.ArrowCancelled, pa.ArrowMemoryError):
        raise
    except (pa.ArrowException, UnicodeError, OSError) as error:
        raise ChangeLogError("TM-LOG-009", f"{path} is damaged: {str(error).splitlines()[0]}") from None
