"""A capture is planned, steered and edited while it runs, with the commands a person has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.capture import Capture
from tests.workload.tables import Database, create_tables, source_of
from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.progress.status_file import read_status
from tidemark.testing.deadline import wait_until

ROWS = 3000

pytestmark = [pytest.mark.slow]


def table(capture: Capture, name: str) -> str:
    return f"{source_of(capture.database).schema}.{name}"


def progress(capture: Capture, name: str) -> dict[str, Any]:
    """How far a table's backfill is, as the capture said last; empty before it said anything."""
    found: dict[str, Any] = (read_status(capture.state) or {}).get("tables", {}).get(table(capture, name), {})
    return found


@pytest.mark.drawn(1)
def test_a_plan_names_every_table_and_changes_nothing(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, ROWS)
    capture = Capture(tmp_path, each_database)
    planned = capture.run("plan", "--json")
    assert planned.status == 0, planned.said
    tables = json.loads(planned.said.splitlines()[0])["tables"]
    assert set(tables) == set(source_of(each_database).tables())
    assert {one["scan"] for one in tables.values()} == {"key"}
    assert all(one["rows_per_second"] > 0 and one["bytes_estimated"] > 0 for one in tables.values())
    assert not capture.log.exists()


@pytest.mark.drawn(1)
def test_a_backfill_is_paused_and_resumed_and_a_table_added_while_the_log_goes_on(
    each_database: Database, tmp_path: Path
) -> None:
    create_tables(each_database, ROWS)
    accounts, entries = (f"{source_of(each_database).schema}.{name}" for name in ("accounts", "entries"))
    # Slow enough that the backfill is under way for as long as this test wants it to be.
    slow = {"backfill": {"chunk_rows": 50, "max_rate": "50 rows"}}
    capture = Capture(tmp_path, each_database, slow, tables=[accounts])
    with capture.start() as running:
        capture.wait_for_events(running)
        paused = capture.run("pause", "-t", accounts, "--json")
        assert paused.status == 0, paused.said
        assert json.loads(paused.said.splitlines()[0])["done"]
        wait_until(lambda: progress(capture, "accounts").get("state") == "paused", 30, "it is paused")
        status = json.loads(capture.run("status", "--json").said.splitlines()[0])
        assert status["progress"]["tables"][accounts]["state"] == "paused"
        capture.progress.update()
        held, changes = capture.snapshot_rows(), capture.progress.changes.total()
        assert 0 < held < ROWS
        with source_of(each_database).connect(autocommit=True) as connection:
            connection.cursor().execute("UPDATE accounts SET id = id WHERE id < 3")
            connection.cursor().execute("DELETE FROM accounts WHERE id < 3")
        wait_until(lambda: capture.progress.update().changes.total() > changes, 30, "the log goes on")
        assert capture.snapshot_rows() == held
        capture.config = {"backfill": {"chunk_rows": 500}}
        capture.tables = [accounts, entries]
        capture.write()
        wait_until(lambda: progress(capture, "entries").get("done"), 60, "the added table is read")
        assert progress(capture, "accounts")["state"] == "paused"
        assert capture.run("resume").status == 0
        wait_until(lambda: progress(capture, "accounts").get("done"), 60, "the paused table is read")
    capture.catch_up()
    keys = source_of(each_database).tables()
    assert capture.differences({name: keys[name] for name in (accounts, entries)}) == []


@pytest.mark.drawn(1)
def test_a_reread_waits_for_a_person(each_database: Database, tmp_path: Path) -> None:
    """What can be applied meanwhile is; what cannot be read together with the rows of before is set aside."""
    source = source_of(each_database)
    alter = "ALTER TABLE {} ALTER c TYPE {}" if "postgres" in source.connector else "ALTER TABLE {} MODIFY c {}"
    capture = Capture(tmp_path, each_database, {"on_alter": "ask"}, tables=[f"{source.schema}.t", f"{source.schema}.u"])

    def run(*statements: str) -> None:
        with source.connect(autocommit=True) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def said() -> dict[str, Any]:
        report: dict[str, Any] = json.loads(capture.run("status", "--json").said.splitlines()[0])
        return report

    def state(name: str) -> str | None:
        found: str | None = said()["rereads"].get(f"{source.schema}.{name}", {}).get("state")
        return found

    for name in ("t", "u"):
        run(f"CREATE TABLE {name} (id int PRIMARY KEY, c int)", f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, 3)")
    with capture.start():
        wait_until(lambda: all(progress(capture, name).get("done") for name in "tu"), 60, "both are read")
        run(alter.format("t", "varchar(9)"), "UPDATE t SET c = 'new' WHERE id = 1")
        wait_until(lambda: state("t") == "put off", 30, "the reread of one is put off")
        told = " ".join(capture.run("status").said.split())
        for words in (
            f"reread {source.schema}.t, put off: ",
            " may have written new values of a column (c) at ",
            f"to begin it: tidemark resume {capture.file} --table {source.schema}.t",
            f"tidemark resume {capture.file} --table {source.schema}.t --keep",
            "next time: Add ",
        ):
            assert words in told
        assert said()["set_aside"] == {}

        run(alter.format("u", "numeric(9, 2)"), "UPDATE u SET c = 1.5 WHERE id = 1")
        wait_until(lambda: f"{source.schema}.u" in said()["set_aside"], 30, "the other is set aside")
        assert "TM-CAP-008" in said()["set_aside"][f"{source.schema}.u"]
        run("UPDATE u SET c = 2.5 WHERE id = 2", "DELETE FROM u WHERE id = 3")
        refused = capture.run("resume", "-t", f"{source.schema}.u", "--keep")
        assert refused.status != 0 and "TM-CAP-009" in refused.said
        assert state("u") == "put off"
        assert capture.run("resume", "-t", f"{source.schema}.u").status == 0
        wait_until(lambda: state("u") == "done" and not said()["set_aside"], 60, "it is read")
        assert state("t") == "put off"
        assert capture.run("resume", "-t", f"{source.schema}.t", "--keep").status == 0
        wait_until(lambda: state("t") is None, 30, "the reread of the first one is dropped")
        run("UPDATE u SET c = c + 1")
    capture.catch_up()
    assert capture.differences({f"{source.schema}.u": ["id"]}) == []
    newest = ChangeLog(capture.log).summary().newest(f"{source.schema}/u")
    assert newest is not None and newest.number == 2
    assert "the type of a column does not go with the earlier one " in newest.why
