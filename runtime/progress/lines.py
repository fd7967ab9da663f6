"""Progress as JSON lines on stderr, one a second at most, between the log lines of the connector and of the runtime.

A progress line has ``"eventType": "captureProgress"`` and its figures in ``fields`` (see ``Figures.as_fields``).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self, TextIO

import orjson

from protocol.changelog import Commit
from protocol.logs import LogLine
from runtime.progress.display import severity
from runtime.progress.figures import Figures

PROGRESS = "captureProgress"
EVERY_SECONDS = 1.0


class LineDisplay:
    """Writes one JSON object a line."""

    def __init__(self, figures: Figures, level: str, stream: TextIO | None = None) -> None:
        self._figures = figures
        self._least = severity(level)
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._shown_at = -EVERY_SECONDS
        self._dirty = False

    def log(self, line: LogLine) -> None:
        with self._lock:
            if self._figures.status(line):
                self._progress(now=False)
            elif severity(line.level) >= self._least:
                self._write(line.level, line.message, line.event_type, {"from": "connector", **line.fields})

    def notice(self, level: str, message: str, **fields: Any) -> None:
        with self._lock:
            if severity(level) >= self._least:
                self._write(level, message, "", fields)

    def expect(self, tables: Iterable[str]) -> None:
        with self._lock:
            self._figures.expect(tables)

    def committed(self, commit: Commit) -> None:
        with self._lock:
            self._figures.committed(commit)
            self._progress(now=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._progress(now=self._dirty)

    def _progress(self, *, now: bool) -> None:
        self._dirty = True
        if now or time.monotonic() >= self._shown_at + EVERY_SECONDS:
            if self._least <= severity("info"):
                self._write("info", self._figures.doing, PROGRESS, self._figures.as_fields())
            self._shown_at = time.monotonic()
            self._dirty = False

    def _write(self, level: str, message: str, event_type: str, fields: dict[str, Any]) -> None:
        line: dict[str, Any] = {
            "ts": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "level": level,
            "message": message,
        }
        if event_type:
            line["eventType"] = event_type
        if fields:
            line["fields"] = fields
        with suppress(BrokenPipeError):  # Nobody watches any more. The capture goes on.
            self._stream.write(orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode() + "\n")
            self._stream.flush()
