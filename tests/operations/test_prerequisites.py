"""What a server lacks for a capture, or lost while it runs, is told within seconds, and goes by the remedy."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

from tests.end_to_end.capture import Capture
from tests.operations.status import is_caught_up, report, status
from tests.operations.test_lag import slot_of
from tests.workload.tables import create_tables
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, drop_slot

WITHIN_SECONDS = 5


def run(database: Database, remedy: str) -> None:
    """Runs the SQL of a remedy."""
    with database.connect() as connection:
        for statement in re.findall(r"(?:CREATE|SELECT|GRANT|ALTER)\b[^;]*;", remedy):
            connection.execute(statement)


def test_a_slot_that_somebody_else_reads(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    slot = slot_of(database)["slot"]
    capture = Capture(tmp_path, database, {"slot": slot})
    capture.catch_up()
    with closing(database.connect(replication="database")) as other:
        start = f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names '{slot}')"
        other.pgconn.exec_(start.encode())
        reader = other.info.backend_pid
        with capture.start():
            wait_until(lambda: report(capture).get("error"), WITHIN_SECONDS, "it is told")
            told = status(capture)
            assert (told.report["error"]["code"], told.exit_status) == ("TM-PG-014", (1, 1)), told.report
            assert f"slot {slot} is in use by process {reader} " in told.text
            assert "what to do: Stop that process." in told.text
            run(database, told.report["error"]["remedy"])
            wait_until(lambda: status(capture).exit_status == (0, 0), 60, "it has the slot")


def test_a_publication_that_is_dropped(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    slot = slot_of(database)["slot"]
    capture = Capture(tmp_path, database, {"slot": slot})
    with capture.start() as running:
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        with database.connect() as connection:
            connection.execute(f"DROP PUBLICATION {slot}".encode())
            connection.execute("UPDATE accounts SET name = 'unseen'")
        wait_until(lambda: status(capture).exit_status == (1, 1), 60, "it is told")
        wait_until(lambda: not running.running, 60, "it ends")
    told = status(capture)
    assert told.report["error"]["code"] == "TM-PG-011" and "in no log" in told.text
    run(database, told.report["error"]["remedy"])
    capture.config["on_lost_position"] = "backfill"
    capture.write()
    capture.catch_up()
    assert status(capture).exit_status == (0, 0)
    assert capture.differences() == []


def test_a_user_that_may_nothing(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    role = f"{database.name}_weak"
    with database.connect() as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'a long password'".encode())
    try:
        capture = Capture(tmp_path, database, {**slot_of(database), "user": role, "password": "a long password"})
        assert capture.run("capture", "--until-caught-up").status == 1
        told = status(capture)
        assert told.exit_status == (1, 1)
        assert "TM-PG-010" in told.text and "'tidemark check FILE' lists them all" in told.text
        said = capture.run("check").said
        run(database, " ".join(said.split()))
        capture.catch_up()
        assert status(capture).exit_status == (0, 0) and capture.differences() == []
    finally:
        drop_slot(database, slot_of(database)["slot"])
        with database.connect() as connection:
            connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
