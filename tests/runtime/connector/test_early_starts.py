"""Processes that are started before they are needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.runtime.capture_folder import is_running
from tidemark.runtime.connector.early_starts import EarlyStarts
from tidemark.runtime.connector.interface import RunningConnector
from tidemark.runtime.connector.process import ProcessConnector
from tidemark.testing.deadline import wait_until

DEADLINE_SECONDS = 30


@pytest.fixture
def early(tmp_path: Path) -> EarlyStarts:
    """A connector that says its process id, and waits for the end of its stdin."""
    script = tmp_path / "waits.sh"
    script.write_text("#!/bin/sh\necho $$ | tee -a started\nexec cat\n")
    script.chmod(0o755)
    return EarlyStarts(ProcessConnector(["./waits.sh"], tmp_path))


def started(folder: Path, count: int) -> list[int]:
    """The ids of so many processes, in the order in which they started."""
    said = folder / "started"

    def found() -> list[int]:
        pids = said.read_text().split() if said.exists() else []
        return [int(pid) for pid in pids] if len(pids) == count else []

    return wait_until(found, DEADLINE_SECONDS, f"{count} processes have started")


def said_by(running: RunningConnector) -> int:
    """The id that a process says; afterwards it has ended."""
    said = os.read(running.stdout, 100)
    running.stop()
    running.release()
    return int(said)


def test_a_start_takes_the_process_that_was_begun_with_the_same_arguments(early: EarlyStarts, tmp_path: Path) -> None:
    early.begin({"A": "1"}, session="s")
    (begun,) = started(tmp_path, 1)
    assert said_by(early.start({"A": "2"}, session="s")) != begun
    assert said_by(early.start({"A": "1"})) != begun
    assert said_by(early.start({"A": "1"}, session="s")) == begun
    assert said_by(early.start({"A": "1"}, session="s")) != begun


def test_a_process_that_nobody_needs_is_ended(early: EarlyStarts, tmp_path: Path) -> None:
    with early:
        early.begin({})
        (begun,) = started(tmp_path, 1)
        assert is_running(begun)
    assert not is_running(begun)
    assert said_by(early.start({})) != begun


def test_one_process_is_begun_with_the_same_arguments(early: EarlyStarts, tmp_path: Path) -> None:
    with early:
        early.begin({"A": "1"}, session="s")
        early.begin({"A": "1"}, session="s")
        early.begin({"A": "1"})
        assert len(started(tmp_path, 2)) == 2
