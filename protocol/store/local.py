"""A store in a directory of this machine, or of a file system that is mounted here.

It relies on POSIX: ``link`` fails if the name is taken, and shows a whole file or none. A file survives a power cut
once it and its folder are synced.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from tidemark.protocol.store.store import Entry, Store, Upload

_SYNC_THREADS = 8
"""Files synced at once: a journalling file system commits them together."""

_UNFINISHED = ".tmp"
"""How names of unfinished files end. They begin with a dot."""


class DirectoryStore(Store):
    """Files of one directory.

    Folders are made as files need them. Unfinished files are named ``.<id>.tmp``; no listing has them.

    Args:
        root: The directory. It need not exist.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.place = str(self.root)
        self._prefix = f"{self.root}{os.sep}"
        self._durable: set[str] = set()  # Folders whose names in the folders above are durable.

    @property
    def directory(self) -> Path:
        return self.root

    def where(self, path: str) -> str:
        # As text: this is asked at each look at a log, and a Path costs several times as much.
        return self._prefix + path if path else self.place

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        with open(self.where(path), "rb") as file:  # noqa: PTH123
            if start:
                file.seek(start)
            return file.read() if length is None else file.read(length)

    def exists(self, path: str) -> bool:
        return os.path.exists(self.where(path))  # noqa: PTH110

    def size(self, path: str) -> int:
        return os.stat(self.where(path)).st_size  # noqa: PTH116

    def modified(self, path: str) -> float:
        return os.stat(self.where(path)).st_mtime  # noqa: PTH116

    @property
    def identity(self) -> str:
        return str(self.root.resolve())

    def list(self, folder: str, after: str = "") -> Iterator[Entry]:
        for name, is_folder in self._names(folder, after):
            path = f"{folder}/{name}" if folder else name
            if is_folder:
                yield from self.list(path, after)
            elif os.fsencode(path) > os.fsencode(after):
                with suppress(FileNotFoundError):  # Deleted since.
                    found = os.stat(self.where(path))  # noqa: PTH116
                    if stat.S_ISREG(found.st_mode):
                        yield Entry(path, found.st_size, found.st_mtime)

    def folders(self, folder: str) -> Sequence[str]:
        try:
            with os.scandir(self.where(folder)) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def _names(self, folder: str, after: str) -> Sequence[tuple[str, bool]]:
        """Names in a folder, and whether they are folders, in the order of the paths of the files below."""
        base = f"{folder}/" if folder else ""
        try:
            with os.scandir(self.where(folder)) as entries:
                found = [
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if not _is_unfinished(entry.name)
                ]
        except FileNotFoundError:
            return []
        # A folder's files come where its name with a slash does.
        keyed = [(os.fsencode(f"{name}/" if is_folder else name), name, is_folder) for name, is_folder in found]
        if after.startswith(base):
            rest = os.fsencode(after[len(base) :])
            keyed = [item for item in keyed if item[0] >= rest[: len(item[0])]]
        return [(name, is_folder) for _, name, is_folder in sorted(keyed)]

    def make(self) -> None:
        """Makes the directory itself, durably."""
        self._make_folder("")

    def remove_unfinished(self, folder: str) -> int:
        """Deletes what processes that have died left unfinished in a folder, and returns how many files.

        A process that lives, and has begun one of them, fails to create or replace its file.
        """
        try:
            with os.scandir(self.where(folder)) as entries:
                left = [entry.path for entry in entries if _is_unfinished(entry.name) and entry.is_file()]
        except FileNotFoundError:
            return 0
        for path in left:
            with suppress(FileNotFoundError):
                os.unlink(path)  # noqa: PTH108
        return len(left)

    def create(self, path: str, data: bytes) -> None:
        with self._unfinished(path, data) as temporary:
            try:
                os.link(temporary, self.where(path))
            except FileExistsError:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.where(path)) from None

    def replace(self, path: str, data: bytes) -> None:
        with self._unfinished(path, data) as temporary:
            os.replace(temporary, self.where(path))  # noqa: PTH105

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.where(path))  # noqa: PTH108

    def upload(self, path: str) -> Upload:
        self._make_folder(path)
        return FileUpload(self.where(path))

    def sync(self, paths: Collection[str]) -> None:
        folders = {_folder(path) for path in paths}
        new = self._not_durable(folders)
        sync_all([self.where(path) for path in (*paths, *folders.union(map(_folder, new)))])
        self._durable |= new

    @contextmanager
    def _unfinished(self, path: str, data: bytes) -> Iterator[str]:
        """A durable file with ``data`` beside ``path``, which is given its name meanwhile. Makes that durable, too."""
        self._make_folder(path)
        folder = _folder(path)
        temporary = self.where(f"{folder}/{unfinished_name()}" if folder else unfinished_name())
        try:
            with _naming(self.where(path)), open(temporary, "xb") as file:  # noqa: PTH123
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108
        new = self._not_durable({folder})
        sync_all([self.where(each) for each in {folder}.union(map(_folder, new))])
        self._durable |= new

    def _not_durable(self, folders: Collection[str]) -> set[str]:
        """Which of some folders, and of those above them, are not known to be named durably.

        An earlier process may have made a folder and ended before it was.
        """
        new: set[str] = set()
        for folder in folders:
            while folder and folder not in new and folder not in self._durable:
                new.add(folder)
                folder = _folder(folder)
        return new

    def _make_folder(self, path: str) -> None:
        """Makes the folder of a file, and those above it. What is above the store is durable at once."""
        folder = Path(self.where(_folder(path)))
        missing = []
        while not folder.is_dir():
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            try:
                folder.mkdir(exist_ok=True)
            except FileExistsError:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
            if folder == self.root or folder in self.root.parents:
                _sync(str(folder.parent))


class FileUpload(Upload):
    """A file of a directory that is being written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = open(path, "xb", buffering=0)  # noqa: PTH123, SIM115
        self._size = 0

    def write(self, data: bytes | bytearray | memoryview) -> int:
        rest = memoryview(data).cast("B")
        size = rest.nbytes
        with _naming(self._path):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._size += size
        return size

    def finish(self) -> int:
        with _naming(self._path):
            self._file.close()
        return self._size

    def close(self) -> None:
        """Leaves the file as it is."""
        self._file.close()

    def discard(self) -> None:
        self.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108


def unfinished_name() -> str:
    """A new name for an unfinished file."""
    return f".{uuid4().hex}{_UNFINISHED}"


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(_UNFINISHED)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def sync_all(paths: Sequence[str]) -> None:
    """Syncs files and folders, several at once where there are many. Raises ``OSError``, which names the file."""
    if len(paths) <= 2:
        for path in paths:
            _sync(path)
        return
    with ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="sync") as pool:
        for _ in pool.map(_sync, paths):
            pass


def _sync(path: str) -> None:
    with _naming(path):
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """An error over an open file does not say which it was."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None
