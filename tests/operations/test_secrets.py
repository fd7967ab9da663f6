"""A secret that is rotated does not end a capture, in whichever order it is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.operations.status import is_caught_up, report, status
from tests.operations.test_lag import slot_of
from tests.workload.tables import create_tables
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

OLD, NEW = "the-old-password", "the-new-password"


@pytest.mark.drawn(1)
@pytest.mark.parametrize("first", ["the source", "the file"])
def test_a_password_that_is_rotated(database: Database, tmp_path: Path, first: str) -> None:
    create_tables(database, 20)
    user = database.name
    secret = tmp_path / "password"
    secret.write_text(f"{OLD}\n")
    config = {**slot_of(database), "user": user, "password": {"file": "password"}}
    capture = Capture(tmp_path, database, config)
    with database.connect() as admin:
        admin.execute(f"CREATE ROLE {user} SUPERUSER LOGIN REPLICATION PASSWORD '{OLD}'".encode())
        try:
            with capture.start() as running:
                wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
                if first == "the file":
                    secret.write_text(f"{NEW}\n")
                admin.execute(f"ALTER ROLE {user} PASSWORD '{NEW}'".encode())
                admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [user])
                wait_until(lambda: (report(capture)["error"] or {}).get("code") == "TM-PG-002", 60, "it is refused")
                if first == "the source":
                    told = status(capture)
                    assert told.exit_status == (1, 1) and "what to do: Check user and password" in told.text
                    secret.unlink()  # As a tool may replace it.
                    wait_until(lambda: (report(capture)["error"] or {}).get("code") == "TM-CFG-003", 60, "it is away")
                    secret.write_text(f"{NEW}\n")
                wait_until(lambda: status(capture).exit_status == (0, 0), 90, "it goes on")
                assert running.running
                admin.execute("UPDATE accounts SET name = name || '.'")
                wait_until(lambda: capture.differences() == [], 60, "it captures")
                assert OLD not in capture.output.read_text() and NEW not in capture.output.read_text()
        finally:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [user])
            admin.execute(f"DROP OWNED BY {user}; DROP ROLE {user}".encode())


def test_a_password_that_is_wrong_from_the_start_is_an_error_at_once(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    capture = Capture(tmp_path, database, {**slot_of(database), "password": "this-is-not-the-password"})
    ended = capture.run("capture")
    assert (ended.status, "TM-PG-002" in ended.said) == (1, True), ended.said
