"""Detects edits of the capture file, and prepares the new version while the capture continues with the old one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidemark.protocol.capture_file import CaptureFile, CommitEntry, read_capture_file
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import TidemarkError
from tidemark.runtime.preparation.prepared_capture import PreparedCapture
from tidemark.runtime.progress.display import Display

LOOK_SECONDS = 0.5
"""How often the file's time is checked."""

LEAVE_SECONDS = 1.0
"""How long a running preparation may continue when the capture ends."""

AGAIN_SECONDS = 5.0
"""How often a file is retried that could not be used for a temporary reason, such as an unreachable source."""

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Edition:
    """One version of a capture file, ready to be opened."""

    file: CaptureFile
    prepared: PreparedCapture

    @property
    def due(self) -> CommitEntry:
        return self.file.commit


class CaptureFileWatch:
    """Watches one capture file. A file with a mistake, or whose prerequisites are not met, is reported and changes
    nothing. While the source is unreachable, the file is retried.

    Args:
        path: The capture file.
        file: Its last version.
        stamp: The file's ``stamp`` from before it was read.
        prepare: Makes the calls that come before ``open``. Runs in its own thread.

    Attributes:
        descriptor: Becomes readable when there is an edition to ``take``.
    """

    def __init__(
        self,
        path: Path,
        file: CaptureFile,
        stamp: Stamp | None,
        prepare: Callable[[CaptureFile], PreparedCapture],
        display: Display,
    ) -> None:
        self._path = path
        self._file = file
        self._stamp = stamp
        self._prepare = prepare
        self._display = display
        self._edition: Edition | None = None
        self._lock = threading.Lock()  # Of the edition, and of the byte in the pipe that announces it.
        self._thread: threading.Thread | None = None
        self._looked_at = 0.0
        self._again_at: float | None = None
        self._told: tuple[Stamp | None, str] | None = None
        self.descriptor, self._write = os.pipe()

    def look(self) -> None:
        """If it is time, checks whether the file was edited, and then starts to prepare the new version."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS or (self._thread is not None and self._thread.is_alive()):
            return
        self._looked_at = now
        found = stamp(self._path)
        # An editor may replace the file by removing it first: wait for the new one.
        again = self._again_at is not None and now >= self._again_at
        if found is None or (found == self._stamp and not again):
            return
        self._stamp, self._again_at = found, None
        self._thread = threading.Thread(target=self._read, name="capture-file", daemon=True)
        self._thread.start()

    def take(self) -> Edition | None:
        """The newest edition, if it was not taken yet."""
        with self._lock:
            if self._edition is None:
                return None
            os.read(self.descriptor, 1)
            edition, self._edition = self._edition, None
            return edition

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            # A connector that hangs over a call does not keep the capture from ending: it ends with this process.
            self._thread.join(LEAVE_SECONDS)
            if self._thread.is_alive():
                return
        os.close(self.descriptor)
        os.close(self._write)

    def _read(self) -> None:
        try:
            file = read_capture_file(self._path)
            if file == self._file:
                if self._told is not None:
                    self._accept(f"{self._path} is as before it was edited")
                return
            if (file.capture, file.log_place, file.store) != (
                self._file.capture,
                self._file.log_place,
                self._file.store,
            ):
                self._tell_later("`capture`, `log` or `store`")
                return
            if file.metrics != self._file.metrics:
                self._tell_later("`metrics`")
            prepared = self._prepare(file)
        except TidemarkError as error:
            self._refuse(error)
            return
        self._accept(f"{self._path} was edited; the capture now uses the new version")
        with self._lock:
            if self._edition is None:
                os.write(self._write, b"\0")
            self._file, self._edition = file, Edition(file, prepared)

    def _accept(self, told: str) -> None:
        self._told = None
        self._display.notice("info", told, unused="")

    def _tell_later(self, what: str) -> None:
        told = f"{self._path}: a change of {what} takes effect when tidemark capture is started again"
        self._display.notice("warning", told)

    def _refuse(self, error: TidemarkError) -> None:
        passes = error.entry.policy is Policy.RETRY
        if passes:
            self._again_at = time.monotonic() + AGAIN_SECONDS
        told, self._told = self._told, (self._stamp, error.code)
        if told != self._told:
            self._display.notice(
                "warning" if passes else "error",
                f"the edited {self._path} is not in use{', and will be tried again' if passes else ''}: "
                f"{error.message}",
                code=error.code,
                remedy=error.remedy,
                unused=error.message,
            )


def stamp(path: Path) -> Stamp | None:
    """A value that changes when a file is written or replaced; None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
