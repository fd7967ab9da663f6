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
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self, TextIO

import orjson

from protocol.changelog import Commit
from protocol.logs import LogLine
from protocol.visible import visible_json
from runtime.progress.display import severity
from runtime.progress.figures import Figures

PROGRESS = "captureProgress"
EVERY_SECONDS = 10.0
QUIET_SECONDS = 60.0

MOST_TABLES = 20
"""In one line: those with the most events."""


_FLEETING = frozenset(
    {"tables", "events_per_second", "position", "commit", "commits", "retained_bytes", "lag_seconds", "away_seconds"}
)


class LineDisplay:
    """Writes one JSON object per line."""

    def __init__(self, figures: Figures, level: str, stream: TextIO | None = None) -> None:
        self._figures = figures
        self._least = severity(level)
        self._stream = stream or sys.stderr
        self._lock = threading.Lock()
        self._shown_at = -EVERY_SECONDS
        self._dirty = False
        self._shown: dict[str, Any] = {}
        self._shown_tables: dict[str, Any] = {}

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

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._progress(now=self._dirty)

    def _progress(self, *, now: bool) -> None:
        self._dirty = True
        if now or time.monotonic() >= self._shown_at + EVERY_SECONDS:
            news = self._news()
            if not news and not now and time.monotonic() < self._shown_at + QUIET_SECONDS:
                return
            fields, tables = self._figures.as_fields(), self._changed_tables()
            most = sorted(tables, key=lambda name: (-tables[name]["events"], name))[:MOST_TABLES]
            fields |= {"tables": {name: tables[name] for name in most}, "tables_left_out": len(tables) - len(most)}
            if self._least <= severity("info"):
                self._write("info", self._figures.doing, PROGRESS, fields)
            self._shown_at = time.monotonic()
            self._shown, self._shown_tables = fields, self._figures.as_fields()["tables"]
            self._dirty = False

    def _changed_tables(self) -> dict[str, Any]:
        tables: dict[str, Any] = self._figures.as_fields()["tables"]
        return {name: one for name, one in tables.items() if one != self._shown_tables.get(name)}

    def _news(self) -> bool:
        """Whether something happened since the last line, except for figures that always change."""
        fields = self._figures.as_fields()
        lasting = any(fields[name] != self._shown.get(name) for name in fields if name not in _FLEETING)
        return lasting or bool(self._changed_tables())

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
        with suppress(BrokenPipeError):  # No reader is left. The capture continues.
            text = orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
            self._stream.write(visible_json(text) + "\n")
            self._stream.flush()
