"""The lock of what one process of a machine may use at a time.

The file has the process's number in its first line, and its own inode in the second: a copy of it has another one. What
follows may be a note of the process, for others.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.files.failures import writing


class WriterLock:
    """An exclusive lock between processes of one machine. The kernel releases it when the process dies.

    Args:
        path: Its file.
        what: What it is of, for people; by default the file's folder.

    Raises:
        ChangeLogError: ``TM-LOG-006`` another process holds it, ``TM-LOG-008`` it cannot be made.
    """

    def __init__(self, path: Path, what: str = "") -> None:
        with writing(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.read(self._file, 32).decode("ascii", "replace").partition("\n")[0] or "unknown"
                os.close(self._file)
                raise ChangeLogError("TM-LOG-006", f"process {holder} writes {what or path.parent}") from None
            except OSError:
                os.close(self._file)
                raise
            self.note("")

    def note(self, text: str) -> None:
        """Leaves a note of this process, which stays when it ends."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n{os.fstat(self._file).st_ino}\n{text}".encode(), 0)

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


def note_in(path: Path) -> str:
    """The note of the process that had a lock last; empty where there is none, as in a copy of it."""
    try:
        inode, _, note = path.read_text().partition("\n")[2].partition("\n")
        if not inode.isdecimal():
            return inode.strip()  # An earlier version wrote it.
        return note.strip() if int(inode) == path.stat().st_ino else ""
    except (OSError, UnicodeDecodeError):
        return ""
