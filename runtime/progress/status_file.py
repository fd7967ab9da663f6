"""The figures of a running capture in a file of the change log's folder, for commands that run beside it.

``LOG/status.json`` holds ``{"pid": …, "time": "…Z", …}`` and the members of ``Figures.as_fields``. It is replaced about
once a second, first when the connector says how far it is or something was committed, so that a capture which could not
begin leaves the one before; a capture that is over leaves its last one behind.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from protocol.changelog import Commit
from protocol.logs import LogLine
from runtime.progress.display import Display
from runtime.progress.figures import Figures

STATUS_FILE = "status.json"
EVERY_SECONDS = 1.0


class StatusFile:
    """A display that writes the file, and hands everything on to another display."""

    def __init__(self, root: Path, display: Display) -> None:
        self._path = root / STATUS_FILE
        self._display = display
        self._figures = Figures()
        self._lock = threading.Lock()
        self._written_at = -EVERY_SECONDS
        self._later: threading.Timer | None = None
        self._begun = False
        self._told = False

    def log(self, line: LogLine) -> None:
        self._display.log(line)
        with self._lock:
            if self._figures.status(line):
                self._write(now=False)

    def notice(self, level: str, message: str, **fields: Any) -> None:
        self._display.notice(level, message, **fields)

    def expect(self, tables: Iterable[str]) -> None:
        names = list(tables)
        self._display.expect(names)
        with self._lock:
            self._figures.expect(names)

    def committed(self, commit: Commit) -> None:
        self._display.committed(commit)
        with self._lock:
            self._figures.committed(commit)
            self._write(now=False)

    def __enter__(self) -> Self:
        self._display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            if self._begun:
                self._write(now=True)
        self._display.__exit__(kind, error, trace)

    def _write(self, *, now: bool) -> None:
        wait = self._written_at + EVERY_SECONDS - time.monotonic()
        if not now and wait > 0:
            # The last news before a silence must not be lost: the next may be half a minute away.
            if self._later is None:
                self._later = threading.Timer(wait, self._write_later)
                self._later.daemon = True
                self._later.start()
            return
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._begun = True
        self._written_at = time.monotonic()
        content = {"pid": os.getpid(), "time": datetime.now(UTC).isoformat(), **self._figures.as_fields()}
        beside = self._path.with_suffix(".tmp")
        try:
            beside.write_bytes(orjson.dumps(content, default=str, option=orjson.OPT_NON_STR_KEYS))
            beside.replace(self._path)
        except OSError as error:
            # The capture does not need it; what it needs to write says so itself.
            if not self._told:
                self._told = True
                self._display.notice("warning", f"{self._path} cannot be written: {error.strerror}", code="TM-LOG-008")

    def _write_later(self) -> None:
        with self._lock:
            if self._later is threading.current_thread():
                self._write(now=True)


def read_status(root: Path) -> dict[str, Any] | None:
    """What the file says; None when there is none, or none that can be read."""
    try:
        content = orjson.loads((root / STATUS_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return content if isinstance(content, dict) else None
