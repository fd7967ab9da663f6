"""A store in a bucket, by ``obstore``, the binding of the Rust library ``object_store``."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore import exceptions
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from tidemark.protocol.store.store import Entry, Store, StoreUnavailableError, Upload

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore.store import ObjectStore as Client

T = TypeVar("T")

PART_BYTES = 8 * 1024 * 1024
"""The size of a part of a file that is written piece by piece. S3 takes 10,000 parts: so a file has at most 80 GB."""

_PARTS_IN_FLIGHT = 2

_LISTED = 1000
"""Names in an answer to a listing: the most that S3 gives."""


class ObjectStore(Store):
    """Objects of a bucket under a prefix.

    Args:
        client: A client of obstore's, which begins at the prefix.
        place: The URL for people.
        retried: For how long requests are made again that have no answer. The client does so for those alone that
            cannot have been carried out before, and whose answer did not begin.
    """

    def __init__(self, client: Client, place: str, retried: timedelta) -> None:
        self.client = client
        self._again = Retrying(
            retry=retry_if_exception(_is_interrupted),
            stop=stop_after_delay(retried),
            wait=wait_random_exponential(0.2, max=5.0),
            reraise=True,
        )
        self.place = place.rstrip("/")

    @property
    def directory(self) -> Path | None:
        return None

    def where(self, path: str) -> str:
        return f"{self.place}/{path}" if path else self.place

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if length == 0:
            # No range of no bytes can be asked for.
            self.size(path)
            return b""
        options: GetOptions = {"range": {"offset": start}} if start else {}
        try:
            if length is not None:
                return self._ask(path, lambda: bytes(obstore.get_range(self.client, path, start=start, length=length)))
            return self._ask(path, lambda: bytes(obstore.get(self.client, path, options=options).bytes()))
        except OSError as error:
            if error.errno != errno.ERANGE:
                raise
            return b""

    def exists(self, path: str) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        return self._ask(path, lambda: int(obstore.head(self.client, path)["size"]))

    def modified(self, path: str) -> float:
        return self._ask(path, lambda: obstore.head(self.client, path)["last_modified"].timestamp())

    @property
    def identity(self) -> str:
        return self.place

    def list(self, folder: str, after: str = "") -> Iterator[Entry]:
        last = after
        while True:
            page = self._ask(folder, partial(self._page, folder, last))
            yield from page
            if len(page) < _LISTED:
                return
            last = page[-1].path

    def _page(self, folder: str, after: str) -> Sequence[Entry]:
        chunks = obstore.list(self.client, folder or None, offset=after or None, chunk_size=_LISTED)
        found = next(iter(chunks), ())
        return [Entry(meta["path"], meta["size"], meta["last_modified"].timestamp()) for meta in found]

    def folders(self, folder: str) -> Sequence[str]:
        found = self._ask(folder, lambda: obstore.list_with_delimiter(self.client, folder or None))
        return [prefix.rpartition("/")[2] for prefix in found["common_prefixes"]]

    def _ask(self, path: str, request: Callable[[], T]) -> T:
        """Makes a request that may be made again, whatever became of it."""

        def once() -> T:
            with _as_os_errors(self.where(path)):
                return request()

        return self._again(once)

    def create(self, path: str, data: bytes) -> None:
        try:
            self._ask(path, lambda: obstore.put(self.client, path, data, mode="create", use_multipart=False))
        except FileExistsError:
            # The answer to an earlier try may have been lost.
            if self.read(path) != data:
                raise

    def replace(self, path: str, data: bytes) -> None:
        self._ask(path, lambda: obstore.put(self.client, path, data, use_multipart=False))

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._ask(path, lambda: obstore.delete(self.client, path))

    def upload(self, path: str) -> Upload:
        return _ObjectUpload(self, path)

    def sync(self, paths: Collection[str]) -> None:
        """Nothing is to be done: an object is durable once the store has answered."""


class _ObjectUpload(Upload):
    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._size = 0
        self._finished = False
        self._file: Any = obstore.open_writer(
            store.client, path, buffer_size=PART_BYTES, max_concurrency=_PARTS_IN_FLIGHT
        )

    def write(self, data: bytes | bytearray | memoryview) -> int:
        size = memoryview(data).nbytes
        with _as_os_errors(self._store.where(self._path)):
            self._file.write(data)
        self._size += size
        return size

    def finish(self) -> int:
        with _as_os_errors(self._store.where(self._path)):
            self._file.close()
        self._finished = True
        return self._size

    def discard(self) -> None:
        # Parts of an unfinished upload are nothing that a listing shows; the bucket's rule removes them.
        self._file = None
        if self._finished:
            self._store.delete(self._path)


_LONGEST_REASON = 300
"""Characters of a reason."""

_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,200})</Message>")
_STATUS = re.compile(r"\b(?:status|response)\D{0,20}([45]\d\d)\b", re.IGNORECASE)
_BEHIND_THE_END = "416"
"""The status of a range that begins behind the end of its object (RFC 9110)."""

_PASSING = frozenset({"408", "429", "500", "502", "503", "504"})
"""Statuses of a request that may be made again."""

_INTERRUPTED = "HTTP error: "
"""What a text of obstore's has where there was no answer, or not all of one."""

_URL = re.compile(r"\b[a-z]+://[^\s)\"']+", re.IGNORECASE)
_CAUSE = re.compile(
    r"(?:Connection refused|timed out|(?<!_)timeout|dns error|connection reset|connection closed)", re.IGNORECASE
)


@contextmanager
def _as_os_errors(where: str) -> Iterator[None]:
    """Turns what obstore raises into the errors of ``Store``.

    Args:
        where: What the request was about, for people.
    """
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such object", where) from None
    except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
        raise FileExistsError(errno.EEXIST, "it exists already", where) from None
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, f"the store refuses it: {_reason(str(error))}", where) from None
    except (exceptions.BaseError, OSError, ValueError) as error:
        behind = _STATUS.search(str(error))
        number = errno.ERANGE if behind is not None and behind[1] == _BEHIND_THE_END else errno.EIO
        if _INTERRUPTED in str(error):
            number = errno.ECONNABORTED
        passes = number == errno.ECONNABORTED or (behind is not None and behind[1] in _PASSING)
        raise (StoreUnavailableError if passes else OSError)(number, _reason(str(error)), where) from None


def _is_interrupted(error: BaseException) -> bool:
    """Whether there was no answer, or not all of one: nobody knows what became of the request."""
    return isinstance(error, OSError) and error.errno == errno.ECONNABORTED


def _reason(text: str) -> str:
    """The reason in a text of obstore's, which may have an answer's body, and an address with a signature."""
    parts = [
        *(f"status {found}" for found in _STATUS.findall(text)[:1]),
        *(found[1] for found in (_CODE.search(text), _MESSAGE.search(text)) if found),
        *(found[0] for found in (_CAUSE.search(text),) if found),
    ]
    if parts:
        return ": ".join(dict.fromkeys(parts))
    first = _URL.sub("the store", text.splitlines()[0] if text else "no reason was given")
    return first[:_LONGEST_REASON]
