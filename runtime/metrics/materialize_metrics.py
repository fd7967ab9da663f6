"""The metrics of ``tidemark materialize``: what it applied, and how far each table is behind the log."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from tidemark.protocol.errors import TidemarkError
from tidemark.runtime.metrics import names
from tidemark.runtime.metrics.families import counter, gauge, info

if TYPE_CHECKING:
    from tidemark.spark_sink.run.report import Applied, PlannedPart

_COUNTED = (
    names.APPLIED_EVENTS,
    names.APPLIED_PARTS,
    names.APPLY_SECONDS,
    names.APPLY_CPU_SECONDS,
    names.APPLY_READ,
    names.APPLY_WRITTEN,
)


class MaterializeMetrics(Collector):
    """Is told the progress of a run, and asked by Prometheus' library for all metrics.

    Args:
        capture: The name of the capture.
        tables: By table and kind: ``behind_seconds``, ``behind_events``, ``bytes`` (None if unknown) and ``set_aside``,
            as of now.
    """

    def __init__(self, capture: str, tables: Callable[[], Mapping[tuple[str, str], Mapping[str, Any]]]) -> None:
        self._capture = capture
        self._tables = tables
        self._lock = threading.Lock()
        self._counts: dict[str, Counter[tuple[str, ...]]] = {metric.name: Counter() for metric in _COUNTED}
        self._errors: Counter[tuple[str, ...]] = Counter()

    def written(self) -> tuple[int, int]:
        """Events that this process applied to all tables together, and bytes of files that this wrote."""
        with self._lock:
            return (
                self._counts[names.APPLIED_EVENTS.name].total(),
                self._counts[names.APPLY_WRITTEN.name].total(),
            )

    def planned(self, parts: Sequence[PlannedPart]) -> None:
        """A batch was planned: what comes of it is applied."""

    def applied(self, applied: Applied) -> None:
        """A part was applied and committed."""
        part, cost = applied.part, applied.cost
        table = part.table, part.kind
        with self._lock:
            self._counts[names.APPLIED_EVENTS.name][table] += part.events
            self._counts[names.APPLIED_PARTS.name][*table, part.way] += 1
            for metric, value in (
                (names.APPLY_SECONDS, cost.seconds),
                (names.APPLY_CPU_SECONDS, cost.cpu_seconds),
                (names.APPLY_READ, cost.bytes_read),
                (names.APPLY_WRITTEN, cost.bytes_written),
            ):
                self._counts[metric.name][table] += value  # type: ignore[assignment]

    def set_aside(self, table: str, kind: str, error: TidemarkError) -> None:
        """A table was set aside."""
        with self._lock:
            self._errors[error.code,] += 1

    def collect(self) -> Iterator[Family]:
        """All metrics as of now, as Prometheus' library takes them."""
        yield info(names.MATERIALIZE, capture=self._capture, version=version("tidemark"))
        tables = self._tables()
        yield gauge(names.BEHIND, [(table, one["behind_seconds"]) for table, one in tables.items()])
        yield gauge(names.BEHIND_EVENTS, [(table, one["behind_events"]) for table, one in tables.items()])
        sizes = [(table, float(one["bytes"])) for table, one in tables.items() if one["bytes"] is not None]
        yield gauge(names.TABLE_BYTES, sizes)
        yield gauge(names.SET_ASIDE, [(table, float(bool(one["set_aside"]))) for table, one in tables.items()])
        with self._lock:
            counts = [(metric, dict(self._counts[metric.name])) for metric in _COUNTED]
            errors = dict(self._errors)
        for metric, found in counts:
            yield counter(metric, found.items())
        yield counter(names.SPARK_ERRORS, errors.items())
