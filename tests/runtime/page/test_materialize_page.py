"""What the page of ``tidemark materialize`` is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.page.shown_capture import ask, captured, keep_tables
from tidemark.protocol.capture_file import MetricsEntry, read_capture_file
from tidemark.runtime.metrics.materialize_metrics import MaterializeMetrics
from tidemark.runtime.page import document
from tidemark.runtime.page.serving import serve_materialize
from tidemark.spark_sink.run.report import Applied, Cost, PlannedPart


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MaterializeMetrics, int]]:
    monkeypatch.setattr(document, "FRESH_SECONDS", 0.0)
    folder = captured(tmp_path)
    keep_tables(folder)
    entry = MetricsEntry(listen="127.0.0.1:0")
    metrics, serving = serve_materialize(entry, read_capture_file(folder.file), folder.file)
    with serving as port:
        yield metrics, port


def told(port: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ask(port, "/page.json")[2])
    return found


def test_its_tables_and_how_fresh_they_are(served: tuple[MaterializeMetrics, int]) -> None:
    said = told(served[1])
    assert (said["kind"], said["capture"], said["state"]["name"]) == ("materialize", "shop", "running")
    aside, behind = said["spark"]
    assert (aside["name"], aside["kind"], aside["state"]) == ("public.items", "history", "set aside")
    assert (aside["why"], aside["remedy"]) == ("TM-SPK-006: others wrote to it", "Rebuild the table.")
    assert (behind["kind"], behind["events"]) == ("current", "1")
    assert behind["state"].endswith(" behind the log")
    assert said["needs"]["shown"] == [
        {
            "text": "public.items history is set aside by materialize",
            "why": "TM-SPK-006: others wrote to it",
            "remedy": "Rebuild the table.",
        }
    ]


def test_what_it_applied_and_what_the_capture_said(served: tuple[MaterializeMetrics, int]) -> None:
    metrics, port = served
    part = PlannedPart("public.items", "current", "task", 0, 5, 5, 1000, 1, "")
    metrics.applied(Applied(part, Cost(bytes_written=4000)))
    said = told(port)
    notes = {figure["name"]: figure["notes"] for figure in said["figures"]}
    assert notes == {
        "behind": ["of 2 tables"],
        "rows": ["5 since it started"],
        "bytes": ["4.0 kB since it started"],
    }
    assert [chart["name"] for chart in said["history"]["charts"]] == ["rows", "bytes"]
    assert said["notes"] == ["the capture: NOT RUNNING: no capture has run here yet"]
    assert (said["tables"], said["backfills"], said["errors"]) == (None, None, [])
