"""The status file of a running capture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.servers.deadline import wait_until
from tidemark.protocol.changelog.layout import HEADER
from tidemark.protocol.log_lines import LogLine
from tidemark.runtime.progress.figures import Figures
from tidemark.runtime.progress.lines import LineDisplay
from tidemark.runtime.progress.status_file import StatusFile, read_status


def status(state: str) -> LogLine:
    fields = {"tables": {"public.t": {"rows_done": 1, "state": state}}, "caught_up": False}
    return LogLine(level="info", message="backfilling", event_type="connectorStatus", fields=fields)


def written(root: Path) -> dict[str, Any]:
    table: dict[str, Any] = (read_status(root) or {}).get("tables", {}).get("public.t", {})
    return table


def test_the_last_news_before_a_silence_is_written(tmp_path: Path) -> None:
    (tmp_path / HEADER).touch()
    with StatusFile(tmp_path, LineDisplay(Figures(), "error")) as display:
        display.log(status("scanning"))
        display.begin()
        assert written(tmp_path)["state"] == "scanning"
        display.log(status("scanning"))
        display.log(status("paused"))
        assert written(tmp_path)["state"] == "scanning"
        wait_until(lambda: written(tmp_path)["state"] == "paused", 60, "the file has what came last")


def test_the_end_is_written_at_once(tmp_path: Path) -> None:
    (tmp_path / HEADER).touch()
    with StatusFile(tmp_path, LineDisplay(Figures(), "error")) as display:
        display.begin()
        display.log(status("scanning"))
        display.log(status("done"))
    assert written(tmp_path)["state"] == "done"
