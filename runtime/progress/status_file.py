"""The state and progress of a running capture, in a file of its state folder, for other commands.

``status.json`` holds ``{"pid": …, "host": …, "folder": …, "time": "…Z", "uptime": …, …}`` with the members of
``Health.as_fields`` and of ``Figures.as_fields``, and two by sequence: ``commands``, why the connector refused one,
empty if it did not; and ``unsent``, why the connector does not get one. It is replaced once a second while something
changes, and every few seconds otherwise: an old file belongs to a capture that hangs or was killed. A capture that has
ended leaves its last file.

Where the log is in an object store, a copy in the log is a sign of life.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from tidemark.protocol.changelog import Commit
from tidemark.protocol.changelog.layout import COMMITS, HEADER
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import CONTROL
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore, unfinished_name
from tidemark.runtime.changelog.files.failures import disappeared, writing
from tidemark.runtime.progress.display import Display, Passing
from tidemark.runtime.progress.failures import failure_of
from tidemark.runtime.progress.figures import Figures
from tidemark.runtime.progress.health import Health
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.processes import uptime
from tidemark.runtime.progress.sign_of_life import SignOfLife, as_json, as_status, given
from tidemark.runtime.progress.state_folder import STATUS, StateFolder

EVERY_SECONDS = 1.0

BEAT_SECONDS = 5.0
"""The file is written at least this often while the capture runs."""

COMMANDS = 20
"""The file has the outcome of so many commands."""

LOOK_SECONDS = 1.0
"""How often it is tried whether the log can be written."""

TOLD_SECONDS = 60.0
"""A log line says no more often than this that the file cannot be written."""

BLOCK = 4096
"""The file's size is a multiple of this, with the same amount spare: its content can be replaced on a full disk."""


class StatusFile(Passing):
    """A display that writes the file, and passes everything to another display.

    Args:
        folder: The capture's.
        log: The capture's log. Of one in an object store, a client that does not try long.
        display: The other display.
        beat_seconds: The longest time between two writes.
    """

    def __init__(self, folder: StateFolder, log: Store, display: Display, beat_seconds: float = BEAT_SECONDS) -> None:
        super().__init__(display)
        self._folder = folder
        self._log = log
        self._sign = SignOfLife(log, self.report) if log.directory is None else None
        self._beat_seconds = beat_seconds
        self._figures = Figures()
        self._health = Health()
        self._lock = threading.Lock()
        self._written_at = -EVERY_SECONDS
        self._later: threading.Timer | None = None
        self._beating: threading.Thread | None = None
        self._over = threading.Event()
        self._commands: dict[str, str] = {}
        self._unsent: dict[str, str] = {}
        self._folder_error: ChangeLogError | None = None
        self._full_told_at = -TOLD_SECONDS

    def begin(self) -> None:
        """Writes the file from now on: the log belongs to this process. Before, it belongs to another, or to none."""
        with self._lock:
            self._beating = threading.Thread(target=self._beat, name="status-file", daemon=True)
            self._beating.start()
            self._write(now=True)
        if self._sign is not None:
            self._sign.begin()

    def report(self) -> dict[str, Any]:
        """What the file says, as of now. From any thread."""
        with self._lock:
            return {**self._essential(), **self._figures.as_fields()}

    def totals(self) -> dict[str, Any]:
        """The figures in it but those of each table. From any thread."""
        with self._lock:
            return self._figures.totals()

    def log(self, line: LogLine) -> None:
        super().log(line)
        with self._lock:
            self._health.heard(line)
            self._note_command(line)
            self._figures.status(line)
            self._write(now=False)

    def _note_command(self, line: LogLine) -> None:
        """Keeps what the connector says of the last commands: why one was refused, or nothing."""
        if line.event_type == CONTROL:
            self._unsent.clear()  # It may be another connector, which knows more.
        sequence = line.fields.get("sequence")
        if isinstance(sequence, int):
            _keep(self._commands, sequence, line.message if line.code else "")

    def notice(self, level: str, message: str, **fields: Any) -> None:
        super().notice(level, message, **fields)
        if "unused" in fields:
            with self._lock:
                self._health.edited(str(fields.get("code", "")), fields["unused"], str(fields.get("remedy", "")))
                self._write(now=False)
        elif code := fields.get("code"):
            with self._lock:
                for sequence in fields.get("unsent", ()):
                    _keep(self._unsent, sequence, message)
                self._health.failed(str(code), message, str(fields.get("remedy", "")))
                if "retry_seconds" in fields:
                    self._health.connector_ended(str(code))
                    self._figures.connector_ended()
                self._write(now=False)

    def expect(self, tables: Iterable[str]) -> None:
        names = list(tables)
        super().expect(names)
        with self._lock:
            self._figures.expect(names)

    def committed(self, commit: Commit, seconds: float) -> None:
        super().committed(commit, seconds)
        with self._lock:
            self._figures.committed(commit)
            self._health.committed()
            self._write(now=False)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with self._lock:
            if isinstance(error, Exception):
                self._health.ended("failed", failure_of(error))
            else:
                self._health.ended("caught up" if error is None else "stopped")
            self._write(now=True)
        if self._sign is not None:
            self._sign.end()
        super().__exit__(kind, error, trace)

    def _beat(self) -> None:
        while not self._over.wait(min(LOOK_SECONDS, self._beat_seconds)):
            error = _why_unwritable(self._log.directory) if self._log.directory is not None else self._lifeless()
            with self._lock:
                if self._over.is_set():
                    return
                news = self._health.wrote(error)
                if news or time.monotonic() - self._written_at >= self._beat_seconds:
                    self._write(now=True)
            if news and error is not None:
                self._display.notice("warning", error.message, code=error.code, remedy=error.remedy)
            elif news:
                self._display.notice("info", f"{self._log.place} can be written again")

    def _lifeless(self) -> ChangeLogError | None:
        return None if self._sign is None else self._sign.error

    def _write(self, *, now: bool) -> None:
        if self._beating is None:
            return
        wait = self._written_at + EVERY_SECONDS - time.monotonic()
        if not now and wait > 0:
            # The last news before a silence must not be lost: the next may be seconds away.
            if self._later is None:
                self._later = threading.Timer(wait, self._write_later)
                self._later.daemon = True
                self._later.start()
            return
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._written_at = time.monotonic()
        assert self._folder.path is not None, "the log belongs to this process, and so does its state folder"
        path = self._folder.path / STATUS
        self._folder_error = None
        try:
            with writing(path):
                path.parent.mkdir(exist_ok=True)
                _replace(path, _bytes({**self._essential(), **self._figures.as_fields()}))
        except ChangeLogError as error:  # The capture does not need this file: it goes on.
            self._folder_error = error
            with suppress(OSError):
                _overwrite(path, _bytes(self._essential()))
            if time.monotonic() - self._full_told_at >= TOLD_SECONDS:
                self._full_told_at = time.monotonic()
                self._display.notice("warning", error.message, code=error.code, remedy=error.remedy)

    def _essential(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "folder": self._folder.id,
            "time": datetime.now(UTC).isoformat(),
            "uptime": uptime(),
            **self._health.as_fields(),
            "commands": self._commands,
            "unsent": self._unsent,
            "folder_error": None if self._folder_error is None else self._folder_error.as_json(),
        }

    def _write_later(self) -> None:
        with self._lock:
            if self._later is threading.current_thread():
                self._write(now=True)


def _keep(outcomes: dict[str, str], sequence: int, text: str) -> None:
    outcomes[str(sequence)] = text
    for old in list(outcomes)[:-COMMANDS]:
        del outcomes[old]


def _bytes(content: dict[str, Any]) -> bytes:
    data = as_json(content)
    return data.ljust((len(data) // BLOCK + 2) * BLOCK)


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(unfinished_name())
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _overwrite(path: Path, data: bytes) -> None:
    """Writes in place, which needs no space: people also ask for the status when the disk is full."""
    with path.open("r+b", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if len(data) <= size:
            file.write(data.ljust(size))


def read_status(folder: StateFolder, log: Store | None = None) -> dict[str, Any] | None:
    """The last status of a capture; None if there is none, or it cannot be read.

    Args:
        folder: The capture's.
        log: The capture's log. One in an object store has the status of a capture on another machine.
    """
    here = None
    with suppress(OSError):
        here = None if folder.path is None else as_status((folder.path / STATUS).read_bytes())
    if here is not None and not here.get("ended") and not folder.wrote(here):
        here = None  # The process in it captures elsewhere.
    if log is None or log.directory is not None or liveness(here).running:
        return here
    found = [status for status in (here, given(log)) if status is not None]
    return max(found, key=lambda status: str(status.get("time")), default=None)


def _why_unwritable(root: Path) -> ChangeLogError | None:
    """Why the log at ``root`` cannot be written; None if it can. Makes a small file beside the commits, and removes it.

    ``TM-LOG-008`` with the reason, or ``TM-LOG-013`` if the log is not there any more.
    """
    if not (root / HEADER).exists():
        return disappeared(DirectoryStore(root))
    path = root / COMMITS / unfinished_name()
    try:
        with writing(path):
            path.write_bytes(bytes(BLOCK))
    except ChangeLogError as error:
        return error
    finally:
        with suppress(OSError):  # Where it could not be made, it cannot be removed.
            path.unlink(missing_ok=True)
    return None
