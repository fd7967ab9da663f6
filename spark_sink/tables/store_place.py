"""The place of a kept table, of a warehouse or of a change log: a directory, or a URL of an object store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.protocol.errors import SparkError
from tidemark.protocol.store import Store
from tidemark.protocol.store.opening import is_url, joined, opened
from tidemark.protocol.store.settings import StoreSettings

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_STORES = 1024
"""The most stores that a process keeps open: one for each table that it reads or writes."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A place, which tasks get as it is: each process opens its own store there.

    Attributes:
        text: For people: an absolute path, or a URL such as ``s3://bucket/lake``. It holds no secret.
        settings: What opens the store, secrets among it; None to take all of it from the environment of each process.
    """

    text: str
    settings: StoreSettings | None = field(default=None, repr=False)

    @classmethod
    def of(cls, place: str | Path, settings: StoreSettings | None = None) -> StorePlace:
        """The place of a path, which becomes absolute since executors may run in another directory, or of a URL."""
        text = str(place).removeprefix("file://")
        return cls(text, settings) if is_url(text) else cls(str(Path(text).absolute()))

    def __str__(self) -> str:
        return self.text

    def __truediv__(self, path: str) -> StorePlace:
        """A place beneath this one."""
        return StorePlace(joined(self.text, path), self.settings)

    @property
    def name(self) -> str:
        """The last part of the path or the URL."""
        return self.text.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> StorePlace:
        """The place above this one."""
        return StorePlace(self.text.rstrip("/").rpartition("/")[0], self.settings)

    @property
    def directory(self) -> Path | None:
        """The directory; None for an object store."""
        return None if is_url(self.text) else Path(self.text)

    @property
    def store(self) -> Store:
        """The store. A process opens each once.

        Raises:
            TidemarkError: For a URL that is wrong, or settings that name no store.
        """
        return _opened(self)

    @property
    def shown(self) -> Path | str:
        """What a report says: a path or a URL."""
        return self.directory or self.text

    def folders(self, prefix: str) -> list[str]:
        """Names of the folders right beneath that begin with a prefix. In an object store they have a file."""
        return [name for name in self.store.folders("") if name.startswith(prefix)]

    def lacking(self, paths: Iterable[str]) -> Iterator[str]:
        """Those of some files that are not there. An object store lists all of its files for it, once."""
        if self.directory is not None:
            yield from (path for path in paths if not self.store.exists(path))
            return
        there: set[str] | None = None
        for path in paths:
            if there is None:
                there = {entry.path for entry in self.store.list("")}
            if path not in there:
                yield path

    @contextmanager
    def parquet(self, path: str, missing: str = "is missing") -> Iterator[pq.ParquetFile]:
        """Opens a Parquet file of a table.

        Args:
            path: Relative to the place.
            missing: What is said of it if it is not there.

        Raises:
            SparkError: ``TM-SPK-015`` for a file that is missing or damaged, also while it is read.
        """
        # What only names a place needs no Arrow.
        import pyarrow as pa
        import pyarrow.parquet as pq

        from tidemark.protocol.store.arrow_files import parquet_source

        store = self.store
        where = store.where(path)
        try:
            source = parquet_source(store, path)
            with pq.ParquetFile(
                source,
                # Ranges of columns that lie side by side are one request then.
                pre_buffer=store.directory is None,
                # Spark writes instants so by default. As nanoseconds they end with the year 2262.
                coerce_int96_timestamp_unit="us",
            ) as parquet:
                yield parquet
        except FileNotFoundError:
            raise SparkError("TM-SPK-015", f"{where} {missing}") from None
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise self.failed(error, path) from None
            raise SparkError("TM-SPK-015", f"{where} is damaged: {str(error).splitlines()[0]}") from None

    def failed(self, error: OSError, path: str = "") -> SparkError:
        """What an error of the store comes to: ``TM-SPK-015``, or ``TM-SPK-026`` for what may pass by itself.

        That is all that an object store has no word for, and that was tried again for a minute.
        """
        passes = self.directory is None and type(error) is OSError
        return SparkError(
            "TM-SPK-026" if passes else "TM-SPK-015", f"{self.store.where(path)}: {error.strerror or error}"
        )


@lru_cache(_STORES)
def _opened(place: StorePlace) -> Store:
    return opened(place.text, place.settings)
