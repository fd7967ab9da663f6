"""``tidemark materialize``, and the same by ``python -m tidemark.spark_sink``: one command, two doors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.examples import sample
from tests.spark_sink.log_builder import LogBuilder, create
from tidemark.runtime.cli import app
from tidemark.spark_sink.__main__ import _parser
from tidemark.testing.deadline import wait_until

TIDEMARK = [sys.executable, "-m", "tidemark.runtime"]
SPARK_SINK = [sys.executable, "-m", "tidemark.spark_sink"]
DEADLINE = 280


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """A log of two events, beside a capture file for it."""
    log = LogBuilder(tmp_path / "shop.log")
    log.commit(create(1, "one"), create(2, "two"))
    (tmp_path / "shop.yaml").write_text(
        "capture: test\nconnector: {command: [x]}\nlog: shop.log\nspark: {warehouse: a lake, master: 'local[1]'}\n"
    )
    return log


def run(command: list[str], *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=DEADLINE
    )


def test_both_doors_take_the_same_options() -> None:
    command = typer.main.get_command(app).commands["materialize"]  # type: ignore[attr-defined]
    of_tidemark = {option for parameter in command.params for option in parameter.opts} - {"file"}
    of_spark_sink = {option for action in _parser()._actions for option in action.option_strings}
    assert of_tidemark == of_spark_sink - {"-h", "--help"}


@pytest.mark.parametrize("command", [TIDEMARK, SPARK_SINK])
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["shop.yaml", "--conf", "password=hunter2"], "--conf"),
        (["shop.yaml", "--way", "quickly"], "--way"),
        (["none.yaml"], "error TM-CFG-001: none.yaml cannot be read"),
    ],
)
def test_wrong_usage_ends_with_2(command: list[str], arguments: list[str], told: str, tmp_path: Path) -> None:
    done = run(command, *_subcommand(command), *arguments, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize("command", [TIDEMARK, SPARK_SINK])
def test_an_error_ends_with_1_and_says_what_to_do(command: list[str], log: LogBuilder, tmp_path: Path) -> None:
    log.root.rename(tmp_path / "moved")
    done = run(command, *_subcommand(command), "shop.yaml", "--available-now", folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert re.search(r"^error TM-LOG-001: .*\n  what to do: .+\n  see docs/errors.md#tm-log-001$", done.stderr, re.M)
    assert "Traceback" not in done.stderr


def _subcommand(command: list[str]) -> list[str]:
    return ["materialize"] if command is TIDEMARK else []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.drawn(5, of="a JVM of its own")
def test_the_tables_are_kept_and_can_be_read_as_the_last_line_says(log: LogBuilder, tmp_path: Path) -> None:
    done = run(TIDEMARK, "materialize", "shop.yaml", "--available-now", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any(line.startswith("kept  public.items current  2 rows at offset 2; 2 events in ") for line in lines)
    read = subprocess.run(lines[-1], shell=True, cwd="/", capture_output=True, text=True, check=True).stdout
    assert "'id': 1, 'name': 'one'" in read and "'id': 2, 'name': 'two'" in read

    log.commit(create(3))
    done = run(SPARK_SINK, "shop.yaml", "--available-now", "--json", "--conf", "spark.app.name=x", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [(one["table"], one["kind"], one["rows"], one["events"]) for one in report["tables"]] == [
        ("public.items", "current", 3, 1)
    ]
    progress = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [line["events"] for line in progress if line.get("eventType") == "materializeApplied"] == [1]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("number", sample([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_a_signal_ends_it_between_two_parts(log: LogBuilder, tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    with out.open("w") as output:
        process = subprocess.Popen([*SPARK_SINK, "shop.yaml"], cwd=tmp_path, stdout=output, start_new_session=True)
        try:
            wait_until(lambda: "done  public.items" in out.read_text(), DEADLINE, "a part that is applied")
            process.send_signal(number)
            assert process.wait(DEADLINE) == 130
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert "kept  public.items current  2 rows at offset 2" in out.read_text()
