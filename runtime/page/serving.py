"""Serves metrics and the page together, beside a command that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs

import orjson

from tidemark.protocol.capture_file import CaptureFile, MetricsEntry
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.store import Store
from tidemark.protocol.verification.files import Verified
from tidemark.runtime.metrics.asked_rarely import AskedRarely
from tidemark.runtime.metrics.capture_metrics import CaptureMetrics
from tidemark.runtime.metrics.materialize_metrics import MaterializeMetrics
from tidemark.runtime.metrics.server import Answer, Asked, MetricsServer, Route, Routes, why_unready
from tidemark.runtime.page.document import CaptureDocument, Document, MaterializeDocument, View
from tidemark.runtime.page.history import History, Reading
from tidemark.runtime.page.log_facts import LogFacts
from tidemark.runtime.page.recent_errors import RecentErrors
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
        return Reading(rows, size, said["lag_seconds"], said["retained_bytes"])

    history = History(read)
    document = CaptureDocument(capture, str(file), LogFacts(file), history, status.report, errors)
    server = MetricsServer(entry, metrics, lambda: why_unready(status.report()), _page_routes(document))
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
    server = MetricsServer(entry, metrics, tables.why_unready, _page_routes(document))
    return metrics, _together(history, server)


@contextmanager
def _together(history: History, server: MetricsServer) -> Iterator[int]:
    with history, server:
        yield server.port


_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}

_FILES = (
    "index.html",
    *("page.css", "charts.css", "lists.css"),
    *("page.js", "charts.js", "lists.js"),
)


def _page_routes(document: Document) -> Routes:
    """What a server serves to show a page about this."""

    def shown(asked: Asked) -> Answer:
        return Answer(orjson.dumps(document.as_json(view_of(asked.query))), "application/json")

    return {**{f"/{'' if name == 'index.html' else name}": _file(name) for name in _FILES}, "/page.json": shown}


def view_of(query: str) -> View:
    """What the query of a URL asks for; what makes no sense in it is as if it was not there."""
    asked = parse_qs(query)
    wanted, after = asked.get("wanted", [""])[-1], asked.get("after", ["0"])[-1]
    return View(wanted.strip(), int(after) if after.isascii() and after.isdigit() and len(after) < 16 else 0)


def _file(name: str) -> Route:
    content = files("tidemark.runtime.page").joinpath(name).read_bytes()
    answer = Answer(content, f"{_KINDS[name.rpartition('.')[2]]}; charset=utf-8")
    return lambda _: answer
