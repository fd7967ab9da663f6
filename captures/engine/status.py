"""Status lines on stderr: the progress of each backfill, the lag, and how much log the source retains."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

from tidemark.captures.contract.log import LogStream
from tidemark.captures.contract.source import RetainedLog, Source
from tidemark.captures.engine.source_life import SourceLife
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.captures.scheduling.table_states import Captured
from tidemark.protocol.log_lines import Progress, TableProgress
from tidemark.protocol.logs import STATUS

logger = logging.getLogger(__name__)

STATUS_SECONDS = 1.0
"""Between two lines while something changes."""

SHARE = 40
"""One part of so many of the time, at most, goes into lines: with thousands of tables each takes a while, and twice as
long where it is read."""

QUIET_SECONDS = 5.0
"""Between two lines otherwise, or half of the silence that ``SourceLife`` allows if that is shorter."""

SMOOTH_SECONDS = 30.0
"""Seconds after which a measurement weighs about a third of a current one."""

LEAST_SECONDS = 3.0
"""Seconds of measurements before there is an estimate."""

_HALTED = ("paused", "failed", "away", "set_aside")


class RateEstimate:
    """An exponentially weighted mean of a count's rate. Weights depend on time: samples may be irregular.

    The mean is divided by its collected weight, so it is right from the first sample on and does not start at zero.
    """

    def __init__(self) -> None:
        self._begin(None)

    def _begin(self, sample: tuple[float, int] | None) -> None:
        self._last = sample
        self._measured = self._mean = self._weight = 0.0

    def note(self, now: float, count: int) -> None:
        """Takes the count at a time, in seconds that never decrease. A smaller count than before starts again."""
        if self._last is None or count < self._last[1]:
            self._begin((now, count))
            return
        then, before = self._last
        if now <= then:
            return
        fresh = 1.0 - math.exp((then - now) / SMOOTH_SECONDS)
        self._mean += fresh * ((count - before) / (now - then) - self._mean)
        self._weight += fresh * (1.0 - self._weight)
        self._measured += now - then
        self._last = (now, count)

    @property
    def per_second(self) -> float:
        return self._mean / self._weight if self._weight > 0 else 0.0

    def seconds_for(self, more: float) -> float | None:
        """Seconds until the count has grown by ``more``; None if it does not grow, or there is no estimate yet."""
        if more <= 0:
            return 0.0
        speed = self.per_second
        return more / speed if self._measured >= LEAST_SECONDS and speed > 0 else None


class StatusReports:
    """Writes status lines: often while something changes, rarely otherwise."""

    def __init__(self, source: Source, backfills: Backfills, life: SourceLife, clock: Callable[[], float]) -> None:
        self._source = source
        self._life = life
        self._backfills = backfills
        self._clock = clock
        self._quiet_seconds = max(STATUS_SECONDS, min(QUIET_SECONDS, life.limit / 2))
        self._reported_at = self._looked_at = clock() - STATUS_SECONDS
        self._pause = STATUS_SECONDS
        self._last = Progress()
        self._speeds = [RateEstimate() for _ in backfills.tables]
        self._all = RateEstimate()
        self._retained = RateEstimate()

    def report(self, position: int, log: LogStream, *, drained: bool) -> None:
        """Writes a line if one is due. Raises SourceError if the source cannot be queried."""
        now = self._clock()
        if now - self._looked_at < self._pause:
            return
        progress = self._progress(position, log, drained=drained)
        quiet = _moving(progress) == _moving(self._last)
        if not quiet or now - self._reported_at >= self._quiet_seconds:
            self._write(progress)
        self._looked_at = self._clock()
        self._pause = min(max(STATUS_SECONDS, SHARE * (self._looked_at - now)), self._quiet_seconds)

    def away(self, seconds: float) -> None:
        """Writes how long the source has been unreachable; the other figures are unchanged."""
        update = {"away_seconds": round(seconds, 1), "lag_seconds": None, "caught_up": False}
        self._write(self._last.model_copy(update=update))

    def still_away(self, seconds: float) -> None:
        """Writes the duration of the outage again, if a line is due."""
        if self._clock() - self._reported_at >= self._quiet_seconds:
            self.away(seconds)

    def finish(self, position: int, log: LogStream) -> None:
        """The last line of a capture that is caught up."""
        progress = self._progress(position, log, drained=True)
        self._write(progress.model_copy(update={"lag_seconds": 0.0, "caught_up": True}))

    def _write(self, progress: Progress) -> None:
        self._reported_at = self._clock()
        self._last = progress
        logger.info(_in_words(progress), extra={"eventType": STATUS, **progress.model_dump()})

    def _progress(self, position: int, log: LogStream, *, drained: bool) -> Progress:
        now = self._clock()
        retained = self._source.retained()
        lag = self._life.lag(log, retained, drained=drained)
        tables = {
            backfill.table.name: _table(backfill, speed, now)
            for backfill, speed in zip(self._backfills.tables, self._speeds, strict=True)
        }
        unfinished = [table for table in tables.values() if not table.done]
        self._all.note(now, sum(table.rows_done for table in tables.values()))
        left = [_rows_left(table) for table in unfinished]
        known = [rows for rows in left if rows is not None]
        return Progress(
            tables=tables,
            position=self._source.format_position(position),
            lag_seconds=lag,
            rows_per_second=round(self._all.per_second, 1) if unfinished else 0.0,
            seconds_left=_rounded(self._all.seconds_for(sum(known))) if len(known) == len(left) else None,
            held=self._backfills.throttle.reason or None if unfinished else None,
            retained_bytes=retained.size,
            retained_limit=retained.limit,
            retained_by=retained.by or None,
            retained_seconds_left=self._retained_left(now, retained),
            silence_seconds=self._life.limit,
            caught_up=lag == 0 and not unfinished,
        )

    def _retained_left(self, now: float, retained: RetainedLog) -> float | None:
        if retained.size is None:
            return None
        self._retained.note(now, retained.size)
        return None if retained.limit is None else _rounded(self._retained.seconds_for(retained.limit - retained.size))


def _table(backfill: TableBackfill, speed: RateEstimate, now: float) -> TableProgress:
    rows, estimated = backfill.ranges.rows, backfill.table.estimated_rows
    speed.note(now, rows)
    done = backfill.done and not backfill.left_out
    error = backfill.error if isinstance(backfill.capture, Captured) else backfill.capture.error
    verification = backfill.verification
    progress = TableProgress(
        rows_done=rows,
        rows_estimated=estimated,
        done=done,
        state=backfill.state,
        paused=backfill.paused,
        bytes_done=backfill.bytes,
        bytes_estimated=backfill.table.estimated_bytes,
        rows_per_second=0.0 if done else round(speed.per_second, 1),
        error=None if error is None else str(error),
        remedy=None if error is None else error.remedy,
        dropped=backfill.dropped or None,
        bad_values=dict(backfill.bad),
        reread=None if backfill.reread is None else backfill.reread.model_copy(),
        waits_for=backfill.waits_for or (verification.waits_for if verification is not None else "") or None,
        verified_rows=None if verification is None else verification.rows,
    )
    if backfill.reread is not None and backfill.reread.put_off and estimated is not None and backfill.emitted:
        progress.seconds_needed = round(estimated * backfill.seconds / backfill.emitted, 1)
    if not done and (left := _rows_left(progress)) is not None:
        progress.seconds_left = _rounded(speed.seconds_for(left))
    return progress


def _rows_left(table: TableProgress) -> int | None:
    """The rows left in an unfinished table; None if the number is unknown, or it makes no progress."""
    if table.rows_estimated is None or table.rows_estimated <= table.rows_done or table.state in _HALTED:
        return None
    return table.rows_estimated - table.rows_done


def _moving(progress: Progress) -> tuple[object, ...]:
    """The figures whose change causes a new line. Rates decay by themselves, and do not count."""
    tables = [
        (
            table.rows_done,
            table.state,
            table.paused,
            table.error,
            table.dropped,
            table.bad_values,
            table.reread and table.reread.model_dump(),
            table.waits_for is None,
            table.verified_rows,
        )
        for table in progress.tables.values()
    ]
    lag = progress.lag_seconds
    return progress.position, tables, progress.held, progress.away_seconds is None, lag is None, lag == 0


def _in_words(progress: Progress) -> str:
    if progress.away_seconds is not None:
        return f"waiting for the source for {progress.away_seconds:.0f} s"
    states = [table.state for table in progress.tables.values()]
    words = []
    if left := len(states) - states.count("done") - sum(map(states.count, _HALTED)):
        words.append(f"backfilling {left} of {len(states)} tables")
        if progress.held is not None:
            words.append(f"waiting: {progress.held}")
    for state in _HALTED:
        if count := states.count(state):
            words.append(f"{count} {state.replace('_', ' ')}")
    if count := sum(table.reread is not None and table.reread.put_off for table in progress.tables.values()):
        words.append(f"{count} to be read again on command")
    return ", ".join(words) or "following the log"


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
