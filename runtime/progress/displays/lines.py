"""Progress as JSON lines on stderr, between the log lines of the connector and of the runtime.

A progress line has ``"eventType": "captureProgress"`` and its figures in ``fields`` (see ``Figures.as_fields``): it has
a few of the tables that changed since the last line; ``tables_left_out`` counts the others. A line is written every ten
seconds while something changes, and once a minute otherwise.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Self, TextIO

import orjson

from tidemark.protocol.changelog import Commit
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.text.visible import visible_json
from tidemark.runtime.progress.display import severity
from tidemark.runtime.progress.displays.lossy_stderr import LossyStderr
from tidemark.runtime.progress.figures import Figures

PROGRESS = "captureProgress"
EVERY_SECONDS = 10.0
QUIET_SECONDS = 60.0

MOST_TABLES = 20
"""In one line: those with the most events."""


_FLEETING = frozenset(
    {"tables", "events_per_second", "position", "commit", "commits", "retained_bytes", "lag_seconds", "away_seconds"}
)
"""Figures that always change: they alone are no news."""


class LineDisplay:
    """Writes one JSON object per line."""

    def __init__(self, figures: Figures, level: str, stream: TextIO | None = None) -> None:
        self._figures = figures
        self._least = severity(level)
        self._stream = stream or LossyStderr(sys.stderr)
        self._lock = threading.Lock()
        self._shown_at = -EVERY_SECONDS
        self._dirty = False
        self._shown: dict[str, Any] = {}

    def log(self, line: LogLine) -> None:
        with self._lock:
            if self._figures.status(line):
                self._progress(now=False)
            elif severity(line.level) >= self._least:
                self._write(line.level, line.message, line.event_type, {"from": "connector", **line.fields})

    def notice(self, level: str, message: str, **fields: Any) -> None:
        with self._lock:
            if "retry_seconds" in fields:
                self._figures.connector_ended()
            if severity(level) >= self._least:
                self._write(level, message, "", fields)

    def expect(self, tables: Iterable[str]) -> None:
        with self._lock:
            self._figures.expect(tables)

    def committed(self, commit: Commit, seconds: float) -> None:
        with self._lock:
            self._figures.committed(commit)
            self._progress(now=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._progress(now=self._dirty)

    def _progress(self, *, now: bool) -> None:
        self._dirty = True
        if not now and time.monotonic() < self._shown_at + EVERY_SECONDS:
            return
        fields, before = self._figures.as_fields(), self._shown
        tables = {name: one for name, one in fields["tables"].items() if one != before.get("tables", {}).get(name)}
        news = tables or any(fields[name] != before.get(name) for name in fields.keys() - _FLEETING)
        if not news and not now and time.monotonic() < self._shown_at + QUIET_SECONDS:
            return
        most = sorted(tables, key=lambda name: (-tables[name]["events"], name))[:MOST_TABLES]
        shown = {"tables": {name: tables[name] for name in most}, "tables_left_out": len(tables) - len(most)}
        if self._least <= severity("info"):
            self._write("info", self._figures.doing, PROGRESS, {**fields, **shown})
        self._shown_at, self._shown, self._dirty = time.monotonic(), fields, False

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
        text = orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        self._stream.write(visible_json(text) + "\n")
