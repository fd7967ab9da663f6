"""A log that a running capture compacts, while it is killed, read by Spark, and asked to compact at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.end_to_end.capture import COMMAND_SECONDS, Capture
from tests.warm_jvm import SHARED
from tests.warm_process import run_to_its_end
from tests.workload.tables import create_tables, source_of
from tests.workload.writers import Workload
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

ENTRIES = {"commit": {"interval": "50ms"}, "compact": {"commits": 30, "grace": "20s"}}
"""Small commits, of which so many are compacted at a time."""

TABLE = "public.accounts"


def compacted(log: Store) -> int:
    """How many commits others stand for."""
    try:
        found = ChangeLog(log).summary()
    except ChangeLogError as error:
        assert error.code == "TM-LOG-001"
        return 0
    return sum(one.last - one.first + 1 for one in found.replacements)


def compact(capture: Capture) -> str:
    command = [*TIDEMARK, "log", "compact", str(capture.file)]
    ended = run_to_its_end(command, environment=os.environ, timeout=COMMAND_SECONDS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return str(ended.stdout)


@pytest.mark.slow
@SHARED
@pytest.mark.drawn(1, of="a log that is made smaller while it is written")
def test_compacted_while_it_runs(database: Database, tmp_path: Path) -> None:
    capture = Capture(tmp_path, database, tables=[TABLE], entries=ENTRIES)
    log = DirectoryStore(capture.log)
    create_tables(database, 200)
    with Workload(database, writers=2, seed=1, rate=100) as workload:
        with capture.start() as running:
            wait_until(lambda: compacted(log) > 30, 120, "commits are compacted")
            kept = capture.materialize()
            assert kept.status == 0, kept.said
            os.kill(running.pid, signal.SIGKILL)
            running.wait()
        with capture.start():
            before = compacted(log)
            wait_until(lambda: compacted(log) > before, 120, "more of them are after a restart")
            said = compact(capture)
            assert f"{log.place} has " in said
        workload.stop()
    capture.catch_up()
    capture.entries = {**capture.entries, "compact": {"grace": 0}}
    capture.write()
    assert "are compacted" in compact(capture)
    names = [entry.path for entry in log.list("commits")]
    assert len(names) < ChangeLog(log).latest() - compacted(log) + 40
    assert list(LogCheck(ChangeLog(log)).damages()) == []
    kept = capture.materialize()
    assert kept.status == 0, kept.said
    assert capture.lake_differences({TABLE: source_of(database).tables()[TABLE]}) == []
