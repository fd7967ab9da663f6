"""The figures of a running capture, from its connector's status lines and from the commits."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from tidemark.protocol.changelog import Commit
from tidemark.protocol.log_lines import LogLine, Progress, TableProgress
from tidemark.protocol.logs import STATUS
from tidemark.runtime.progress.liveness import SILENT_SECONDS, SLACK_SECONDS

OF_SOURCE = ("retained_bytes", "retained_limit", "retained_by", "retained_seconds_left")
"""Figures that the source gives."""

RATE_SECONDS = 10.0
"""Rates are averages over about this time."""


class Rate:
    """The growth of a count, per second."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._samples: deque[tuple[float, int]] = deque()

    def note(self, count: int) -> None:
        """The count at this moment. A smaller one than before starts again."""
        if self._samples and count < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((self._now(), count))
        while len(self._samples) > 2 and self._samples[-1][0] - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()

    @property
    def per_second(self) -> float:
        if len(self._samples) < 2:
            return 0.0
        (first, low), (last, high) = self._samples[0], self._samples[-1]
        return (high - low) / (last - first) if last > first else 0.0


@dataclass(slots=True)
class TableFigures:
    """One table: its backfill, from the connector's status, and what this process has committed of it.

    Attributes:
        events: How many.
        generation: The number of its last generation that became whole, so that readers show it; None if none did.
    """

    progress: TableProgress | None = None
    rate: Rate = field(default_factory=Rate)
    events: int = 0
    generation: int | None = None

    @property
    def rows_per_second(self) -> float:
        """The state of the backfill: the connector's, or else derived from its counts."""
        if self.progress is not None and "rows_per_second" in self.progress.model_fields_set:
            return self.progress.rows_per_second
        return self.rate.per_second

    @property
    def seconds_left(self) -> float | None:
        """The time that the backfill will take at the present rate; None if unknown."""
        if self.progress is None or self.progress.done:
            return None
        if "seconds_left" in self.progress.model_fields_set:
            return self.progress.seconds_left
        if self.progress.rows_estimated is None:
            return None
        speed = self.rows_per_second
        return max(0, self.progress.rows_estimated - self.progress.rows_done) / speed if speed else None


class Figures:
    """All figures of a capture. Not thread-safe: the display holds a lock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._heard_at = now()
        self._ended = False
        self._last_known: dict[str, Any] | None = None
        self.tables: dict[str, TableFigures] = {}
        self.connector = Progress()
        self.events = 0
        self.events_rate = Rate()
        self.commits = 0
        self.commit = -1
        self.doing = "starting"
        """The current activity, in words."""

    def expect(self, tables: Iterable[str]) -> None:
        """Shows these tables from now on, even without events, and no table that is no longer captured."""
        names = set(tables)
        self.tables = {name: figures for name, figures in self.tables.items() if name in names}
        for name in sorted(names):
            self.tables.setdefault(name, TableFigures())
        self.doing = "capturing"

    def status(self, line: LogLine) -> bool:
        """Reads a status line of the connector. False if it has no figures: then its message is shown."""
        if line.event_type != STATUS:
            return False
        try:
            progress = Progress.model_validate(line.fields)
        except ValidationError:
            return False
        if not progress.model_fields_set:
            return False
        self.connector = progress
        self._heard_at = self._now()
        self._ended = False
        if progress.away_seconds is None:
            self._last_known = progress.model_dump(include=set(OF_SOURCE))
        for name, table in progress.tables.items():
            figures = self.tables.setdefault(name, TableFigures())
            figures.progress = table
            figures.rate.note(table.rows_done)
        if line.message:
            self.doing = line.message
        return True

    def connector_ended(self) -> None:
        """The connector has ended, and another is to be opened."""
        self._ended = True

    @property
    def knows_source(self) -> bool:
        """Whether what was said of the source is of now."""
        return not self.is_silent and self.connector.away_seconds is None

    @property
    def is_silent(self) -> bool:
        """Whether nothing is known of the source: there is no connector, or it has sent no status line for so long."""
        limit = self.connector.silence_seconds
        return self._ended or self._now() - self._heard_at > (
            SILENT_SECONDS if limit is None else limit + SLACK_SECONDS
        )

    def committed(self, commit: Commit) -> None:
        self.commits += 1
        self.commit = commit.number
        self.events += commit.next_offset - commit.first_offset
        self.events_rate.note(self.events)
        for segment in commit.segments:
            self._of(segment.collection).events += segment.rows
        for generation in commit.generations:
            if generation.whole is not None:
                self._of(generation.collection).generation = generation.number

    def _of(self, collection: str) -> TableFigures:
        return self.tables.setdefault(collection.replace("/", "."), TableFigures())

    def as_fields(self) -> dict[str, Any]:
        """The figures in the form of a progress line."""
        return {
            "tables": {
                name: {
                    "events": table.events,
                    "generation": table.generation,
                    **(table.progress.model_dump() if table.progress else {}),
                    "rows_per_second": round(table.rows_per_second, 1),
                    "seconds_left": None if table.seconds_left is None else round(table.seconds_left, 1),
                }
                for name, table in self.tables.items()
            },
            **self.totals(),
        }

    def totals(self) -> dict[str, Any]:
        """The figures but those of each table: they cost the same with thousands of tables."""
        return {
            "events": self.events,
            "events_per_second": round(self.events_rate.per_second, 1),
            "commits": self.commits,
            "commit": self.commit,
            **self.connector.model_dump(exclude={"tables"}),
            **self._unknown(),
        }

    def _unknown(self) -> dict[str, Any]:
        """What is not known any more while nothing is heard of the source, and what was known of it last."""
        if self.knows_source:
            return {}
        return {"lag_seconds": None, "caught_up": False, **dict.fromkeys(OF_SOURCE), "last_known": self._last_known}
