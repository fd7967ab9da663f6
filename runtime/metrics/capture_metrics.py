"""The metrics of a running capture, made of what the status file knows, and of a few counts."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from importlib.metadata import version
from typing import Any

from prometheus_client.metrics_core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tidemark.protocol.changelog import Commit
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.verification.files import Verified
from tidemark.runtime.metrics import names
from tidemark.runtime.metrics.families import Samples, counter, gauge, info
from tidemark.runtime.progress.display import Display, Passing, severity
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.log_consumers import KeptAndRead


class CaptureMetrics(Passing, Collector):
    """A display that counts, and passes everything to another one. Prometheus' library asks it for all metrics.

    Args:
        capture: The name of the capture.
        display: The other display.
        report: What the capture's status file says now.
        verified: What the last verification of each table has found.
        kept: What the log keeps, and who reads it; None while that is unknown.
    """

    def __init__(
        self,
        capture: str,
        display: Display,
        report: Callable[[], dict[str, Any]],
        verified: Callable[[], dict[str, Verified]] = dict,
        kept: Callable[[], KeptAndRead | None] = lambda: None,
    ) -> None:
        super().__init__(display)
        self._verified = verified
        self._kept = kept
        self._capture = capture
        self._report = report
        self._lock = threading.Lock()
        self._events: Counter[tuple[str, ...]] = Counter()
        self._bytes: Counter[tuple[str, ...]] = Counter()
        self._errors: Counter[tuple[str, ...]] = Counter()
        self._retries = 0
        self._commits = 0
        self._committed_at: float | None = None
        self._buckets = [0] * (len(names.COMMIT_BUCKETS) + 1)
        self._commit_seconds = 0.0
        self._total_rows = self._total_bytes = 0

    def written(self) -> tuple[int, int]:
        """Rows and bytes of all segments that this process committed, also of tables that are gone."""
        with self._lock:
            return self._total_rows, self._total_bytes

    def log(self, line: LogLine) -> None:
        if line.code and severity(line.level) >= severity("warning"):
            with self._lock:
                self._errors[line.code,] += 1
        super().log(line)

    def notice(self, level: str, message: str, **fields: Any) -> None:
        with self._lock:
            if code := fields.get("code"):
                self._errors[str(code),] += 1
            self._retries += "retry_seconds" in fields
        super().notice(level, message, **fields)

    def expect(self, tables: Iterable[str]) -> None:
        known = list(tables)
        with self._lock:
            for counts in (self._events, self._bytes):
                for labels in [labels for labels in counts if labels[0] not in known]:
                    del counts[labels]
        super().expect(known)

    def committed(self, commit: Commit, seconds: float) -> None:
        with self._lock:
            for segment in commit.segments:
                table = segment.collection.replace("/", ".")
                self._events[table, "snapshot"] += segment.snapshot_rows
                self._events[table, "log"] += segment.rows - segment.snapshot_rows
                self._bytes[table,] += segment.size
                self._total_rows += segment.rows
                self._total_bytes += segment.size
            self._commits += 1
            self._committed_at = time.time()
            self._commit_seconds += seconds
            self._buckets[bisect_left(names.COMMIT_BUCKETS, seconds)] += 1
        super().committed(commit, seconds)

    def collect(self) -> Iterator[Family]:
        """All metrics as of now, as Prometheus' library takes them."""
        yield info(names.CAPTURE, capture=self._capture, version=version("tidemark"))
        yield from _of_report(self._report())
        yield from _of_verified(self._verified())
        yield from _of_log(self._kept())
        with self._lock:
            counted = [(names.EVENTS, dict(self._events)), (names.BYTES, dict(self._bytes))]
            errors, retries, commits = dict(self._errors), self._retries, self._commits
            buckets, total, last = list(self._buckets), self._commit_seconds, self._committed_at
        for metric, counts in counted:
            yield counter(metric, counts.items())
        yield counter(names.ERRORS, errors.items())
        yield counter(names.RETRIES, [((), retries)])
        yield counter(names.COMMITS, [((), commits)])
        yield gauge(names.LAST_COMMIT, _one(last))
        histogram = HistogramMetricFamily(names.COMMIT_SECONDS.name, names.COMMIT_SECONDS.help, labels=())
        below = 0
        bounds = []
        for bound, count in zip((*map(str, names.COMMIT_BUCKETS), "+Inf"), buckets, strict=True):
            below += count
            bounds.append((bound, float(below)))
        histogram.add_metric((), bounds, total)
        yield histogram


def _of_report(report: dict[str, Any]) -> Iterator[Family]:
    yield gauge(names.LAG, _one(report["lag_seconds"]))
    yield gauge(names.CAUGHT_UP, _one(report["caught_up"]))
    state = liveness(report).state
    silent = state not in ("running", "waiting for the source")
    yield gauge(names.SOURCE_AWAY, _one(None if silent else report["away_seconds"] or 0))
    yield gauge(names.SILENT, _one(silent))
    yield gauge(names.RETAINED, _one(report["retained_bytes"]))
    yield gauge(names.RETAINED_LIMIT, _one(report["retained_limit"]))
    yield gauge(names.RETAINED_LEFT, _one(report["retained_seconds_left"]))
    tables: dict[str, dict[str, Any]] = report["tables"]
    read = {name: table for name, table in tables.items() if "rows_done" in table}
    yield gauge(names.BACKFILL_ROWS, _each(read, "rows_done"))
    yield gauge(names.BACKFILL_ESTIMATE, _each(read, "rows_estimated"))
    yield gauge(names.BACKFILL_DONE, _each(read, "done"))
    yield gauge(names.BACKFILL_LEFT, _each(read, "seconds_left"))
    yield gauge(names.TABLE_STATE, [((name, table["state"]), 1.0) for name, table in read.items()])
    yield gauge(
        names.BAD_VALUES,
        [((name, policy), count) for name, table in read.items() for policy, count in table["bad_values"].items()],
    )
    error, edit = report["error"], report["edit"]
    codes = {error["code"]} if error is not None and error["passed"] is None else set()
    yield gauge(names.UNRESOLVED, [((code,), 1.0) for code in codes | ({edit["code"]} if edit else set())])


def _of_verified(found: dict[str, Verified]) -> Iterator[Family]:
    yield gauge(names.VERIFIED, [((name,), one.time.timestamp()) for name, one in found.items()])
    different = [((name, "log"), float(0 if one.repaired else one.different)) for name, one in found.items()]
    different += [
        ((name, "spark"), float(0 if one.repaired else one.different_in_spark))
        for name, one in found.items()
        if one.different_in_spark is not None
    ]
    yield gauge(names.VERIFIED_DIFFERENT, different)


def _of_log(kept: KeptAndRead | None) -> Iterator[Family]:
    now = time.time()
    yield gauge(names.LOG_START, _one(None if kept is None else kept.first_offset))
    consumers = [] if kept is None else kept.consumers
    yield gauge(names.CONSUMER_BEHIND, [((one.name,), float(one.behind)) for one in consumers])
    waits = [((one.name,), 0.0 if one.since is None else _age(one.since, now)) for one in consumers]
    yield gauge(names.CONSUMER_BEHIND_SECONDS, waits)
    yield gauge(names.CONSUMER_UNSEEN, [((one.name,), _age(one.seen, now)) for one in consumers])


def _age(moment: datetime, now: float) -> float:
    return max(0.0, now - moment.timestamp())


def _one(value: float | None) -> Samples:
    return [] if value is None else [((), float(value))]


def _each(tables: dict[str, dict[str, Any]], figure: str) -> Samples:
    return [((name,), float(table[figure])) for name, table in tables.items() if table[figure] is not None]
