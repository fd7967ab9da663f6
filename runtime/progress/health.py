"""The health of a running capture: since when its source is unreachable, its last error, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import STATUS
from tidemark.runtime.progress.display import severity
from tidemark.runtime.progress.processes import uptime

CLOCK_SET_SECONDS = 1.0
"""The system's clock is adjusted by less than this all the time. By more, somebody has set it."""


class Moments:
    """Moments of this process as times, also of before the system's clock was set: then all of them have others.

    Args:
        clock: The time in seconds since 1970.
        steady: A clock that nobody sets, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.time, steady: Callable[[], float] = uptime) -> None:
        self._clock, self._steady = clock, steady
        self._began = clock() - steady()

    def now(self) -> float:
        """This moment, by the steady clock."""
        return self._steady()

    def text(self, moment: float | None) -> str | None:
        """When that was or is, by the present clock: ISO 8601, in UTC."""
        began = self._clock() - self._steady()
        if abs(began - self._began) >= CLOCK_SET_SECONDS:
            self._began = began
        return None if moment is None else datetime.fromtimestamp(self._began + moment, UTC).isoformat()


class Health:
    """Follows a capture's log lines and commits. Not thread-safe. Its times are moments."""

    def __init__(self, moments: Moments | None = None) -> None:
        self._moments = Moments() if moments is None else moments
        self._started = self._moments.now()
        self._away_since: float | None = None
        self._status_at: float | None = None
        self._source_at: float | None = None
        self._error: dict[str, Any] | None = None
        self._edit: dict[str, str] | None = None
        self._retry: tuple[str, float] | None = None
        self._of_tables: set[str] = set()
        self._unwritable = False
        self._found: dict[str, Any] | None = None
        self._ended: float | None = None
        self._outcome = "running"

    def heard(self, line: LogLine) -> None:
        """A log line of the connector."""
        code = line.code
        if line.event_type == STATUS:
            self._status(line.fields.get("away_seconds"), line.fields.get("tables"))
        elif "sequence" in line.fields:
            return  # A command was refused: nothing is wrong with the capture.
        elif code and severity(line.level) >= severity("warning"):
            self.failed(code, line.message, line.remedy)

    def _status(self, away_seconds: object, tables: object) -> None:
        self._status_at = self._moments.now()
        self._retry = None
        if isinstance(away_seconds, int | float):
            since = self._status_at - away_seconds
            self._away_since = self._away_since or since
            return
        self._away_since, self._source_at = None, self._status_at
        self._of_tables = _codes_of_tables(tables)
        if self._error is None:
            return
        # A healthy connector says nothing about a log that could not be written.
        if self._error["code"] in self._of_tables:
            self._error["passed"] = None  # A commit of other tables does not resolve it.
        elif not self._error["code"].startswith("TM-LOG-"):
            self._passed()

    def failed(self, code: str, message: str, remedy: str) -> None:
        """Something failed; ``since`` is the first time, if it fails repeatedly."""
        now = self._moments.now()
        before = self._error
        goes_on = before is not None and before["code"] == code and before["passed"] is None
        self._error = {
            "code": code,
            "message": message,
            "remedy": remedy,
            "time": now,
            "since": before["since"] if before is not None and goes_on else now,
            "passed": None,
        }

    def connector_ended(self, code: str) -> None:
        """The connector has ended with this, and another is to be opened; ``since`` is the first time in a row."""
        if self._status_at is None and not code.startswith("TM-LOG-"):
            return  # Nothing would tell that the other one is open: this one sends no status lines.
        self._retry = code, self._moments.now() if self._retry is None else self._retry[1]

    def edited(self, code: str, message: str, remedy: str) -> None:
        """The capture file was edited, and is not in use for this reason; it is in use if ``message`` is empty."""
        self._edit = {"code": code, "message": message, "remedy": remedy} if message else None

    def committed(self) -> None:
        """A commit is durable: errors that prevented it are resolved."""
        self._retry = None
        if self._error is not None and self._error["code"] not in self._of_tables:
            self._passed()

    def wrote(self, error: TidemarkError | None) -> bool:
        """Why the log cannot be written now, or that it can. Returns whether that is news."""
        news = self._unwritable != (error is not None)
        self._unwritable = error is not None
        if error is not None and (self._error is None or self._error["passed"] is not None):
            self.failed(error.code, error.message, error.remedy)
            self._found = self._error
        elif error is None and self._found is not None and self._found is self._error:
            self._passed()  # What a commit failed with, the next commit resolves.
        return news

    def ended(self, outcome: str, error: TidemarkError | None = None) -> None:
        """The capture is over: ``stopped``, ``caught up`` or ``failed``."""
        self._ended, self._outcome = self._moments.now(), outcome
        if outcome == "caught up":
            self._passed()
        if error is not None:
            self.failed(error.code, error.message, error.remedy)

    def _passed(self) -> None:
        if self._error is not None and self._error["passed"] is None:
            self._error["passed"] = self._moments.now()

    def as_fields(self) -> dict[str, Any]:
        """For the status file. Times are ISO 8601, in UTC."""
        text, error, retry = self._moments.text, self._error, self._retry
        times = {} if error is None else {name: text(error[name]) for name in ("time", "since", "passed")}
        return {
            "started": text(self._started),
            "ended": text(self._ended),
            "outcome": self._outcome,
            "status_time": text(self._status_at),
            "source_time": text(self._source_at),
            "source_away_since": text(self._away_since),
            "retry": None if retry is None else {"code": retry[0], "since": text(retry[1])},
            "error": None if error is None else {**error, **times},
            "edit": self._edit,
        }


def _codes_of_tables(tables: object) -> set[str]:
    """The codes of errors that tables have at present: the texts begin with them."""
    each = tables.values() if isinstance(tables, dict) else ()
    texts = (str(table.get(name) or "") for table in each if isinstance(table, dict) for name in ("error", "dropped"))
    return {text.partition(":")[0] for text in texts if text}
