"""What a monitor scrapes of a capture, parsed as Prometheus' own library does."""

from __future__ import annotations

import http.client
import json
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.runtime.capture_folder import OPENED, CaptureFolder, error_line
from tests.runtime.scripted_sessions import Recorder
from tidemark.protocol.capture_file import MetricsEntry
from tidemark.protocol.changelog import Commit, Segment
from tidemark.protocol.errors import UsageError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.metrics import names
from tidemark.runtime.metrics.capture_metrics import CaptureMetrics
from tidemark.runtime.metrics.server import MetricsServer, why_unready
from tidemark.runtime.progress.log_consumers import ConsumerLag, KeptAndRead
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import StatusFile
from tidemark.testing.deadline import wait_until

HOSTILE = 'public."a"\n{x="1"}\\'

OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}

STATUS: dict[str, Any] = {
    "lag_seconds": 1.5,
    "caught_up": False,
    "retained_bytes": 1000,
    "retained_limit": 5000,
    "retained_seconds_left": 40.0,
    "tables": {
        "public.t": {"rows_done": 7, "rows_estimated": 10, "state": "scanning", "bad_values": {"null": 2}},
        HOSTILE: {"rows_done": 3, "done": True, "state": "done"},
    },
}


def status_line(**fields: Any) -> LogLine:
    return LogLine(level="info", message="", event_type="connectorStatus", fields={**STATUS, **fields})


def commit(number: int, table: str, rows: int, snapshot: int) -> Commit:
    segment = Segment(
        collection=table.replace(".", "/", 1),
        path=f"data/{number}",
        rows=rows,
        size=100,
        uncompressed=200,
        first_offset=0,
        last_offset=rows - 1,
        fingerprint="f",
        snapshot_rows=snapshot,
    )
    return Commit(number=number, epoch=1, time=datetime.now(UTC), first_offset=0, next_offset=rows, segments=[segment])


@pytest.fixture
def status(tmp_path: Any) -> StatusFile:
    return StatusFile(StateFolder([tmp_path]), DirectoryStore(tmp_path), Recorder())


@pytest.fixture
def metrics(status: StatusFile) -> CaptureMetrics:
    return CaptureMetrics("shop", status, status.report)


@contextmanager
def serving(metrics: CaptureMetrics, status: StatusFile, **entry: Any) -> Iterator[MetricsServer]:
    with MetricsServer(
        MetricsEntry(**{"listen": "127.0.0.1:0", **entry}), metrics, lambda: why_unready(status.report())
    ) as server:
        yield server


def ask(port: int, path: str, method: str = "GET", host: str = "127.0.0.1", **headers: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(host, port, timeout=60)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def scraped(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples by name and by the values of their labels, which come in the order of the labels' names."""
    code, text = ask(port, "/metrics", **OPEN_METRICS)
    assert code == 200
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_every_metric_is_there_with_its_labels(metrics: CaptureMetrics, status: StatusFile) -> None:
    metrics.notice("warning", "it failed; opening it again in 1 s", code="TM-PG-001", retry_seconds=1.0)
    metrics.log(status_line())
    metrics.committed(commit(1, "public.t", 5, 2), 0.02)
    metrics.committed(commit(2, "public.t", 3, 0), 20.0)
    with serving(metrics, status) as server:
        found = scraped(server.port)
        text = ask(server.port, "/metrics", **OPEN_METRICS)[1]
        plain = ask(server.port, "/metrics")[1]
    for metric in names.METRICS:
        assert f"# HELP {metric.name} {metric.help}\n" in text
        assert f"{metric.sample} " in plain or f"{metric.sample}{{" in plain or metric.kind == "histogram"
    assert found["tidemark_lag_seconds"] == {(): 1.5}
    assert found["tidemark_retained_limit_left_seconds"] == {(): 40.0}
    assert found["tidemark_events_total"] == {("snapshot", "public.t"): 2, ("log", "public.t"): 6}
    assert found["tidemark_segment_bytes_total"] == {("public.t",): 200}
    assert found["tidemark_commits_total"] == {(): 2}
    assert found["tidemark_commit_seconds_count"] == {(): 2}
    assert found["tidemark_commit_seconds_sum"] == {(): 20.02}
    assert found["tidemark_commit_seconds_bucket"]["0.025",] == 1
    assert found["tidemark_commit_seconds_bucket"]["30.0",] == 2
    assert found["tidemark_backfill_rows"] == {("public.t",): 7, (HOSTILE,): 3}
    assert found["tidemark_backfill_estimated_rows"] == {("public.t",): 10}
    assert found["tidemark_table_state"] == {("scanning", "public.t"): 1, ("done", HOSTILE): 1}
    assert found["tidemark_bad_values"] == {("null", "public.t"): 2}
    assert found["tidemark_errors_total"] == {("TM-PG-001",): 1}
    assert found["tidemark_connector_retries_total"] == {(): 1}


def test_where_the_log_begins_and_who_reads_it(status: StatusFile) -> None:
    ago = datetime.now(UTC) - timedelta(minutes=2)
    behind, equal = ConsumerLag("nightly", 12, ago, 18, ago, 0), ConsumerLag(HOSTILE, 30, ago, 0, None, 0)
    metrics = CaptureMetrics("shop", status, status.report, kept=lambda: KeptAndRead(10, [behind, equal]))
    with serving(metrics, status) as server:
        found = scraped(server.port)
    assert found["tidemark_log_first_offset"] == {(): 10}
    assert found["tidemark_consumer_behind_events"] == {("nightly",): 18, (HOSTILE,): 0}
    waits, unseen = found["tidemark_consumer_behind_seconds"], found["tidemark_consumer_unseen_seconds"]
    assert 120 <= waits["nightly",] < 180 and waits[HOSTILE,] == 0
    assert all(120 <= seconds < 180 for seconds in unseen.values()) and len(unseen) == 2


def test_what_is_unknown_and_what_is_gone_has_no_sample(metrics: CaptureMetrics, status: StatusFile) -> None:
    metrics.log(status_line(lag_seconds=None, retained_bytes=None))
    metrics.committed(commit(1, "public.t", 5, 2), 0.02)
    metrics.committed(commit(2, "public.u", 5, 2), 0.02)
    metrics.expect(["public.u"])
    with serving(metrics, status) as server:
        found = scraped(server.port)
    assert "tidemark_lag_seconds" not in found and "tidemark_retained_bytes" not in found
    assert {table for _, table in found["tidemark_events_total"]} == {"public.u"}
    assert "tidemark_backfill_rows" not in found


def test_figures_of_before_are_not_told_of_now(metrics: CaptureMetrics, status: StatusFile) -> None:
    of_source = {"lag_seconds", "retained_bytes", "retained_limit_bytes", "retained_limit_left_seconds"}
    metrics.log(status_line())
    with serving(metrics, status) as server:
        assert {f"tidemark_{name}" for name in of_source} <= scraped(server.port).keys()
        metrics.log(status_line(away_seconds=3.0))
        away = scraped(server.port)
        assert (away["tidemark_source_away_seconds"], away["tidemark_connector_silent"]) == ({(): 3}, {(): 0})
        metrics.log(status_line())
        metrics.notice("warning", "it failed; opening it again in 1 s", code="TM-PG-001", retry_seconds=1.0)
        failed = scraped(server.port)
        assert failed["tidemark_connector_silent"] == {(): 1} and "tidemark_source_away_seconds" not in failed
        for found in (away, failed):
            assert not {f"tidemark_{name}" for name in of_source} & found.keys()
        assert ask(server.port, "/readyz") == (503, "connector failed\n")


def test_readiness_says_what_is_lacking(metrics: CaptureMetrics, status: StatusFile) -> None:
    with serving(metrics, status) as server:
        assert ask(server.port, "/readyz") == (503, "the connector has not said anything yet\n")
        metrics.log(status_line())
        assert ask(server.port, "/readyz") == (200, "ready\n")
        metrics.log(status_line(away_seconds=3.0))
        assert ask(server.port, "/readyz") == (503, "waiting for the source\n")
        metrics.log(status_line())
        metrics.notice("error", "cannot write the log", code="TM-LOG-008")
        assert ask(server.port, "/readyz") == (503, "TM-LOG-008: cannot write the log\n")
        assert ask(server.port, "/healthz") == (200, "alive\n")


def test_only_what_is_asked_rightly_is_answered(metrics: CaptureMetrics, status: StatusFile) -> None:
    metrics.log(status_line())
    with serving(metrics, status, hosts=["Metrics.example"]) as server:
        assert ask(server.port, "/metrics", "HEAD") == (200, "")
        assert ask(server.port, "/")[0] == ask(server.port, "/metrics/x")[0] == 404
        assert ask(server.port, "/metrics", "POST")[0] == 501
        for host, code in {
            "127.0.0.1:9": 200,
            "[::1]:9": 200,
            "LOCALHOST": 200,
            "metrics.example:9464": 200,
            "evil.example": 403,
            "127.0.0.1.evil.example": 403,
            "": 403,
        }.items():
            assert ask(server.port, "/metrics", Host=host)[0] == code, host


def test_a_client_that_says_nothing_keeps_nobody(metrics: CaptureMetrics, status: StatusFile) -> None:
    metrics.log(status_line())
    with serving(metrics, status) as server, socket.create_connection(("127.0.0.1", server.port)):
        assert ask(server.port, "/healthz")[0] == 200


def test_all_addresses_of_the_machine(metrics: CaptureMetrics, status: StatusFile) -> None:
    with serving(metrics, status, listen=":0") as server:
        for host in ("127.0.0.1", *(["::1"] if socket.has_dualstack_ipv6() else [])):
            assert ask(server.port, "/healthz", host=host)[0] == 200


def test_an_address_that_is_taken(metrics: CaptureMetrics, status: StatusFile) -> None:
    with serving(metrics, status) as server:
        entry = MetricsEntry(listen=f"127.0.0.1:{server.port}")
        with pytest.raises(UsageError, match=f"TM-CFG-010: cannot listen at 127.0.0.1:{server.port}: Address already"):
            MetricsServer(entry, metrics, list)
    with pytest.raises(UsageError, match=r"TM-CFG-010: cannot listen at a\.\.b:1: "):
        MetricsServer(MetricsEntry(listen="a..b:1"), metrics, list)


@pytest.mark.parametrize(
    ("listen", "address"),
    [(":9464", ("", 9464)), ("[::1]:1", ("::1", 1)), ("0.0.0.0:65535", ("0.0.0.0", 65535)), ("a.b:80", ("a.b", 80))],
)
def test_addresses(listen: str, address: tuple[str, int]) -> None:
    assert MetricsEntry(listen=listen).address == address


@pytest.mark.parametrize("listen", ["9464", "host", "host:", "::1:9464", "host:65536", "http://host:1", "[::1]"])
def test_what_is_no_address(listen: str) -> None:
    with pytest.raises(ValueError, match="an address is HOST:PORT"):
        MetricsEntry(listen=listen)


def test_a_running_capture_is_scraped(folder: CaptureFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    well = {"stderr": json.dumps({"level": "info", "message": "", "eventType": "connectorStatus", "fields": STATUS})}
    rows = {"rows": {"first": 1, "count": 3}}
    failing = [OPENED, error_line("not now", code="TM-PG-001", policy="retry"), {"exit": 1}]
    folder.script(failing, [OPENED, rows, {"checkpoint": {"cursor": 3}}, {"await": 1}, well, {"sleep": 60}])
    folder.write_file(metrics={"listen": f"127.0.0.1:{port}"})

    def found() -> dict[str, dict[tuple[str, ...], float]]:
        try:
            return scraped(port)
        except OSError:
            return {}

    with folder.start("capture", "capture.yaml") as capture:
        wait_until(lambda: found().get("tidemark_lag_seconds") == {(): 1.5}, 60, "the lag is known")
        wait_until(lambda: ask(port, "/readyz")[0] == 200, 60, "it is ready")
        samples = found()
        capture.send_signal(signal.SIGTERM)
    assert samples["tidemark_capture_info"].keys() == {("shop", version("tidemark"))}
    assert samples["tidemark_events_total"]["log", "public.t"] == 3
    assert samples["tidemark_connector_retries_total"] == {(): 1}
    assert samples["tidemark_errors_total"] == {("TM-PG-001",): 1}
    assert "tidemark_unresolved_error" not in samples
    assert samples["tidemark_log_first_offset"] == {(): 0}
    assert samples["tidemark_commit_seconds_count"][()] >= 1


def test_a_capture_whose_address_is_taken_says_so(folder: CaptureFolder) -> None:
    folder.script([OPENED])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        folder.write_file(metrics={"listen": f"127.0.0.1:{taken.getsockname()[1]}"})
        done = folder.run("capture", "capture.yaml")
    assert done.returncode == 2 and "TM-CFG-010" in done.stderr
    assert not folder.requests("open")
