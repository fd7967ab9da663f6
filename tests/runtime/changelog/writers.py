"""Processes that write a log, and what must hold of any log whatever became of its writers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.events import segment_events


@contextmanager
def writing(log: Store | Path, seed: int) -> Iterator[subprocess.Popen[str]]:
    """A process that writes the log, about to open it."""
    command = [sys.executable, "-m", "tests.runtime.changelog.writing_process", place_of(log), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert next(lines(process)) == ["start"]
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    """What it prints, word by word, to the end of its output. A last line that was cut off is left out."""
    assert process.stdout
    for line in process.stdout:
        if line.endswith("\n"):
            yield line.split()


def place_of(log: Store | Path) -> str:
    return log.place if isinstance(log, Store) else str(log)


def check(place: Store | Path, acknowledged: int) -> None:
    """Commits have no gaps, name whole segments, and reach at least as far as was acknowledged."""
    log = ChangeLog(place)
    offset = 0
    for number, commit in enumerate(log.commits()):
        assert (commit.number, commit.first_offset) == (number, offset)
        offsets = sorted(event["_offset"] for segment in commit.segments for event in segment_events(log, segment))
        assert offsets == list(range(offset, commit.next_offset))
        offset = commit.next_offset
    assert log.latest() >= acknowledged
