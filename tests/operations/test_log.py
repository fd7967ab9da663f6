"""A change log that cannot be written is told at once, also by a capture that has nothing to commit."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.operations.status import is_caught_up, report, status
from tests.operations.test_lag import slot_of
from tests.workload.tables import create_tables
from tidemark.testing.deadline import PATIENCE, wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.servers.postgres import Database

TOLD_SECONDS = 2.0


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Inside, nobody can write below a folder, root neither."""
    mount = ["mount", "--bind", str(folder), str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip(lacks("no file system can be mounted", "make test as root, outside of a container"))
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_log_that_becomes_read_only(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_tables(database, 20)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # Nothing is committed for an hour: only what is tried finds out.
    config = {**slot_of(database), "heartbeat_seconds": 3600}
    capture = Capture(tmp_path, database, config)
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        with read_only(capture.log):
            since = time.time()
            wait_until(lambda: (report(capture)["error"] or {}).get("code") == "TM-LOG-008", 20, "it is told")
            told = status(capture)
            assert told.report["error"]["passed"] is None
            assert datetime.fromisoformat(told.report["error"]["since"]).timestamp() - since < TOLD_SECONDS * PATIENCE
            assert told.exit_status == (1, 1)
            assert f"cannot write {capture.log}" in told.text and "what to do: At the named path" in told.text
            assert '"code":"TM-LOG-008"' in capture.output.read_text()
        wait_until(lambda: report(capture)["error"]["passed"], 20, "it can be written again")
        wait_until(lambda: status(capture).exit_status == (0, 0), 20, "all is well")
    assert capture.differences() == []
