"""The status file of a running capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidemark.protocol.changelog.layout import HEADER
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.progress.displays.lines import LineDisplay
from tidemark.runtime.progress.figures import Figures
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import StatusFile, read_status
from tidemark.testing.deadline import wait_until


def status(state: str) -> LogLine:
    fields = {"tables": {"public.t": {"rows_done": 1, "state": state}}, "caught_up": False}
    return LogLine(level="info", message="backfilling", event_type="connectorStatus", fields=fields)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    (tmp_path / HEADER).touch()
    return StateFolder([tmp_path / "state"])


@pytest.fixture
def status_file(tmp_path: Path, folder: StateFolder) -> StatusFile:
    return StatusFile(folder, DirectoryStore(tmp_path), LineDisplay(Figures(), "error"))


def written(folder: StateFolder) -> dict[str, Any]:
    table: dict[str, Any] = (read_status(folder) or {}).get("tables", {}).get("public.t", {})
    return table


def test_the_last_news_before_a_silence_is_written(folder: StateFolder, status_file: StatusFile) -> None:
    with status_file as display:
        display.log(status("scanning"))
        display.begin()
        assert written(folder)["state"] == "scanning"
        display.log(status("scanning"))
        display.log(status("paused"))
        assert written(folder)["state"] == "scanning"
        wait_until(lambda: written(folder)["state"] == "paused", 60, "the file has what came last")


def test_the_end_is_written_at_once(folder: StateFolder, status_file: StatusFile) -> None:
    with status_file as display:
        display.begin()
        display.log(status("scanning"))
        display.log(status("done"))
    assert written(folder)["state"] == "done"
