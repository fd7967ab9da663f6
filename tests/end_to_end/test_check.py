"""``tidemark check`` sees what ``capture`` would see: where the capture stands, its slot, whether it runs."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.mariadb import only_the_last_log
from tests.end_to_end.capture import Capture
from tests.workload.tables import Database, create_tables
from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks
from tidemark.testing.servers.mariadb import Database as MariaDatabase
from tidemark.testing.servers.postgres import Database as PostgresDatabase
from tidemark.testing.servers.postgres import drop_slot


def check(capture: Capture) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Exit status and the findings by level."""
    ended = capture.run("check", "--json")
    report = json.loads(ended.said.splitlines()[-1])
    levels: dict[str, list[dict[str, Any]]] = {"ok": [], "warning": [], "failure": []}
    for finding in report["findings"]:
        levels[finding["level"]].append(finding)
    return ended.status, levels


def codes(capture: Capture) -> set[str]:
    status, levels = check(capture)
    assert status == (1 if levels["failure"] else 0)
    return {finding["code"] for finding in levels["failure"]}


def test_a_capture_that_can_go_on(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 20)
    capture = Capture(tmp_path, each_database)
    assert codes(capture) == set()
    with capture.start():
        wait_until(lambda: capture.status_file.exists() and capture.snapshot_rows() >= 60, 60, "it runs")
        status, levels = check(capture)
        assert (status, levels["failure"]) == (0, [])
        assert any("the capture is running" in finding["message"] for finding in levels["ok"])
    assert codes(capture) == set()


def test_a_slot_that_is_gone(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database)
    capture.catch_up()
    drop_slot(database, "tidemark_test")
    assert codes(capture) == {"TM-PG-015"}
    capture.config["on_lost_position"] = "backfill"
    capture.write()
    status, levels = check(capture)
    assert (status, levels["failure"]) == (0, [])
    assert [finding["code"] for finding in levels["warning"] if finding["code"]] == ["TM-PG-015"]


def test_a_slot_of_another_capture_that_reads_it(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database)
    (tmp_path / "two").mkdir()
    other = Capture(tmp_path / "two", database, {"slot": "tidemark_test"}, entries={"capture": "other"})
    with capture.start():
        wait_until(lambda: capture.status_file.exists() and capture.snapshot_rows() >= 60, 60, "it runs")
        assert codes(other) >= {"TM-PG-040", "TM-PG-014"}
        ended = other.run("capture")
        assert (ended.status, "TM-PG-040" in ended.said) == (1, True), ended.said


@pytest.mark.parametrize("fixture", ["mariadb_database", "mysql_database"])
def test_a_log_that_was_purged(fixture: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    database: MariaDatabase = request.getfixturevalue(fixture)
    create_tables(database, 20)
    capture = Capture(tmp_path, database)
    capture.catch_up()
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM accounts")
        cursor.execute("FLUSH BINARY LOGS")
        wait_until(lambda: only_the_last_log(cursor), 30, "the log of before is gone")
    assert codes(capture) == {"TM-MY-015"}


@pytest.mark.parametrize("fixture", ["mariadb_database", "mysql_database"])
def test_an_account_that_may_do_nothing(fixture: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """It sees no table, which must not hide the rest."""
    database: MariaDatabase = request.getfixturevalue(fixture)
    create_tables(database, 3)
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER 'tm_nothing'@'%' IDENTIFIED BY 'pässword'")
        try:
            capture = Capture(tmp_path, database, {"user": "tm_nothing", "password": "pässword"})
            assert codes(capture) == {"TM-CFG-004", "TM-MY-006", "TM-MY-008", "TM-MY-010"}
            _, levels = check(capture)
            remedies = " ".join(finding["remedy"] for finding in levels["failure"])
            for privilege in ("REPLICATION SLAVE", "SELECT ON `SCHEMA`.*"):
                assert privilege in remedies and "TO 'tm_nothing'@'%';" in remedies
            said = capture.run("capture").said
            assert "the connector sees no table" in said and "Run 'tidemark check FILE'" in said
        finally:
            cursor.execute("DROP USER 'tm_nothing'@'%'")


def test_tables_that_are_misspelt_hide_nothing_else(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 3)
    assert codes(Capture(tmp_path, each_database, entries={"tables": ["nowhere.*"]})) == {"TM-CFG-004"}


def test_tables_that_are_left_out_and_why(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    with database.connect() as connection:
        connection.execute("CREATE TABLE keyless (n int)")
    capture = Capture(tmp_path, database)
    _, levels = check(capture)
    [left_out] = [finding["message"] for finding in levels["warning"] if "keyless" in finding["message"]]
    assert "REPLICA IDENTITY FULL" in left_out
    [row] = [line for line in capture.run("discover", "--json").said.splitlines() if "keyless" in line]
    assert "REPLICA IDENTITY FULL" in json.loads(row)["reason"]
    assert "REPLICA IDENTITY" in capture.run("discover").said


def test_another_server_than_the_one_that_was_captured(
    database: PostgresDatabase, oldest_database: PostgresDatabase, tmp_path: Path
) -> None:
    create_tables(database, 20)
    create_tables(oldest_database, 20)
    Capture(tmp_path, database).catch_up()
    moved = Capture(tmp_path, oldest_database)
    assert codes(moved) == {"TM-PG-016"}
    ended = moved.run("capture", "--until-caught-up")
    assert (ended.status, "TM-PG-016" in ended.said) == (1, True), ended.said
    with oldest_database.connect() as connection:
        assert (
            connection.execute(
                "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
            ).fetchall()
            == []
        )


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """As on a disk that its file system has made read-only. Permissions say nothing to root, which has to mount."""
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield
        folder.chmod(0o755)
        return
    if subprocess.run(["mount", "--bind", folder, folder], check=False, capture_output=True).returncode:
        pytest.skip(lacks("root may not mount here", "make test outside of a container"))
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", folder, folder], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_log_that_cannot_be_written(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database)
    capture.catch_up()
    with read_only(capture.log):
        status, levels = check(capture)
        # A full or read-only disk may pass by itself.
        assert (status, [finding["code"] for finding in levels["failure"]]) == (3, ["TM-LOG-008"])
    assert codes(capture) == set()
