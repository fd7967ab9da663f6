"""A capture as its page shows it, in this process: what it says is given to it, and its log is a real one."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.runtime.capture_folder import CaptureFolder
from tests.runtime.scripted_sessions import Recorder
from tests.spark_sink.log_builder import LogBuilder, create
from tidemark.protocol.capture_file import MetricsEntry
from tidemark.protocol.errors import SparkError
from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.page.serving import serve_capture
from tidemark.runtime.progress.display import Display
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import StatusFile
from tidemark.spark_sink.pipeline.memory import Memory, SetAside, TableMemory, memory_place
from tidemark.spark_sink.tables.store_place import StorePlace

HOSTILE = 'public.<img src=x onerror="document.title=1">\u202e\x1b[31m"\'&amp;'
"""The name of a table."""

HOSTILE_SHOWN = 'public.<img src=x onerror="document.title=1">\\u202e\\x1b[31m"\'&amp;'
"""The same, as text that can be seen."""

TABLES: dict[str, Any] = {
    "public.customers": {"rows_done": 5000, "rows_estimated": 5000, "done": True, "state": "done"},
    "public.events": {
        "rows_done": 250,
        "rows_estimated": 1000,
        "state": "scanning",
        "rows_per_second": 125.0,
        "seconds_left": 6.0,
    },
    "public.orders": {
        "rows_done": 3,
        "state": "set_aside",
        "error": "TM-PG-024: public.orders is not there",
        "remedy": "Create the table again, or take it out of the capture file.",
    },
    "public.visits": {"rows_done": 0, "rows_estimated": 70, "state": "waiting"},
    HOSTILE: {"rows_done": 3, "done": True, "state": "done"},
}

STATUS: dict[str, Any] = {
    "lag_seconds": 1.5,
    "retained_bytes": 4_000_000_000,
    "retained_limit": 10_000_000_000,
    "retained_seconds_left": 7200.0,
    "retained_by": "for slot shop (reserved, active)",
    "seconds_left": 6.0,
    "silence_seconds": 600.0,  # Nothing is said while a test looks at the page.
    "tables": TABLES,
}


def status_line(tables: Mapping[str, Any] | None = None, **fields: Any) -> LogLine:
    """What the connector says, with other figures or tables instead."""
    whole = {**STATUS, **fields, "tables": {**TABLES, **(tables or {})}}
    return LogLine(level="info", message="", event_type="connectorStatus", fields=whole)


@dataclass
class ShownCapture:
    """A capture that is shown.

    Attributes:
        port: Where its page is.
        display: What is told of it.
        folder: Where it is.
    """

    port: int
    display: Display
    folder: CaptureFolder

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def asked(self, **query: Any) -> dict[str, Any]:
        """What the page is told."""
        status, _, body = ask(self.port, f"/page.json?{urlencode(query)}")
        assert status == 200
        found: dict[str, Any] = json.loads(body)
        return found


def keep_tables(folder: CaptureFolder) -> None:
    """Has Spark keep two tables of the log, one of which is set aside."""
    lake = folder.path / "lake"
    folder.write_file(spark={"warehouse": str(lake)})
    error = SparkError("TM-SPK-006", "others wrote to it", remedy="Rebuild the table.")
    tables = {
        "public/items current": TableMemory(complete_to=1),
        "public/items history": TableMemory(complete_to=2, set_aside=SetAside.of(error)),
    }
    Memory(tables=tables).save(memory_place(StorePlace.of(lake), folder.log.header.log_id))


def ask(port: int, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """The status, headers and body of an answer."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


def captured(path: Path) -> CaptureFolder:
    """A folder with a capture file, and a log with two events."""
    folder = CaptureFolder(path)
    if not folder.log_path.exists():
        LogBuilder(folder.log_path).commit(create(1, name="ann"), create(2, name="bob"))
    return folder


@contextmanager
def shown(path: Path, port: int = 0) -> Iterator[ShownCapture]:
    """A capture in a folder, of which its connector has said ``STATUS``."""
    folder = captured(path)
    status = StatusFile(StateFolder([path / "state"]), folder.log_store, Recorder())
    entry = MetricsEntry(listen=f"127.0.0.1:{port}")
    display, server = serve_capture(entry, "shop", folder.file, status, folder.log_store)
    with server as served:
        display.log(status_line())
        yield ShownCapture(served, display, folder)
