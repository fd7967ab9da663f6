"""The health of a running capture: since when its source is unreachable, its last error, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemark.protocol.errors import TidemarkError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import STATUS
from tidemark.runtime.progress.display import severity


def now_utc() -> datetime:
    return datetime.now(UTC)


class Health:
    """Follows a capture's log lines and commits. Not thread-safe.

    Args:
        clock: The time, in UTC.
    """

    def __init__(self, clock: Callable[[], datetime] = now_utc) -> None:
        self._clock = clock
        self._started = clock()
        self._away_since: datetime | None = None
        self._status_at: datetime | None = None
        self._error: dict[str, Any] | None = None
        self._ended: datetime | None = None
        self._outcome = "running"

    def heard(self, line: LogLine) -> None:
        """A log line of the connector."""
        code = line.code
        if line.event_type == STATUS:
            self._status(line.fields.get("away_seconds"))
        elif code and severity(line.level) >= severity("warning"):
            self.failed(code, line.message, line.remedy)

    def _status(self, away_seconds: object) -> None:
        self._status_at = self._clock()
        if isinstance(away_seconds, int | float):
            since = self._status_at - timedelta(seconds=away_seconds)
            self._away_since = self._away_since or since
            return
        self._away_since = None
        # A healthy connector says nothing about a log that could not be written.
        if self._error is not None and not self._error["code"].startswith("TM-LOG-"):
            self._passed()

    def failed(self, code: str, message: str, remedy: str) -> None:
        """Something failed; ``since`` is the first time, if it fails repeatedly."""
        now = self._clock().isoformat()
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

    def committed(self) -> None:
        """A commit is durable: errors that prevented it are resolved."""
        self._passed()

    def ended(self, outcome: str, error: TidemarkError | None = None) -> None:
        """The capture is over: ``stopped``, ``caught up`` or ``failed``."""
        self._ended, self._outcome = self._clock(), outcome
        if error is not None:
            self.failed(error.code, error.message, error.remedy)

    def _passed(self) -> None:
        if self._error is not None and self._error["passed"] is None:
            self._error["passed"] = self._clock().isoformat()

    def as_fields(self) -> dict[str, Any]:
        """For the status file. Times are ISO 8601, in UTC."""
        return {
            "started": self._started.isoformat(),
            "ended": _text(self._ended),
            "outcome": self._outcome,
            "status_time": _text(self._status_at),
            "source_away_since": _text(self._away_since),
            "error": self._error,
        }


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
