"""The alert rules and the board, as Prometheus' own promtool reads them, and what it says of the metrics themselves."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from tests.runtime.scripted_sessions import Recorder
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.metrics.capture_metrics import CaptureMetrics
from tidemark.runtime.metrics.names import MATERIALIZE_METRICS, METRICS
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import StatusFile
from tidemark.testing.missing import lacks

BOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "tidemark.json"
RULES = Path(__file__).parents[3] / "deploy" / "alerts" / "tidemark.rules.yaml"


def promtool(*arguments: str, said: bytes = b"", folder: Path | None = None) -> None:
    if shutil.which("promtool") is None:
        pytest.skip(lacks("there is no promtool", "apt-get install prometheus"))
    done = subprocess.run(["promtool", *arguments], input=said, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def test_the_rules_are_right() -> None:
    promtool("check", "rules", str(RULES))


def test_the_alerts_fire(tmp_path: Path) -> None:
    for file in (RULES, Path(__file__).with_name("alerts.test.yaml")):
        shutil.copy(file, tmp_path)
    promtool("test", "rules", "alerts.test.yaml", folder=tmp_path)


def test_the_metrics_keep_prometheus_own_rules(tmp_path: Path) -> None:
    status = StatusFile(StateFolder([tmp_path]), DirectoryStore(tmp_path), Recorder())
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CaptureMetrics("shop", status, status.report))
    promtool("check", "metrics", said=generate_latest(registry))


SAMPLES = {metric.sample for metric in (*METRICS, *MATERIALIZE_METRICS)}


def asked(text: str) -> set[str]:
    return {name.removesuffix("_bucket") for name in re.findall(r"\btidemark_\w+", text)}


def test_the_rules_ask_for_metrics_that_there_are() -> None:
    assert asked(RULES.read_text()) <= SAMPLES


def queries() -> list[str]:
    panels = json.loads(BOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_the_board_asks_for_metrics_that_there_are() -> None:
    assert asked(" ".join(queries())) <= SAMPLES
    assert len({json.dumps(panel["gridPos"]) for panel in json.loads(BOARD.read_text())["panels"]}) == 14


def test_the_queries_of_the_board_are_right(tmp_path: Path) -> None:
    filled = [query.replace("$job", ".*").replace("$__rate_interval", "1m") for query in queries()]
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(filled)]
    (tmp_path / "board.yaml").write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    promtool("check", "rules", str(tmp_path / "board.yaml"))
