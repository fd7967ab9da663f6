"""A capture that keeps of its log what is needed: a table is read again, and what came before goes, under load."""

from __future__ import annotations

import os
import shutil
import signal
from datetime import timedelta
from pathlib import Path

import pytest

from tests.end_to_end.capture import COMMAND_SECONDS, Capture
from tests.warm_jvm import SHARED
from tests.warm_process import run_to_its_end
from tests.workload.tables import create_tables, source_of
from tests.workload.writers import Workload
from tidemark.demo.processes import TIDEMARK
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.consumers import consumers
from tidemark.protocol.changelog.models import KnownGeneration
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.steering.renewals import Renewals
from tidemark.runtime.steering.waiting_commands import WaitingCommands
from tidemark.runtime.upkeep.log_check import LogCheck
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

ENTRIES = {"commit": {"interval": "20ms"}, "compact": {"commits": 30, "grace": "0s"}, "retain": {}}
TABLE = "public.accounts"
COLLECTION = "public/accounts"


def newest(capture: Capture) -> KnownGeneration | None:
    return ChangeLog(capture.log).summary().newest(COLLECTION) if (capture.log / "tidemark.json").exists() else None


def has_whole(capture: Capture, number: int) -> bool:
    one = newest(capture)
    return one is not None and one.number == number and one.whole is not None


def look_after(capture: Capture) -> int:
    """Has the capture do at once what it does every minute. Returns the offset of the first event that is kept."""
    command = [*TIDEMARK, "log", "compact", str(capture.file)]
    ended = run_to_its_end(command, environment=os.environ, timeout=COMMAND_SECONDS)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ChangeLog(capture.log).summary().log_start.offset


@pytest.mark.slow
@SHARED
@pytest.mark.drawn(1, of="a log that is made smaller while it is written")
def test_what_came_before_a_table_was_read_again_goes(database: Database, tmp_path: Path) -> None:
    capture = Capture(tmp_path, database, tables=[TABLE], entries=ENTRIES)
    create_tables(database, 200)
    folder, log = StateFolder.of_file(capture.file), DirectoryStore(capture.log)
    told: list[str] = []
    renewals = Renewals(WaitingCommands.of(folder, log), folder, timedelta(), lambda: [COLLECTION], told.append)
    with Workload(database, writers=2, seed=3, rate=200) as workload:
        with capture.start() as running:
            wait_until(lambda: has_whole(capture, 1), 120, "it is read")
            kept = capture.materialize()
            assert kept.status == 0, kept.said
            (consumer,) = consumers(log)
            assert look_after(capture) == 0, "its only generation is needed"
            renewals.once(ChangeLog(log))
            renewals.once(ChangeLog(log))
            assert len(told) == 1 and told[0].startswith(f"{TABLE} is read again from the start")
            os.kill(running.pid, signal.SIGKILL)
            running.wait()
        with capture.start():
            wait_until(lambda: has_whole(capture, 2), 120, "it is read again")
            again = newest(capture)
            assert again is not None
            far = ChangeLog(log).latest() + 450
            wait_until(lambda: ChangeLog(log).latest() > far, 180, "commits come after that")
            assert look_after(capture) <= consumer.position, "what keeps the tables has not read more"
            kept = capture.materialize()
            assert kept.status == 0, kept.said
            assert consumers(log)[0].position > max(consumer.position, again.begin)
            wait_until(lambda: look_after(capture) > consumer.position, 120, "the log begins later")
        workload.stop()
    capture.catch_up()
    found = ChangeLog(log)
    start = found.summary().log_start
    assert consumer.position < start.offset <= again.begin
    assert list(LogCheck(found).damages()) == []
    for _ in range(2):
        kept = capture.materialize()
        assert kept.status == 0, kept.said
        assert capture.lake_differences({TABLE: source_of(database).tables()[TABLE]}) == []
        shutil.rmtree(tmp_path / "lake")  # The next one is built from what the log has.
