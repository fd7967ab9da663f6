"""The last errors and warnings of a capture that have a code, in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.progress.display import Display, Passing, severity

MOST = 20
"""So many different errors are kept, the last of each."""


@dataclass(slots=True)
class RecentError:
    """An error or a warning, and all others with the same code and message.

    Attributes:
        level: ``warning``, ``error`` or ``fatal``.
        last: When it came last, in seconds since 1970.
        count: How often it came.
    """

    level: str
    code: str
    message: str
    remedy: str
    last: float
    count: int = 1


class RecentErrors(Passing):
    """A display that remembers, and passes everything to another one.

    Args:
        display: The other display.
        clock: The time in seconds since 1970.
    """

    def __init__(self, display: Display, clock: Callable[[], float] = time.time) -> None:
        super().__init__(display)
        self._clock = clock
        self._lock = threading.Lock()
        self._errors: dict[tuple[str, str], RecentError] = {}

    def log(self, line: LogLine) -> None:
        if line.code:
            self._note(line.level, line.code, line.message, line.remedy)
        super().log(line)

    def notice(self, level: str, message: str, **fields: Any) -> None:
        if code := fields.get("code"):
            self._note(level, str(code), message, str(fields.get("remedy", "")))
        super().notice(level, message, **fields)

    def newest_first(self) -> list[RecentError]:
        """What is remembered. From any thread."""
        with self._lock:
            return [*reversed(self._errors.values())]

    def _note(self, level: str, code: str, message: str, remedy: str) -> None:
        if severity(level) < severity("warning"):
            return
        with self._lock:
            before = self._errors.pop((code, message), None)
            count = 1 if before is None else before.count + 1
            self._errors[code, message] = RecentError(level, code, message, remedy, self._clock(), count)
            if len(self._errors) > MOST:
                del self._errors[next(iter(self._errors))]
