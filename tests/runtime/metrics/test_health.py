"""What the health check of the runtime image asks, and what it makes of the answer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.registry import Collector

from tidemark.protocol.capture_file import MetricsEntry
from tidemark.runtime.metrics import health
from tidemark.runtime.metrics.health import unhealthy
from tidemark.runtime.metrics.server import MetricsServer


class NoMetrics(Collector):
    def collect(self) -> list[Any]:
        return []


@pytest.fixture
def port() -> Iterator[int]:
    """Where a command lives that is not ready: its source is away."""
    with MetricsServer(MetricsEntry(listen="127.0.0.1:0"), NoMetrics(), lambda: ["the source is away"]) as server:
        yield server.port


@pytest.fixture
def silent() -> Iterator[int]:
    """Where connections are made and nobody answers, as of a process that hangs."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def written(folder: Path, name: str, entries: dict[str, Any]) -> str:
    path = folder / name
    path.write_text(yaml.safe_dump(entries))
    return str(path)


def first_process(*words: str) -> list[str]:
    return ["/usr/bin/tini", "--", "tidemark", *words]


def test_a_command_that_lives_is_healthy_though_its_source_is_away(port: int, tmp_path: Path) -> None:
    file = written(tmp_path, "shop.yaml", {"metrics": {"listen": f":{port}"}})
    assert unhealthy(first_process("capture", file, "--json")) == []


def test_each_command_is_asked_at_its_own_place(port: int, closed: int, tmp_path: Path) -> None:
    entries = {"metrics": {"listen": f":{closed}"}, "spark": {"metrics": {"listen": f"127.0.0.1:{port}"}}}
    file = written(tmp_path, "shop.yaml", entries)
    assert unhealthy(first_process("materialize", "--master", "local[2]", file)) == []
    assert unhealthy(first_process("capture", file)) == [f"shop.yaml: 127.0.0.1:{closed}: Connection refused"]


def test_a_command_that_hangs_is_unhealthy(silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.1)
    file = written(tmp_path, "shop.yaml", {"metrics": {"listen": f"0.0.0.0:{silent}"}})
    assert unhealthy(first_process("capture", file)) == [f"shop.yaml: 127.0.0.1:{silent}: timed out"]


def test_an_answer_of_somebody_else_is_not_health(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # It has no GET.
        threading.Thread(target=server.handle_request, daemon=True).start()
        file = written(tmp_path, "shop.yaml", {"metrics": {"listen": f":{server.server_port}"}})
        at = f"127.0.0.1:{server.server_port}"
        assert unhealthy(first_process("capture", file)) == [f"shop.yaml: {at}: status 501"]


@pytest.mark.parametrize("content", ["", "capture: shop", "metrics:", "metrics: {", "[1]", "metrics: {listen: null}"])
def test_without_metrics_nothing_is_asked(content: str, tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(content)
    assert unhealthy(first_process("capture", str(tmp_path / "shop.yaml"))) == []


@pytest.mark.parametrize("words", [["status", "shop.yaml"], ["capture"], ["capture", "/none.yaml"], []])
def test_what_serves_nothing_is_not_asked(words: list[str]) -> None:
    assert unhealthy(first_process(*words)) == []


def test_a_capture_of_a_folder_may_have_ended_and_may_not_hang(
    port: int, silent: int, closed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PATIENCE_SECONDS", 0.1)
    for name, listens in (("a.yaml", port), ("b.yml", closed), (".hidden.yaml", silent), ("notes.txt", silent)):
        written(tmp_path, name, {"metrics": {"listen": f":{listens}"}})
    assert unhealthy(first_process("capture", str(tmp_path))) == []
    written(tmp_path, "c.yaml", {"metrics": {"listen": f":{silent}"}})
    assert unhealthy(first_process("capture", str(tmp_path))) == [f"c.yaml: 127.0.0.1:{silent}: timed out"]


def test_the_exit_status_is_what_an_engine_asks_for(closed: int, port: int, tmp_path: Path) -> None:
    asked = "import sys; from pathlib import Path; from tidemark.runtime.metrics import health; \
health.FIRST_PROCESS = Path(sys.argv[1]); health.main()"
    for listens, status, said in ((port, 0, "alive\n"), (closed, 1, f"127.0.0.1:{closed}")):
        file = written(tmp_path, "shop.yaml", {"metrics": {"listen": f":{listens}"}})
        (tmp_path / "cmdline").write_text("\0".join(first_process("capture", file)) + "\0")
        command = [sys.executable, "-c", asked, str(tmp_path / "cmdline")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == status and said in done.stdout, done.stderr
