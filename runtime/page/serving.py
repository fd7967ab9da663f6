"""Serves metrics and the page together, beside a command that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from pathlib import Path

from tidemark.protocol.capture_file import CaptureFile, MetricsEntry
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.store import Store
from tidemark.protocol.verification.files import Verified
from tidemark.runtime.metrics.asked_rarely import AskedRarely
from tidemark.runtime.metrics.capture_metrics import CaptureMetrics
from tidemark.runtime.metrics.materialize_metrics import MaterializeMetrics
from tidemark.runtime.metrics.server import MetricsServer, why_unready
from tidemark.runtime.page.document import CaptureDocument, MaterializeDocument
from tidemark.runtime.page.history import History, Reading
from tidemark.runtime.page.log_facts import LogFacts
from tidemark.runtime.page.recent_errors import RecentErrors
from tidemark.runtime.page.site import page_routes
from tidemark.runtime.progress.display import Display
from tidemark.runtime.progress.log_consumers import KeptAndRead, kept_and_read
from tidemark.runtime.progress.status_file import StatusFile
from tidemark.runtime.status.spark_tables import SparkTables
from tidemark.runtime.verification.results import results_of

Serving = AbstractContextManager[int]
"""Serves while it is entered, and gives the port."""


def serve_capture(
    entry: MetricsEntry, capture: str, file: Path, status: StatusFile, log: Store
) -> tuple[Display, Serving]:
    """What is to be told of the capture, in front of its status file; and what serves.

    Args:
        file: The capture file.
        log: What the change log is in.

    Raises:
        UsageError: As ``MetricsServer``.
    """
    opened = cache(partial(ChangeLog, log))  # At the first look that finds it: the capture may still have to make it.
    verified = AskedRarely[dict[str, Verified]](partial(results_of, log), {})
    kept = AskedRarely[KeptAndRead | None](lambda: kept_and_read(opened()), None)
    metrics = CaptureMetrics(capture, status, status.report, verified, kept)
    errors = RecentErrors(metrics)

    def read() -> Reading:
        rows, size = metrics.written()
        said = status.totals()
        away = said["away_seconds"] is not None  # The lag is that of before.
        return Reading(rows, size, None if away else said["lag_seconds"], said["retained_bytes"])

    history = History(read)
    document = CaptureDocument(capture, str(file), LogFacts(file), history, status.report, errors)
    server = MetricsServer(entry, metrics, lambda: why_unready(status.report()), page_routes(document))
    return errors, _together(history, server)


def serve_materialize(entry: MetricsEntry, file: CaptureFile, path: Path) -> tuple[MaterializeMetrics, Serving]:
    """What is to be told of the run, and what serves.

    Args:
        file: Has a ``spark`` entry.
        path: Of the file.

    Raises:
        UsageError: As ``MetricsServer``.
    """
    tables = SparkTables(file)
    metrics = MaterializeMetrics(file.capture, tables.by_kind)

    def read() -> Reading:
        return Reading(*metrics.written())

    history = History(read)
    facts = LogFacts(path, with_status=True)
    document = MaterializeDocument(file.capture, str(path), facts, history, metrics.written)
    server = MetricsServer(entry, metrics, tables.why_unready, page_routes(document))
    return metrics, _together(history, server)


@contextmanager
def _together(history: History, server: MetricsServer) -> Iterator[int]:
    with history, server:
        yield server.port
