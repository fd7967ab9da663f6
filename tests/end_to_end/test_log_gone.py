"""A change log whose folder goes away is an error, while the capture runs and when it is started: never a new log."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.workload.tables import Database, create_tables, source_of
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database as MariaDatabase
from tidemark.testing.servers.postgres import Database as PostgresDatabase
from tidemark.testing.servers.postgres import free_slot


def gone_and_back(capture: Capture, aside: Path) -> None:
    """Starts the capture without its log, then with it."""
    for command in (["capture", "--until-caught-up"], ["check"]):
        ended = capture.run(*command)
        assert ended.status == 1, ended.said
        assert "TM-LOG-013" in ended.said
        assert not list(capture.log.rglob("*")), "nothing is made in its place"
    if capture.log.exists():
        capture.log.rmdir()
    aside.rename(capture.log)
    capture.catch_up()
    assert capture.differences() == []


@pytest.mark.drawn(1)
def test_it_goes_away_while_the_capture_runs(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 20)
    source = source_of(each_database)
    capture = Capture(tmp_path, each_database, {})
    aside = tmp_path / "aside"
    with capture.start() as running:
        wait_until(lambda: (capture.log / "commits").exists() and capture.snapshot_rows() >= 60, 60, "all is read")
        capture.log.rename(aside)
        capture.log.mkdir()  # What is there when a volume is not mounted.
        connection = source.connect(autocommit=True)
        try:
            connection.cursor().execute("DELETE FROM accounts")
        finally:
            connection.close()
        wait_until(lambda: not running.running, 60, "it ends")
    assert "TM-LOG-013" in capture.output.read_text()
    gone_and_back(capture, aside)


@pytest.mark.parametrize("remembered", [True, False])
def test_the_capture_files_folder_cannot_be_written(
    mariadb_database: MariaDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembered: bool
) -> None:
    """A source without slots remembers nothing by itself."""
    create_tables(mariadb_database, 20)
    own = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(own))
    capture = Capture(tmp_path, mariadb_database, {})
    (tmp_path / ".capture.yaml.log").mkdir()  # Also root cannot write to this path.
    if not remembered:
        own.write_text("")
    first = capture.run("capture", "--until-caught-up")
    assert first.status == 0, first.said
    assert ("is recorded nowhere" in first.said) != remembered
    if not remembered:
        return
    aside = tmp_path / "aside"
    capture.log.rename(aside)
    gone_and_back(capture, aside)
    assert list(own.rglob("*.log"))


def test_where_nothing_remembers_the_log_the_slot_does(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database)
    capture.catch_up()
    aside = tmp_path / "aside"
    capture.log.rename(aside)
    memory = tmp_path / ".capture.yaml.log"
    memory.unlink()
    ended = capture.run("capture", "--until-caught-up")
    assert ended.status == 1, ended.said
    assert "TM-PG-041" in ended.said
    drop = re.search(r"SELECT pg_drop_replication_slot\('tidemark_test'\);", ended.said)
    assert drop, ended.said
    shutil.rmtree(capture.log)
    memory.unlink()
    aside.rename(capture.log)
    capture.catch_up()
    assert capture.differences() == []
    shutil.rmtree(capture.log)
    memory.unlink()
    free_slot(database, "tidemark_test")
    with database.connect() as connection:
        connection.execute(drop[0].encode())
    capture.catch_up()
    assert capture.differences() == []
