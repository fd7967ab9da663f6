"""Segments' files: each is opened here, and compared with what its commit states.

A file in which another segment was copied is whole, and wrong: its rows would be applied as those of this one. Its size
and its footer tell, which is read anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    def opened(self, log: Store | Path) -> Iterator[pq.ParquetFile]:
        """Opens the file, which is that of this segment. No data page is read for it.

        Args:
            log: The store or the directory of the change log.

        Raises:
            ChangeLogError: ``TM-LOG-009`` for a file that is missing, damaged, or another one, also where it shows only
                when its pages are read; ``TM-LOG-011`` for a file that may not be read, and ``TM-LOG-017`` for a store
                that does not answer.
        """
        self.check_size(log)
        store = log if isinstance(log, Store) else DirectoryStore(log)
        where = store.where(self.path)
        with (
            _named(where),
            pq.ParquetFile(parquet_source(store, self.path), page_checksum_verification=True) as parquet,
        ):
            self._check(where, parquet)
            yield parquet

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
