"""How ``tidemark materialize`` ends when its JVM or its master fails it, or when it is told to stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.examples import sample
from tests.spark_sink.log_builder import LogBuilder, create
from tidemark.testing.deadline import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COMMAND = [sys.executable, "-m", "tidemark.runtime", "materialize", "shop.yaml", "--available-now"]
DEADLINE = 280
EVENTS = 600_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small log, beside a capture file for it."""
    LogBuilder(tmp_path / "shop.log").commit(create(1, "a name"))
    return with_capture_file(tmp_path)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a large part, beside a capture file for it. It takes four seconds of a processor."""
    folder = tmp_path_factory.mktemp("large")
    log = LogBuilder(folder / "shop.log")
    for first in range(0, EVENTS, EVENTS // 3):
        log.commit(*(create(id * 7919 % EVENTS, "a name") for id in range(first, first + EVENTS // 3)))
    return with_capture_file(folder)


def with_capture_file(folder: Path) -> Path:
    (folder / "shop.yaml").write_text(
        "capture: test\nconnector: {command: [x]}\nlog: shop.log\nspark: {warehouse: lake, master: 'local[1]'}\n"
    )
    return folder


@contextmanager
def started(folder: Path, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The command, with its output in the files ``out`` and ``errors``."""
    with (folder / "out").open("w") as out, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=out,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def working(process: subprocess.Popen[str]) -> psutil.Process | None:
    """The JVM of a run whose executor has begun to work: it has a worker of Python."""
    try:
        for child in psutil.Process(process.pid).children(recursive=True):
            if child.name() == "java" and any("python" in worker.name() for worker in child.children(recursive=True)):
                return child
    except psutil.NoSuchProcess:
        pass  # A script that starts Java has ended in between: whoever waits asks again.
    return None


def one_error(folder: Path, code: str) -> str:
    """What the one error says. There is no trace of anything."""
    errors = (folder / "errors").read_text()
    assert "\tat " not in errors and "Traceback" not in errors and "Exception" not in errors
    (told,) = re.findall(r"^error (.*\n  what to do: .+)\n  see docs/errors.md", errors, re.MULTILINE)
    assert told.startswith(f"{code}: ")
    return str(told)


@pytest.mark.drawn(5, of="a JVM of its own")
def test_a_jvm_that_is_killed_is_one_error(large: Path) -> None:
    with started(large) as process:
        wait_until(lambda: working(process), DEADLINE, "the executor works").kill()
        assert process.wait(DEADLINE) == 3
    assert "the driver's JVM has ended\n  what to do: Java was killed" in one_error(large, "TM-SPK-013")
    assert "could not be stopped" not in (large / "errors").read_text()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("-Dpassword=hunter2 -XX:+NoSuchOption", "Unrecognized VM option 'NoSuchOption'"),
        ("-Dpassword=hunter2 -Xms9g -Xmx1g", "Initial heap size set to a larger value than the maximum heap size"),
    ],
)
def test_a_jvm_that_does_not_start_says_why(folder: Path, options: str, told: str) -> None:
    with started(folder, _JAVA_OPTIONS=options) as process:
        assert process.wait(DEADLINE) == 1
    assert f"did not start: {told} (Java takes options from" in one_error(folder, "TM-SPK-023")
    assert "hunter2" not in (folder / "errors").read_text()
    # What a JVM says on its stdout is not ours to print.
    assert all(line.startswith("plan ") for line in (folder / "out").read_text().splitlines())


@pytest.mark.drawn(5, of="a JVM of its own")
def test_a_connect_server_that_is_not_there_is_one_error(folder: Path) -> None:
    with started(folder, "--master", "sc://127.0.0.1:1") as process:
        assert process.wait(DEADLINE) == 3
    assert "no Spark Connect server has answered at 127.0.0.1:1" in one_error(folder, "TM-SPK-013")


@pytest.mark.parametrize("number", sample([signal.SIGINT, signal.SIGTERM], [signal.SIGTERM]))
@pytest.mark.drawn(5, of="a JVM of its own")
def test_a_signal_in_the_middle_of_a_large_part_ends_it_soon(large: Path, number: signal.Signals) -> None:
    with started(large) as process:
        java = wait_until(lambda: working(process), DEADLINE, "the executor works")
        process.send_signal(number)
        assert process.wait(DEADLINE) == 130
        wait_until(lambda: not java.is_running(), DEADLINE, "the JVM has ended")
    # It did not wait for the end of the part.
    out = (large / "out").read_text()
    assert "rewrite" in out and "done " not in out
    assert "kept  public.items current  0 rows at offset 0" in out


@pytest.mark.parametrize("scheme", ["sc", "spark"])
def test_a_signal_while_no_master_answers_ends_it_soon(folder: Path, scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(DEADLINE)
        with started(folder, "--master", f"{scheme}://127.0.0.1:{silent.getsockname()[1]}") as process:
            waiting, _ = silent.accept()
            with waiting:
                process.send_signal(signal.SIGTERM)
                assert process.wait(DEADLINE) == 130
