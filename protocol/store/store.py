"""The interface of a store: what the change log needs of a directory or an object store, and nothing more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as a listing shows it.

    Attributes:
        path: Relative to the store's place.
        size: Bytes.
        modified: Seconds since 1970, by the store's clock.
    """

    path: str
    size: int
    modified: float


class StoreUnavailableError(OSError):
    """An object store did not answer, or put a request off, for as long as it was asked again: it passes by itself."""


class Upload(ABC):
    """A file that is being written, under its final name. It is there as a whole once it is finished."""

    @abstractmethod
    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Appends bytes, and returns how many."""

    @abstractmethod
    def finish(self) -> int:
        """Ends the file, and returns its bytes. In a directory it is durable after ``Store.sync`` only."""

    @abstractmethod
    def discard(self) -> None:
        """Ends without the file, also after ``finish``."""


class Store(ABC):
    """Files below one place, under paths relative to it, whose parts ``/`` separates.

    A directory and an object store differ in what they promise. What is promised here holds for both:

    - ``create`` is exclusive: of any number of processes that create one path, one succeeds.
    - A file is seen as a whole or not at all.
    - What ``create`` and ``replace`` have written survives a power cut. What an upload has written does after ``sync``.

    Each method raises ``OSError``, with ``strerror`` for people and ``filename`` as ``where`` gives it:
    ``FileNotFoundError``, ``FileExistsError`` (of ``create`` alone), ``PermissionError``, ``StoreUnavailableError``,
    else ``OSError`` itself. None names a secret. What can pass by itself was tried again before.

    Attributes:
        place: For people: a directory, or a URL such as ``s3://bucket/shop.log``. It holds no secret.
    """

    place: str

    @property
    @abstractmethod
    def directory(self) -> Path | None:
        """The directory, where it is one."""

    @abstractmethod
    def where(self, path: str) -> str:
        """A path for people: what it is in full."""

    @abstractmethod
    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file, or ``length`` of them from ``start`` on (fewer at its end)."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def size(self, path: str) -> int:
        """The bytes of a file."""

    @abstractmethod
    def modified(self, path: str) -> float:
        """When a file was written: seconds since 1970, by the store's clock."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """A text that is the same for every way to write the place."""

    @abstractmethod
    def list(self, folder: str, after: str = "") -> Iterator[Entry]:
        """All files below a folder, however deep, in the order of their paths' bytes; none where it does not exist.

        Args:
            folder: Relative; empty for all of the store.
            after: Only files whose paths come after this one. An object store does not look at those before.
        """

    @abstractmethod
    def folders(self, folder: str) -> Sequence[str]:
        """The names of the folders right beneath one, in any order; none where it does not exist.

        In an object store those are folders that have a file below. What else is right beneath is listed with them.

        Args:
            folder: Relative; empty for all of the store.
        """

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Creates a file exclusively and durably.

        No two callers may write the same bytes to one path: where the answer to a request was lost, the bytes that are
        there tell whether this call wrote them.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Writes a file durably, in the place of one that may be there."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Deletes a file, if there is one."""

    @abstractmethod
    def upload(self, path: str) -> Upload:
        """Begins a file that is written piece by piece. No more than some parts of 8 MB of it are in memory."""

    @abstractmethod
    def sync(self, paths: Collection[str]) -> None:
        """Makes files durable that ``upload`` has written, with the folders above them."""
