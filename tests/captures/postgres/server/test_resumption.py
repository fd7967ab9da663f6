"""A position that the server's log cannot be gone on from is found when the capture opens, and said precisely."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from psycopg.pq import ExecStatus

from tests.captures.postgres.log_reading import binding
from tests.captures.remedies import statements
from tests.captures.session import begin
from tests.captures.source_tables import USERS, end_of_log, prepare
from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.postgres.database import PostgresDatabase
from tidemark.captures.postgres.server.config import parse_endpoint, parse_resource
from tidemark.captures.postgres.server.positions import format_lsn, parse_lsn
from tidemark.captures.postgres.server.resumption import ServerLog, Slot, check_log
from tidemark.captures.postgres.server.session import connect_pq
from tidemark.captures.postgres.source import PostgresSource
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import CaptureSpec, JsonObject
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import (
    Connection,
    Database,
    Postgres,
    fresh_database,
    own_server,
    read_settings_again,
)
from tidemark.testing.servers.postgres_standby import promote, replayed, standby_of


@contextmanager
def opened(database: Postgres, name: str, **config: Any) -> Iterator[PostgresSource]:
    bound = [binding("users")]
    settings = parse_endpoint({**database.config(name), "slot": name[-60:], **config})
    resources = [parse_resource(one.resource_config) for one in bound]
    with closing(PostgresSource(settings, bound, resources)) as source:
        yield source


def applied(database: Database, **config: Any) -> tuple[str, JsonObject]:
    """Where a capture of users stands that has just begun: cursor and identity."""
    settings = {**database.config(), "slot": database.name[-60:], **config}
    begin(PostgresDatabase(), CaptureSpec(config=settings, bindings=[binding("users")]))
    with opened(database, database.name) as source:
        return source.format_position(end_of_log(database)), source.identity()


def lost(database: Postgres, name: str, cursor: str, identity: JsonObject, code: str, text: str) -> LostPosition:
    with opened(database, name) as source, pytest.raises(LostPosition, match=text) as raised:
        source.start_position(cursor, identity)
    assert raised.value.code == code
    assert "on_lost_position: backfill" in raised.value.remedy
    return raised.value


def starts_over(database: Postgres, name: str) -> None:
    """The slot is made anew, from now on."""
    with opened(database, name) as source:
        position = source.start_over()
        assert source.start_position(source.format_position(position), source.identity()) == position
        source.open_log(position).close()


def test_a_position_that_is_not_lost(any_database: Database) -> None:
    prepare(any_database, USERS)
    cursor, identity = applied(any_database)
    with opened(any_database, any_database.name) as source:
        assert source.start_position(cursor, identity) == parse_lsn(cursor)
        assert source.start_position(cursor, None) == parse_lsn(cursor)
        before = {name: value for name, value in identity.items() if name != "timeline"}
        assert source.start_position(cursor, before) == parse_lsn(cursor)


def test_a_slot_that_was_dropped(any_database: Database) -> None:
    prepare(any_database, USERS)
    cursor, identity = applied(any_database)
    prepare(any_database, f"SELECT pg_drop_replication_slot('{any_database.name[-60:]}')")
    lost(any_database, any_database.name, cursor, identity, "TM-PG-015", "no longer exists; the capture was at")
    starts_over(any_database, any_database.name)


def test_a_slot_that_was_made_anew(any_database: Database) -> None:
    prepare(any_database, USERS)
    cursor, identity = applied(any_database)
    prepare(
        any_database,
        f"SELECT pg_drop_replication_slot('{any_database.name[-60:]}')",
        "INSERT INTO users VALUES (1, 'between')",
    )
    applied(any_database)
    lost(any_database, any_database.name, cursor, identity, "TM-PG-015", "past the capture's")
    starts_over(any_database, any_database.name)


def test_another_server(database: Database) -> None:
    prepare(database, USERS)
    cursor, identity = applied(database)
    other = {**identity, "system": "1"}
    lost(database, database.name, cursor, other, "TM-PG-016", "the capture read system 1, but this server is")


def test_a_server_that_was_restored(database: Database) -> None:
    prepare(database, USERS)
    cursor, identity = applied(database)
    ahead = format_lsn(parse_lsn(cursor) + (1 << 40))
    lost(database, database.name, ahead, identity, "TM-PG-016", "it was restored")


def test_a_slot_of_something_else(database: Database) -> None:
    prepare(database, USERS)
    cursor, identity = applied(database)
    slot = database.name[-60:]
    prepare(
        database,
        f"SELECT pg_drop_replication_slot('{slot}')",
        f"SELECT pg_create_physical_replication_slot('{slot}')",
    )
    with opened(database, database.name) as source, pytest.raises(Exception, match=r"TM-PG-013.*physical"):
        source.start_position(cursor, identity)


@pytest.mark.parametrize("two_phase", ["true", "false"])
def test_a_slot_that_decodes_what_is_prepared(any_database: Database, two_phase: str) -> None:
    """It would be read until the first PREPARE TRANSACTION, and never beyond that."""
    slot = any_database.name[-60:]
    prepare(any_database, USERS, "CREATE PUBLICATION tidemark FOR TABLE users")
    made = f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput', false, {two_phase})"
    prepare(any_database, made)
    config = {**any_database.config(), "slot": slot, "publication": "tidemark"}
    if two_phase == "false":
        PostgresDatabase().validate(config, [binding("users")])
        return
    with pytest.raises(SourceError, match=r"TM-PG-013.*two_phase"):
        PostgresDatabase().validate(config, [binding("users")])
    with opened(any_database, any_database.name) as source, pytest.raises(SourceError, match=r"TM-PG-013.*two_phase"):
        source.start_position(None, None)


def test_a_slot_whose_two_phase_is_altered_and_turned_back_keeps_the_position(database: Database) -> None:
    prepare(database, USERS)
    cursor, identity = applied(database)
    slot = database.name[-60:]
    replication = connect_pq(parse_endpoint(database.config()), replication=True)
    try:
        if replication.server_version < 180000:
            pytest.skip("before version 18 a slot's two_phase cannot be altered")
        assert (
            replication.exec_(f"ALTER_REPLICATION_SLOT {slot} (TWO_PHASE true)".encode()).status
            == ExecStatus.COMMAND_OK
        )
        with opened(database, database.name) as source, pytest.raises(SourceError, match=r"TM-PG-013") as raised:
            source.start_position(cursor, identity)
        found = re.search(r"run (ALTER_REPLICATION_SLOT [^;]*);", raised.value.remedy)
        assert found is not None, raised.value.remedy
        assert replication.exec_(found[1].encode()).status == ExecStatus.COMMAND_OK
    finally:
        replication.finish()
    with opened(database, database.name) as source:
        assert source.format_position(source.start_position(cursor, identity)) == cursor


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"wal_status": "extended", "conflicting": False, "restart_lsn": "0/1"}, ""),
        ({"wal_status": "lost", "restart_lsn": None}, "wal_removed"),
        ({"wal_status": "lost", "conflicting": True, "restart_lsn": None}, "wal_removed"),
        ({"wal_status": "lost", "conflicting": True, "restart_lsn": "0/1"}, "rows_removed or wal_level_insufficient"),
        (
            {"wal_status": "lost", "conflicting": False, "restart_lsn": None, "invalidation_reason": "wal_removed"},
            "wal_removed",
        ),
        ({"wal_status": "unreserved", "restart_lsn": "0/1", "invalidation_reason": "idle_timeout"}, "idle_timeout"),
    ],
    ids=["sound", "15", "16", "16 standby", "17", "18"],
)
def test_why_a_slot_was_given_up_is_told_by_each_version(row: dict[str, Any], why: str) -> None:
    """As their documentation of pg_replication_slots has it; 16 calls every slot conflicting that it has given up."""
    common = {"plugin": "pgoutput", "database": "d", "confirmed_flush_lsn": "0/1", "active_pid": None}
    assert Slot.of({**common, **row}).invalidated == why


def test_timelines() -> None:
    """The history of timeline 4: 1 was left at 0/1000, 2 at 0/2000; 3 is another branch."""
    log = ServerLog("s", 4, {1: 0x1000, 2: 0x2000})
    check_log(log, None, 0x1000, {"system": "s", "timeline": 1})
    check_log(log, None, 0x2000, {"system": "s", "timeline": 2})
    check_log(log, None, 0x9000, {"system": "s", "timeline": 4})
    for timeline, known, text in [
        (1, 0x1001, "which this server left at 0/1000 for timeline 4"),
        (2, 0x2001, "which this server left at 0/2000 for timeline 4"),
        (3, 0x0001, "does not descend from it"),
        (5, 0x0001, "does not descend from it"),
    ]:
        with pytest.raises(LostPosition, match=text) as raised:
            check_log(log, None, known, {"system": "s", "timeline": timeline})
        assert raised.value.code == "TM-PG-016"


@pytest.fixture(params=[False, True], ids=["newest", "oldest"])
def tight(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A server that keeps next to no log for slots."""
    settings = {"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with own_server(settings, oldest=request.param) as server:
        yield server


def test_a_slot_that_the_server_gave_up(tight: Postgres) -> None:
    with fresh_database(tight, "given_up") as database, database.connect() as connection:
        prepare(database, USERS)
        cursor, identity = applied(database)
        status = "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'given_up'"

        def gone() -> bool:
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CREATE TABLE filler AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
            connection.execute("DROP TABLE filler")
            connection.execute("CHECKPOINT")
            return connection.execute(status).fetchone() == ("lost",)

        wait_until(gone, 60, "the server gives the slot up")
        error = lost(database, "given_up", cursor, identity, "TM-PG-015", "invalidated .*: wal_removed")
        assert "Raise max_slot_wal_keep_size" in error.remedy
        with opened(database, "given_up", create=False) as source, pytest.raises(LostPosition):
            source.start_over()
        config = {**database.config(), "slot": "given_up"}
        with pytest.raises(LostPosition, match="wal_removed"):
            PostgresDatabase().validate(config, [binding("users")])
        PostgresDatabase().validate({**config, "on_lost_position": "backfill"}, [binding("users")])
        by_hand = {**config, "create": False}
        with pytest.raises(LostPosition, match="wal_removed") as refused:
            PostgresDatabase().validate(by_hand, [binding("users")])
        prepare(database, *statements(refused.value.remedy))
        PostgresDatabase().validate(by_hand, [binding("users")])
        starts_over(database, "given_up")


@pytest.fixture
def primary() -> Iterator[Postgres]:
    with own_server() as server:
        yield server


def test_a_failover_that_takes_the_slot_along(primary: Postgres) -> None:
    if primary.version < 17:
        pytest.skip("slots go along from version 17 on")
    with fresh_database(primary, "failover") as database:
        prepare(database, USERS)
        _, identity = applied(database)
        with standby_of(primary) as standby, database.connect() as admin, standby.connect() as other:
            _name_database(other, "failover")

            def copied() -> bool:
                """The slot is copied once its reader has passed where the standby began, and stays from then on."""
                admin.execute("SELECT pg_log_standby_snapshot()")
                moved = admin.execute(
                    "SELECT end_lsn::text FROM pg_replication_slot_advance('failover', pg_current_wal_lsn())"
                ).fetchone()
                # Version 17 refuses to copy a slot that is ahead of the standby.
                passed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
                wait_until(lambda: other.execute(passed, moved).fetchone() == (True,), 30, "the standby is as far")
                other.execute("SELECT pg_sync_replication_slots()")
                found = "SELECT synced AND NOT temporary FROM pg_replication_slots WHERE slot_name = 'failover'"
                return other.execute(found).fetchone() == (True,)

            wait_until(copied, 30, "the slot is copied")
            prepare(database, "INSERT INTO users VALUES (1, 'before')")
            cursor = format_lsn(end_of_log(database))
            with opened(standby, "failover") as source, pytest.raises(Exception, match=r"TM-PG-013.*follows"):
                source.start_position(None, None)
            not_yet(standby, cursor, identity)
            replayed(database, standby)
            assert primary.server is not None
            primary.server.stop("immediate")
            promote(standby)
            with opened(standby, "failover") as source:
                # The copy stands where the slot did; what was read since lies on both timelines.
                assert source.start_position(cursor, identity) == parse_lsn(cursor)
                assert source.identity()["timeline"] == 2
                source.open_log(parse_lsn(cursor)).close()
            ahead = format_lsn(parse_lsn(cursor) + (1 << 30))
            lost(standby, "failover", ahead, identity, "TM-PG-016", "which this server left at")
            primary.server.start()


def test_a_failover_that_leaves_the_slot_behind(primary: Postgres) -> None:
    with fresh_database(primary, "failover") as database:
        prepare(database, USERS)
        cursor, identity = applied(database)
        with standby_of(primary) as standby:
            replayed(database, standby)
            not_yet(standby, cursor, identity)
            assert primary.server is not None
            primary.server.stop("immediate")
            promote(standby)
            error = lost(standby, "failover", cursor, identity, "TM-PG-015", "no longer exists")
            assert "sync_replication_slots" in error.remedy
            starts_over(standby, "failover")
            primary.server.start()


def not_yet(standby: Postgres, cursor: str, identity: JsonObject) -> None:
    """A name that leads to the standby for a moment, before it takes over, is no reason to empty tables."""
    with opened(standby, "failover", on_lost_position="backfill") as source:
        with pytest.raises(SourceError, match=r"TM-PG-020.*is its standby") as raised:
            source.start_position(cursor, identity)
        assert not isinstance(raised.value, LostPosition)
        assert source.identity()["standby"] is True


def _name_database(standby: Connection, database: str) -> None:
    """The worker that copies slots needs a database to connect to."""
    found = standby.execute("SHOW primary_conninfo").fetchone()
    assert found is not None
    named = f"{found[0]} dbname={database}".replace("'", "''")
    standby.execute(f"ALTER SYSTEM SET primary_conninfo = '{named}'".encode())
    read_settings_again(standby)
