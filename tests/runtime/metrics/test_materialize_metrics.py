"""What ``tidemark materialize`` serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.metrics.test_metrics import HOSTILE, OPEN_METRICS, ask, scraped
from tidemark.protocol.capture_file import MetricsEntry
from tidemark.protocol.errors import SparkError
from tidemark.runtime.metrics import names
from tidemark.runtime.metrics.materialize_metrics import MaterializeMetrics
from tidemark.runtime.metrics.server import MetricsServer
from tidemark.spark_sink.run.report import Applied, Cost, PlannedPart

KEPT: dict[tuple[str, str], dict[str, Any]] = {
    ("public.t", "current"): {"behind_seconds": 0.0, "behind_events": 0, "bytes": 4096, "set_aside": None},
    (HOSTILE, "history"): {
        "behind_seconds": 61.5,
        "behind_events": 7,
        "bytes": None,
        "set_aside": "TM-SPK-006: others wrote to it",
    },
}


@pytest.fixture
def metrics() -> MaterializeMetrics:
    found = MaterializeMetrics("shop", lambda: KEPT)
    for way, events in (("rewrite", 100), ("task", 5), ("task", 6)):
        part = PlannedPart("public.t", "current", way, 0, events, events, 1000, 1, "")
        found.planned([part])
        found.applied(Applied(part, Cost(seconds=1.5, cpu_seconds=2.0, bytes_read=300, bytes_written=40)))
    found.set_aside(HOSTILE, "history", SparkError("TM-SPK-006", "others wrote to it"))
    return found


@pytest.fixture
def port(metrics: MaterializeMetrics) -> Iterator[int]:
    with MetricsServer(MetricsEntry(listen="127.0.0.1:0"), metrics, lambda: ["it waits"]) as server:
        yield server.port


def test_every_metric_is_there_with_its_labels(port: int) -> None:
    text = ask(port, "/metrics", **OPEN_METRICS)[1]
    for metric in names.MATERIALIZE_METRICS:
        assert f"# HELP {metric.name} {metric.help}\n" in text
    found = scraped(port)
    t, hostile = ("current", "public.t"), ("history", HOSTILE)
    assert found["tidemark_materialize_info"]
    assert found["tidemark_spark_behind_seconds"] == {t: 0, hostile: 61.5}
    assert found["tidemark_spark_behind_events"] == {t: 0, hostile: 7}
    assert found["tidemark_spark_table_bytes"] == {t: 4096}
    assert found["tidemark_spark_set_aside"] == {t: 0, hostile: 1}
    assert found["tidemark_spark_events_total"] == {t: 111}
    assert found["tidemark_spark_folds_total"] == {(*t, "rewrite"): 1, (*t, "task"): 2}
    assert found["tidemark_spark_fold_seconds_total"] == {t: 4.5}
    assert found["tidemark_spark_fold_cpu_seconds_total"] == {t: 6}
    assert found["tidemark_spark_read_bytes_total"] == {t: 900}
    assert found["tidemark_spark_written_bytes_total"] == {t: 120}
    assert found["tidemark_spark_errors_total"] == {("TM-SPK-006",): 1}


def test_readiness_says_what_is_lacking(port: int) -> None:
    assert ask(port, "/readyz") == (503, "it waits\n")
    assert ask(port, "/healthz")[0] == 200
