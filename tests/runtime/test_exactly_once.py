"""Exactly once into the log: connector and runtime killed with SIGKILL at random moments."""

from __future__ import annotations

import os
import random
import signal
from functools import partial
from typing import Any

import pytest

from tests.runtime.capture_folder import OPENED, CaptureFolder, is_running
from tests.warm_process import WarmProcess
from tidemark.testing.deadline import wait_until

pytestmark = pytest.mark.heavy

ROWS = 150_000

EACH = 7
"""Rows of a checkpoint."""

KILLS = 5


def rows_up_to(last: int) -> dict[str, Any]:
    return {"stream": {"rows": last, "each": EACH}}


def stream(folder: CaptureFolder) -> None:
    folder.script([OPENED, rows_up_to(ROWS)])


def assert_whole(folder: CaptureFolder) -> None:
    assert folder.ids() == list(range(1, ROWS + 1))
    last = {str(number % 3): number for number in (*range(EACH, ROWS + 1, EACH), ROWS)}
    assert folder.log.summary().state == {"cursor": ROWS, "seen": last}


@pytest.mark.drawn(5, of="processes that are killed")
@pytest.mark.parametrize("seed", range(2))
def test_the_connector_killed_again_and_again(folder: CaptureFolder, seed: int) -> None:
    chance = random.Random(seed)
    share = ROWS // (KILLS + 1) // EACH * EACH
    # Each session stays when its share is out: it is killed within the share or after it, and never too late.
    shares = [rows_up_to(share * number) for number in range(1, KILLS + 1)]
    folder.script(*([OPENED, step, {"await_eof": True}] for step in shares), [OPENED, rows_up_to(ROWS)])
    with folder.start("capture", "capture.yaml", "--until-caught-up") as runtime:
        for sessions in range(1, KILLS + 1):
            assert not ended_before(runtime, folder, sessions, chance.randrange(1, share // 2)), folder.stderr
            pid = folder.connector_pid()
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        assert runtime.wait(60) == 0, folder.stderr
    assert len(folder.requests("open")) == KILLS + 1
    assert_whole(folder)


@pytest.mark.drawn(5, of="processes that are killed")
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
        wait_until(partial(has_ended, pid), 60, "the connector's end")
    done = folder.run("capture", "capture.yaml", "--until-caught-up")
    assert done.returncode == 0, done.stderr
    assert_whole(folder)


def ended_before(runtime: WarmProcess, folder: CaptureFolder, sessions: int, events: int) -> bool:
    """Waits until so many sessions were opened and so many more events are in the log; True if all ended before."""
    target = events + (folder.log.summary().next_offset if folder.is_begun else 0)

    def ready() -> bool:
        opened = len(folder.requests("open")) >= sessions
        return runtime.poll() is not None or (opened and folder.is_begun and folder.log.summary().next_offset >= target)

    wait_until(ready, 60, "more events")
    return runtime.poll() is not None


def has_ended(pid: int) -> bool:
    return not is_running(pid)
