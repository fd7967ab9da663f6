"""Receivers are told what happens to a capture of a real source."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.operations.test_lag import slot_of
from tests.runtime.notifications.receiving import receiving
from tests.warm_command import warm_command
from tests.workload.tables import create_tables, source_of
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database


def test_a_backfill_a_table_that_is_dropped_and_the_end(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    with receiving() as hook, receiving() as pager:
        receivers = [{"url": hook.url}, {"url": pager.url, "on": ["capture_failed"]}]
        tables = ["public.accounts", "public.labels"]
        command = warm_command("tests.captures.impatient", "1", "0.2", source_of(database).connector)
        entries = {"notify": {"to": receivers}}
        capture = Capture(tmp_path, database, slot_of(database), {"command": command}, tables=tables, entries=entries)
        with capture.start():
            wait_until(lambda: "backfill_done" in hook.events, 60, "the backfill is told")
            with database.connect() as connection:
                connection.execute("DROP TABLE labels")
            wait_until(lambda: "table_set_aside" in hook.events, 90, "the table is told")
        (aside,) = [body for body in hook.bodies if body["event"] == "table_set_aside"]
        assert aside["capture"] == "test"
        assert [table["table"] for table in aside["tables"]] == ["public.labels"]
        assert aside["tables"][0]["error"].startswith("TM-PG-007") and aside["tables"][0]["remedy"]
        assert {table["table"] for body in hook.bodies[:-1] for table in body["tables"]} <= set(tables)
        assert pager.events == []
        before = len(hook.events)
        with database.connect() as connection:
            connection.execute(f"SELECT pg_drop_replication_slot('{capture.config['slot']}')".encode())
        assert capture.run("capture", "--until-caught-up").status == 1
        assert (pager.events, hook.events[before:]) == (["capture_failed"], ["capture_failed"])
        assert pager.bodies[0]["code"] == "TM-PG-015" and pager.bodies[0]["remedy"]


@pytest.mark.parametrize("url", ["ftp://secret.example/key", "http://[secret"])
def test_a_url_that_is_none(database: Database, tmp_path: Path, url: str) -> None:
    capture = Capture(tmp_path, database, entries={"notify": {"to": [{"url": url}]}})
    told = capture.run("capture")
    assert told.status == 2 and "TM-CFG-012" in told.said and "secret" not in told.said
