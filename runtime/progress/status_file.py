"""The state and progress of a running capture, in a file of the change log's folder, for other commands.

``LOG/status.json`` holds ``{"pid": …, "host": …, "time": "…Z", …}`` with the members of ``Health.as_fields`` and of
``Figures.as_fields``, and ``commands``: by sequence, why the connector refused it; empty if it did not. It is replaced
once a second while something changes, and every few seconds otherwise: an old file belongs to a capture that hangs or
was killed. A capture that has ended leaves its last file.

Where the log cannot be written at all, the file is in the user's folder for state instead. The newer one counts.
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

import orjson

from tidemark.protocol.changelog import Commit
from tidemark.protocol.changelog.layout import HEADER
from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.changelog.files.storage import temporary_name
from tidemark.runtime.progress.display import Display, Passing
from tidemark.runtime.progress.failures import failure_of
from tidemark.runtime.progress.figures import Figures
from tidemark.runtime.progress.health import Health
from tidemark.runtime.progress.state_folder import digest_of, state_folder
from tidemark.runtime.progress.writable import why_unwritable

STATUS_FILE = "status.json"
EVERY_SECONDS = 1.0

BEAT_SECONDS = 5.0
"""The file is written at least this often while the capture runs."""

COMMANDS = 20
"""Of how many commands the file has the outcome."""

LOOK_SECONDS = 1.0
"""How often it is tried whether the log can be written."""

BLOCK = 4096
"""The file's size is a multiple of this, with the same amount spare: its content can be replaced on a full disk."""


class StatusFile(Passing):
    """A display that writes the file, and passes everything to another display."""

    def __init__(self, root: Path, display: Display, beat_seconds: float = BEAT_SECONDS) -> None:
        super().__init__(display)
        self._path = root / STATUS_FILE
        self._beat_seconds = beat_seconds
        self._figures = Figures()
        self._health = Health()
        self._lock = threading.Lock()
        self._written_at = -EVERY_SECONDS
        self._later: threading.Timer | None = None
        self._beating: threading.Thread | None = None
        self._over = threading.Event()
        self._elsewhere = False
        self._commands: dict[str, str] = {}

    def begin(self) -> None:
        """Writes the file from now on: the log belongs to this process. Before, it belongs to another, or to none."""
        with self._lock:
            self._beating = threading.Thread(target=self._beat, name="status-file", daemon=True)
            self._beating.start()
            self._write(now=True)

    def report(self) -> dict[str, Any]:
        """What the file says, as of now. From any thread."""
        with self._lock:
            return {**self._essential(), **self._figures.as_fields()}

    def log(self, line: LogLine) -> None:
        super().log(line)
        with self._lock:
            self._health.heard(line)
            self._note_command(line)
            self._figures.status(line)
            self._write(now=False)

    def _note_command(self, line: LogLine) -> None:
        """Keeps what the connector says of the last commands: why one was refused, or nothing."""
        sequence = line.fields.get("sequence")
        if isinstance(sequence, int):
            self._commands[str(sequence)] = line.message if line.code else ""
            for old in list(self._commands)[:-COMMANDS]:
                del self._commands[old]

    def notice(self, level: str, message: str, **fields: Any) -> None:
        super().notice(level, message, **fields)
        if code := fields.get("code"):
            with self._lock:
                self._health.failed(str(code), message, str(fields.get("remedy", "")))
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
        super().__exit__(kind, error, trace)

    def _beat(self) -> None:
        while not self._over.wait(min(LOOK_SECONDS, self._beat_seconds)):
            error = why_unwritable(self._path.parent)
            with self._lock:
                if self._over.is_set():
                    return
                news = self._health.wrote(error)
                if news or time.monotonic() - self._written_at >= self._beat_seconds:
                    self._write(now=True)
            if news and error is not None:
                self._display.notice("warning", error.message, code=error.code, remedy=error.remedy)
            elif news:
                self._display.notice("info", f"{self._path.parent} can be written again")

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
        essential = self._essential()
        whole = _bytes({**essential, **self._figures.as_fields()})
        try:
            # A log that disappeared must not return as a folder with only this file.
            (self._path.parent / HEADER).stat()
            _replace(self._path, whole)
        except OSError:
            # The capture does not need this file, and why the log cannot be written is reported by itself.
            if not _overwrite(self._path, _bytes(essential)):
                with suppress(OSError):
                    _elsewhere(self._path.parent).parent.mkdir(parents=True, exist_ok=True)
                    _replace(_elsewhere(self._path.parent), whole)
                    self._elsewhere = True
            return
        if self._elsewhere:
            self._elsewhere = False
            _elsewhere(self._path.parent).unlink(missing_ok=True)

    def _essential(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "time": datetime.now(UTC).isoformat(),
            **self._health.as_fields(),
            "commands": self._commands,
        }

    def _write_later(self) -> None:
        with self._lock:
            if self._later is threading.current_thread():
                self._write(now=True)


def _bytes(content: dict[str, Any]) -> bytes:
    data = orjson.dumps(content, default=str, option=orjson.OPT_NON_STR_KEYS)
    return data.ljust((len(data) // BLOCK + 2) * BLOCK)


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(temporary_name())
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _overwrite(path: Path, data: bytes) -> bool:
    """Writes in place, which needs no space: people also ask for the status when the disk is full."""
    try:
        with path.open("r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if len(data) > size:
                return False
            file.write(data.ljust(size))
    except OSError:
        return False
    return True


def read_status(root: Path) -> dict[str, Any] | None:
    """The file's content; None if there is no file, or it cannot be read."""
    found = [content for path in (root / STATUS_FILE, _elsewhere(root)) if (content := _content(path)) is not None]
    return max(found, key=lambda content: str(content.get("time")), default=None)


def _elsewhere(root: Path) -> Path:
    """Where the file is while the log's folder cannot be written."""
    return state_folder() / f"{root.name}-{digest_of(root.resolve())}.status.json"


def _content(path: Path) -> dict[str, Any] | None:
    try:
        content = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return content if isinstance(content, dict) else None
