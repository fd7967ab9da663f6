"""What the page says of the log: asked in the background, because an object store may take long to answer."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import TidemarkError
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.status.report import NOTHING_OF_LOG, of_log, place_of

EVERY_SECONDS = 2.0
"""So often at most."""

EVERY_SECONDS_OF_STORE = 5.0
"""So often where the log is in an object store: each time costs requests."""

FIRST_SECONDS = 1.0
"""How long those wait who ask first, or after nobody has asked for a while. Others are told what was found last."""

OLD_SECONDS = 10.0
"""That is such a while."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found last.

    Attributes:
        of_log: As ``of_log`` of the report.
        said: The capture's last status, where it was asked for.
        mistake: In the capture file: code, message and remedy.
        log: Where the log is; empty while that is unknown.
        unknown: Why the log cannot be read; empty if it can.
    """

    of_log: dict[str, Any] = field(default_factory=lambda: dict(NOTHING_OF_LOG))
    said: dict[str, Any] = field(default_factory=dict)
    mistake: dict[str, str] | None = None
    log: str = ""
    unknown: str = ""


class LogFacts:
    """Asks while somebody looks at the page, and not otherwise. From any thread.

    Args:
        file: The capture file.
        with_status: Whether the capture's last status is read, too: of a capture that is another process.
    """

    def __init__(self, file: Path, *, with_status: bool = False) -> None:
        self._file = file
        self._with_status = with_status
        self._lock = threading.Lock()
        self._asked_at: float | None = None
        self._asking: threading.Thread | None = None
        self._facts = Facts()
        self._log: ChangeLog | None = None
        self._every = EVERY_SECONDS

    def latest(self) -> Facts:
        """What was found last; asks again where that is some seconds old."""
        with self._lock:
            age = float("inf") if self._asked_at is None else time.monotonic() - self._asked_at
            if age >= self._every and self._asking is None:
                self._asked_at = time.monotonic()
                self._asking = threading.Thread(target=self._ask, name="log-facts", daemon=True)
                self._asking.start()
            asking = self._asking
        if age >= OLD_SECONDS and asking is not None:
            asking.join(FIRST_SECONDS)
        with self._lock:
            return self._facts

    def _ask(self) -> None:
        facts = self._facts
        try:
            facts = self._found()
        finally:
            with self._lock:
                self._facts, self._asking = facts, None

    def _found(self) -> Facts:
        before = self._facts
        try:
            place = place_of(self._file)
            if self._log is None or self._log.store.place != place.log.place:
                self._log = ChangeLog(place.log)
                self._every = EVERY_SECONDS if place.log.directory is not None else EVERY_SECONDS_OF_STORE
            return Facts(
                of_log(place, self._log, datetime.now(UTC)),
                (read_status(place.folder, self._log.store) or {}) if self._with_status else {},
                place.mistake_as_json,
                self._log.store.place,
            )
        except TidemarkError as error:
            return Facts(before.of_log, before.said, before.mistake, before.log, str(error))
