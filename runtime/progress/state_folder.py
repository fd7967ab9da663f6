"""The folder in which a capture says how it goes, and is told what to do. It is not in its log, which may disappear.

::

    .NAME.tidemark/status.json   the state and the progress: see ``status_file``
    .NAME.tidemark/control/      commands that wait: see ``steering.waiting_commands``
    .NAME.tidemark/asked         touched when a command waits in an object store
    .NAME.tidemark/renewals.json which tables were asked for because they were read too long ago: see ``renewals``
    .NAME.tidemark/verification.json  when all tables were verified last, and which could not be
    .NAME.tidemark/id            another text for each folder but its copies, which have other inodes
    .NAME.tidemark/lock          held by the process that captures
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self
from uuid import uuid4

from tidemark.protocol.changelog import layout
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import JsonObject
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.changelog.files.lock import WriterLock, note_in

STATUS = "status.json"
CONTROL = "control"
_ASKED = "asked"
_ID = "id"
_LOCK = "lock"


class StateFolder:
    """The folder of one capture.

    Args:
        places: Where it may be. A capture takes the first that it can write.
    """

    def __init__(self, places: Sequence[Path]) -> None:
        self._places = places
        self._taken: Path | None = None
        self._id = ""

    @classmethod
    def of_file(cls, capture_file: Path) -> Self:
        """The folder of a file ``NAME``: ``.NAME.tidemark`` beside it, else one in the user's folder for state."""
        file = capture_file.absolute()
        return cls([file.with_name(f".{file.name}.tidemark"), user_folder() / f"{file.stem}-{digest_of(file)}"])

    @classmethod
    def of_log(cls, root: Path) -> Self:
        """The folder of the capture that last wrote the log in a directory: the log's lock names it."""
        noted = note_in(root / layout.LOCK)
        return cls([Path(noted)] if noted else [])

    @property
    def path(self) -> Path | None:
        """The folder that is taken, else the one used last, else where it would be; None where none is known."""
        if self._taken is not None:
            return self._taken
        used = [(status.stat().st_mtime, place) for place in self._places if (status := place / STATUS).exists()]
        return max(used)[1] if used else next(iter(self._places), None)

    def take(self, log: str) -> WriterLock:
        """Makes the folder and locks it.

        Args:
            log: What is written by the one who has it, for people.

        Raises:
            ChangeLogError: ``TM-LOG-006`` another process has it; ``TM-LOG-008`` it can be in no place.
        """
        reasons = []
        for place in self._places:
            try:
                place.mkdir(parents=True, exist_ok=True)
                made = _id_of(place)
                lock = WriterLock(place / _LOCK, log)
            except OSError as error:
                reasons.append(f"{place}: {error.strerror}")
                continue
            except ChangeLogError as error:
                if error.code != "TM-LOG-008":
                    raise
                reasons.append(error.message)
                continue
            self._taken, self._id = place, made
            return lock
        raise ChangeLogError(
            "TM-LOG-008",
            f"a capture keeps its state in none of its folders: {'; '.join(reasons)}",
            remedy="Make one of them writable, or set XDG_STATE_HOME to a folder that is.",
        )

    def taken_by(self, log: Store) -> StateFolder | None:
        """The folder of another capture file, where that was the last to write a log in a directory."""
        other = None if log.directory is None else StateFolder.of_log(log.directory).path
        if other is None or not self._places or not other.is_dir():
            return None
        ours = any(place.is_dir() and other.samefile(place) for place in self._places)
        return None if ours else StateFolder([other])

    @property
    def id(self) -> str:
        """A text that no other folder has, and no copy of this. It is empty where the folder is not taken."""
        return self._id

    def wrote(self, status: JsonObject) -> bool:
        """Whether a status was written in this folder, and not in another one of which this is a copy."""
        _, _, inode = str(status.get("folder")).partition("-")
        return not inode or self.path is None or inode == str(self.path.stat().st_ino)

    def adopt(self, root: Path) -> None:
        """Takes over what earlier versions kept in a log's directory: commands that wait, and an old status."""
        former = root / CONTROL
        if self._taken is None or not former.is_dir():
            return
        with writing(former):
            (self._taken / CONTROL).mkdir(exist_ok=True)
            for command in former.iterdir():
                if not (kept := self._taken / CONTROL / command.name).exists():
                    shutil.move(command, kept)
        with suppress(OSError):  # One of the same number is left: it is for a person to look at.
            former.rmdir()
        (root / STATUS).unlink(missing_ok=True)

    def ask(self) -> None:
        """Notes that a command waits in the log."""
        if self.path is not None and self.path.is_dir():
            with suppress(OSError):  # Then it is found somewhat later.
                (self.path / _ASKED).touch()

    def asked(self) -> float:
        """When that was noted last; 0 if never."""
        try:
            return 0.0 if self.path is None else (self.path / _ASKED).stat().st_mtime
        except FileNotFoundError:
            return 0.0


def _id_of(folder: Path) -> str:
    path = folder / _ID
    if not path.exists() or not path.read_text():  # A full disk leaves an empty file.
        path.write_text(uuid4().hex)
    return f"{path.read_text()}-{folder.stat().st_ino}"


def user_folder() -> Path:
    """``tidemark`` in the user's folder for state (XDG Base Directory Specification). It may not exist."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else Path("~/.local/state").expanduser()) / "tidemark"


def digest_of(path: Path) -> str:
    """A short text that is another one for every other path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
