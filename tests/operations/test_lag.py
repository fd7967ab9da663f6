"""The lag is known, or said to be unknown: it is never 0 while nothing moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.capture import Capture
from tests.operations.status import is_caught_up, report, status
from tests.workload.tables import Database, create_tables, source_of
from tidemark.testing.deadline import wait_until
from tidemark.testing.halted import halted
from tidemark.testing.servers.postgres import Database as PostgresDatabase
from tidemark.testing.tcp_proxy import proxied

HEARTBEAT = {"heartbeat_seconds": 2}

WITHIN_SECONDS = 8
"""A heartbeat, the time of the status file, and that of a machine with much to do."""


def slot_of(database: Database) -> dict[str, Any]:
    return {"slot": source_of(database).config()["database"]} if hasattr(database, "dsn") else {}


@pytest.mark.drawn(1)
def test_a_network_that_passes_nothing_on(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 20)
    config = source_of(each_database).config()
    with proxied(str(config["host"]), int(config["port"])) as proxy:
        through = {**slot_of(each_database), **HEARTBEAT, "host": "127.0.0.1", "port": proxy.port}
        capture = Capture(tmp_path, each_database, through)
        with capture.start():
            wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
            assert status(capture).exit_status == (0, 0)
            proxy.stall()
            wait_until(lambda: not is_caught_up(capture), WITHIN_SECONDS, "the silence is told")
            told = status(capture)
            assert (told.report["lag_seconds"], told.report["caught_up"]) in ((None, None), (None, False))
            assert "caught up" not in told.text
            assert told.exit_status == (1, 1) and "needs you: connector silent" in told.text
            proxy.flow()
            wait_until(lambda: is_caught_up(capture), 60, "it is back")
            wait_until(lambda: status(capture).exit_status == (0, 0), 60, "all is well")


def test_a_stream_that_says_nothing_although_the_server_answers(database: PostgresDatabase, tmp_path: Path) -> None:
    create_tables(database, 20)
    slot = slot_of(database)["slot"]
    capture = Capture(tmp_path, database, {"slot": slot, **HEARTBEAT})
    reader = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'"
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        with halted(database, reader.encode()):
            wait_until(lambda: not is_caught_up(capture), WITHIN_SECONDS, "the silence is told")
            told = status(capture)
            assert (told.report["lag_seconds"], told.report["caught_up"]) == (None, False)
            assert "lag unknown" in told.text
        wait_until(lambda: is_caught_up(capture), 60, "it is back")


@pytest.mark.drawn(1)
def test_an_idle_source_gives_signs_of_life(each_database: Database, tmp_path: Path) -> None:
    create_tables(each_database, 20)
    capture = Capture(tmp_path, each_database, {**slot_of(each_database), **HEARTBEAT})
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        first = report(capture)["progress"]["status_time"]
        seen = set()

        def lines_came() -> bool:
            told = report(capture)
            assert (told["lag_seconds"], told["caught_up"]) == (0, True)
            seen.add(told["progress"]["status_time"])
            return len(seen - {first}) >= 4

        wait_until(lines_came, 60, "several heartbeats without a change")


def test_a_log_that_is_being_decoded_is_behind(database: PostgresDatabase, tmp_path: Path) -> None:
    """A transaction that was committed and did not come yet: its server has to decode all of it first."""
    create_tables(database, 20)
    slot = slot_of(database)["slot"]
    capture = Capture(tmp_path, database, {"slot": slot, "heartbeat_seconds": 60})
    reader = f"SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}'"
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        with halted(database, reader.encode()):
            before = report(capture)["events"]
            with database.connect() as connection:
                connection.execute("UPDATE accounts SET name = 'x'")  # Less than a page.
            wait_until(lambda: (report(capture)["lag_seconds"] or 0) > 1, 20, "it is behind")
            told = status(capture)
            assert told.report["caught_up"] is False and "caught up" not in told.text
        wait_until(lambda: is_caught_up(capture), 60, "it has read it")
        assert report(capture)["events"] >= before + 20
