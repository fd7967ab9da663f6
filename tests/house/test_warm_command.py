"""A command that is a fork of a warm process does what the command itself does, and ends with what stands for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_command import warm_command
from tidemark.demo.processes import descendants
from tidemark.testing.deadline import wait_until

MODULE = "tidemark.connectors.postgres"

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is the command itself"),
]


def test_it_answers_as_the_command_itself() -> None:
    command = warm_command(MODULE)
    for request, status in ((b'{"spec": {}}\n', 0), (b"nonsense\n", 1)):
        outputs = [
            subprocess.run(each, input=request, capture_output=True, check=False)
            for each in (command, [sys.executable, "-m", MODULE])
        ]
        assert [done.returncode for done in outputs] == [status, status]
        assert outputs[0].stdout == outputs[1].stdout
        codes = [[json.loads(line)["fields"]["code"] for line in done.stderr.splitlines()] for done in outputs]
        assert codes[0] == codes[1]


def test_it_runs_where_it_is_started_with_the_variables_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("capture: shop\n")
    command = warm_command("tidemark.runtime", "check", "shop.yaml")
    done = subprocess.run(command, cwd=tmp_path, env={"COLUMNS": "200"}, capture_output=True, text=True, check=False)
    assert (done.returncode, "error TM-CFG-002" in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_a_signal(number: signal.Signals) -> None:
    warm_command(MODULE)
    before = set(descendants(os.getpid()))
    pipe = subprocess.PIPE
    with subprocess.Popen(warm_command(MODULE), stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b'{"open": ')
        process.stdin.flush()
        wait_until(lambda: len(_kept(before)) >= 2, 30, "the fork is there, and who keeps it")
        process.send_signal(number)
        assert process.stdout.read() == b""
        # A connector says the second once it has its handler.
        assert process.wait(30) in (-number, 128 + number)
    wait_until(lambda: not _kept(before), 30, "nothing is left of it")


def _kept(before: set[int]) -> set[int]:
    """Processes of this test that came since, but those that stand for one."""
    return {pid for pid, line in descendants(os.getpid()).items() if pid not in before and "warm_stub" not in line}
