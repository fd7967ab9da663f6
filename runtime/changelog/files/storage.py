"""The file operations of a change log's writer, for a local path. No other module of the package writes files.

It relies on POSIX: ``link`` fails if the name is taken, and shows a whole file or none. A file survives a power cut
once it and its folder are synced.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store.local import sync_all


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an ``OSError`` (disk full, no permission, read-only) into ``TM-LOG-008`` with the path and the reason.

    ``FileExistsError`` is raised unchanged: it is an answer and no failure.
    """
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise ChangeLogError("TM-LOG-008", f"cannot write {path}: {error.strerror or error}") from error


def make_folder(path: Path, *, durably: bool = True) -> None:
    """Creates a folder and those above it; not ``durably`` if ``sync`` follows with those in which it made any."""
    with writing(path):
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for folder in reversed(missing):
            try:
                folder.mkdir(exist_ok=True)
            except FileExistsError:
                raise NotADirectoryError(errno.ENOTDIR, f"{folder} is a file") from None
            if durably:
                sync([], [folder.parent])


def create(path: Path) -> None:
    """Creates an empty file.

    Raises:
        FileExistsError: The name is taken.
        ChangeLogError: ``TM-LOG-008``.
    """
    with writing(path):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def publish(path: Path, data: bytes, epoch: int) -> None:
    """Creates a file with ``data``, durably: a reader always sees the whole file or none.

    Args:
        path: Its name.
        data: What it holds.
        epoch: The writer's, for the temporary file's name: a later writer knows which files to delete.

    Raises:
        FileExistsError: The name is taken.
        ChangeLogError: ``TM-LOG-008``.
    """
    with _unfinished(path, data, epoch) as temporary:
        os.link(temporary, path)


def replace(path: Path, data: bytes) -> None:
    """Puts ``data`` in the place of a file, durably: a reader always sees one of both, whole.

    Raises:
        ChangeLogError: ``TM-LOG-008``.
    """
    with _unfinished(path, data) as temporary:
        temporary.replace(path)


@contextmanager
def _unfinished(path: Path, data: bytes, epoch: int = 0) -> Iterator[Path]:
    """A durable file with ``data`` beside ``path``, which is given its name meanwhile. Makes that durable, too."""
    temporary = path.with_name(temporary_name(epoch))
    with writing(path):
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)
        sync([], [path.parent])


def temporary_name(epoch: int = 0) -> str:
    """A new name for an unfinished file of a writer; without an epoch, of a process that need not be the writer.

    The next writer deletes what was left under such a name.
    """
    return f".{epoch}-{uuid4().hex}.tmp"


def temporary_epoch(name: str) -> int | None:
    """The writer epoch in a temporary file's name; None for any other file."""
    epoch = name[1:].partition("-")[0]
    return int(epoch) if name.startswith(".") and name.endswith(".tmp") and epoch.isdecimal() else None


def sync(paths: Collection[Path], folders: Collection[Path] = ()) -> None:
    """Makes files durable, the folders that name them, and more folders."""
    try:
        sync_all([str(path) for path in (*paths, *{*folders, *(path.parent for path in paths)})])
    except OSError as error:
        raise ChangeLogError("TM-LOG-008", f"cannot write {error.filename}: {error.strerror}") from error


def remove(path: Path) -> None:
    """Deletes a file, if it exists."""
    with writing(path):
        path.unlink(missing_ok=True)


def files(folder: Path) -> Iterator[Path]:
    """Every file below ``folder``; none if the folder does not exist."""
    with writing(folder):
        for parent, _, names in os.walk(folder, onerror=_raise_unless_gone):
            for name in names:
                yield Path(parent, name)


class WriterLock:
    """An exclusive lock between processes of one machine. The kernel releases it when the process dies.

    Raises:
        ChangeLogError: ``TM-LOG-006`` another process holds it, ``TM-LOG-008`` it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        with writing(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
                os.close(self._file)
                raise ChangeLogError("TM-LOG-006", f"process {holder} writes {path.parent}") from None
            except OSError:
                os.close(self._file)
                raise
            os.ftruncate(self._file, 0)
            os.write(self._file, b"%d\n" % os.getpid())

    def shared(self) -> WriterLock:
        """The same lock once more: it is held until both are released."""
        another = WriterLock.__new__(WriterLock)
        another._file = os.dup(self._file)
        return another

    def is_of(self, path: Path) -> bool:
        """Whether it is the lock of this path, where another log may be by now."""
        try:
            return os.path.samestat(os.fstat(self._file), path.stat())
        except OSError:
            return False

    def release(self) -> None:
        """Releases the lock, once. The file stays: otherwise two processes could lock two files of one name."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
