"""What the slot keeps: it moves on while others write, and when it keeps too much, that is said, and why."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.captures.postgres.log_reading import capturing
from tests.captures.session import Session, apply, session
from tests.captures.source_tables import BOUND, USERS, end_of_log, endpoint, prepare
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, Postgres, fresh_database, own_server

MB = 1 << 20
LIMIT = 32 * MB


def test_an_hour_of_traffic_in_another_database_only(any_database: Database, any_postgres: Postgres) -> None:
    """With heartbeats of 0.2 s instead of 10 s: what is written in an hour of heartbeats, six times the limit."""
    prepare(any_database, USERS)
    config = endpoint(any_database, heartbeat_seconds=0.2)
    apply(config, BOUND)
    retained = (
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint"
        " FROM pg_replication_slots WHERE slot_name = %s"
    )
    most, written = 0, 0
    with (
        session(config, BOUND) as capture,
        fresh_database(any_postgres, f"{any_database.name}_other") as other,
        other.connect() as writer,
    ):
        capture.until(Session.done)
        writer.execute("CREATE TABLE filler (text text)")

        def kept() -> int:
            row = writer.execute(retained, [config["slot"]]).fetchone()
            assert row is not None
            return int(row[0])

        while written < 6 * LIMIT:
            # restart_lsn follows the log's records of running transactions, which the server writes every 15 s.
            writer.execute("INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 4000) i")
            writer.execute("CHECKPOINT")
            written += 4 * MB
            seen = capture.checkpoints
            capture.until(lambda c, seen=seen: c.checkpoints > seen)  # type: ignore[misc]
            most = max(most, kept())
        assert capture.documents == []
        assert most < LIMIT


UNCONFIRMED = 64 * MB
"""Of a capture that has nothing to say: a checkpoint comes after 16 MB, and more is written until it counts."""


def test_an_idle_capture_beside_busy_tables_confirms_what_they_write(any_database: Database) -> None:
    """Long before the heartbeat: in ten seconds they write much more."""
    prepare(any_database, USERS, "CREATE TABLE filler (text text)")
    config = endpoint(any_database)
    unconfirmed = (
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint"
        " FROM pg_replication_slots WHERE slot_name = %s"
    )

    def write() -> int:
        with any_database.connect() as writer:
            begun = end_of_log(any_database)
            while end_of_log(any_database) - begun < 4 * UNCONFIRMED:
                writer.execute("INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 2000) i")
            return end_of_log(any_database)

    most = 0
    with (
        session(config, BOUND) as capture,
        any_database.connect() as admin,
        ThreadPoolExecutor(1) as threads,
    ):
        capture.until(Session.done)
        writing = threads.submit(write)

        def watched(_: Session) -> bool:
            nonlocal most
            row = admin.execute(unconfirmed, [config["slot"]]).fetchone()
            assert row is not None
            most = max(most, row[0])
            return writing.done()

        capture.until(watched)
        end = writing.result()
        capture.until(lambda c: parse_lsn(c.state["cursor"]) > end - UNCONFIRMED // 2)
        assert capture.documents == []
    assert 0 < most < UNCONFIRMED


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if "max_retained_wal" in record.getMessage()]


def _fill(database: Database) -> None:
    prepare(database, "CREATE TABLE IF NOT EXISTS filler (text text)")
    prepare(database, "INSERT INTO filler SELECT repeat(md5(i::text), 30) FROM generate_series(1, 4000) i")


def test_a_slot_that_keeps_more_than_half_is_warned_of(database: Database, warned: Callable[[], list[str]]) -> None:
    prepare(database, USERS)
    with capturing(database, "users", max_retained_wal="4MB") as reader:
        assert (reader.source.retained().size or 0) < 2 * MB
        assert warned() == []
        _fill(database)
        assert (reader.source.retained().size or 0) > 2 * MB
        assert len(warned()) == 1
        assert "have not been read yet" in warned()[0]
        reader.source.retained()
        assert len(warned()) == 1, "it is not said every second"


def test_what_is_not_acknowledged_is_to_blame(database: Database, warned: Callable[[], list[str]]) -> None:
    prepare(database, USERS)
    with capturing(database, "users", max_retained_wal="4MB") as reader:
        _fill(database)
        reader.read()
        reader.source.retained()
        assert "but not acknowledged as durable yet" in warned()[0]


def test_a_transaction_that_stays_open_is_to_blame_and_its_tables_are_named(
    database: Database, warned: Callable[[], list[str]]
) -> None:
    prepare(database, USERS, "CREATE TABLE busy (id int)")
    with (
        capturing(database, "users", max_retained_wal="4MB") as reader,
        database.connect(autocommit=False, application_name="nightly report") as writer,
    ):
        writer.execute("INSERT INTO busy VALUES (1)")
        _fill(database)
        reader.acknowledging = True
        reader.read()
        reader.read_once()

        def confirmed() -> bool:
            reader.read_once()
            row = writer.execute(
                "SELECT confirmed_flush_lsn > restart_lsn + 3000000 FROM pg_replication_slots WHERE slot_name = %s",
                [database.name[-60:]],
            ).fetchone()
            return row == (True,)

        wait_until(confirmed, 20, "the slot is confirmed")
        reader.source.retained()
        assert "nightly report" in warned()[0]
        assert "has written to public.busy" in warned()[0]
        assert str(writer.info.backend_pid) in warned()[0]


def test_how_much_more_the_server_would_keep() -> None:
    settings = {"max_slot_wal_keep_size": "64MB", "max_wal_size": "64MB"}
    with own_server(settings) as server, fresh_database(server, "limited") as database:
        prepare(database, USERS)
        with capturing(database, "users") as reader:
            before = reader.source.retained().size or 0
            limit = reader.source.retained().limit
            assert limit is not None and 50 * MB < limit < 100 * MB
            _fill(database)
            assert (reader.source.retained().size or 0) > before + MB
            later = reader.source.retained().limit
            assert later is not None and abs(later - limit) <= 17 * MB, "it is the same, to a file of the log"


def test_without_a_limit_there_is_none(database: Database) -> None:
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        assert reader.source.retained().size is not None
        assert reader.source.retained().limit is None


def test_a_server_without_replicas(database: Database) -> None:
    prepare(database, USERS)
    with capturing(database, "users") as reader:
        assert reader.source.replica_lag() is None
