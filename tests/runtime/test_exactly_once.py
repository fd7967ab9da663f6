"""Exactly once into the log: connector and runtime killed with SIGKILL at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from contextlib import suppress
from functools import partial

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, is_running
from tests.servers.deadline import wait_until

ROWS = 150_000


def stream(folder: CaptureFolder) -> None:
    folder.script([OPENED, {"stream": {"rows": ROWS, "each": 7}}])


def assert_whole(folder: CaptureFolder) -> None:
    assert folder.ids() == list(range(1, ROWS + 1))
    last = {str(number % 3): number for number in (*range(7, ROWS + 1, 7), ROWS)}
    assert folder.log.summary().state == {"cursor": ROWS, "seen": last}


@pytest.mark.parametrize("seed", range(2))
def test_the_connector_killed_again_and_again(folder: CaptureFolder, seed: int) -> None:
    chance = random.Random(seed)
    stream(folder)
    with folder.start("capture", "capture.yaml", "--until-caught-up") as runtime:
        for sessions in range(1, 6):
            if ended_before(runtime, folder, sessions, chance.randrange(1, ROWS // 12)):
                break
            pid = folder.connector_pid()
            assert pid is not None
            with suppress(ProcessLookupError):  # it was done in this moment
                os.kill(pid, signal.SIGKILL)
        assert runtime.wait(60) == 0, folder.stderr
    assert len(folder.requests("open")) > 1
    assert_whole(folder)


@pytest.mark.parametrize("seed", range(2))
def test_the_runtime_killed_again_and_again(folder: CaptureFolder, seed: int) -> None:
    chance = random.Random(seed)
    stream(folder)
    for sessions in range(1, 5):
        with folder.start("capture", "capture.yaml", "--until-caught-up") as runtime:
            ended_before(runtime, folder, sessions, chance.randrange(ROWS // 8))
            runtime.kill()
        pid = folder.connector_pid()
        assert pid is not None
        wait_until(partial(has_ended, pid), 10, "the connector's end")
    done = folder.run("capture", "capture.yaml", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    assert_whole(folder)


def ended_before(runtime: subprocess.Popen[str], folder: CaptureFolder, sessions: int, events: int) -> bool:
    """Waits until so many sessions were opened and so many more events are in the log; True if all ended before."""
    target = events + (folder.log.summary().next_offset if folder.is_begun else 0)

    def ready() -> bool:
        opened = len(folder.requests("open")) >= sessions
        return runtime.poll() is not None or (opened and folder.is_begun and folder.log.summary().next_offset >= target)

    wait_until(ready, 60, "more events")
    return runtime.poll() is not None


def has_ended(pid: int) -> bool:
    return not is_running(pid)
