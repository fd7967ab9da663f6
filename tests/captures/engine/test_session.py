"""A capture session's life, against a real server: where it begins and goes on, what it waits for, how it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.captures.session import Json, Session, apply, session
from tests.captures.source_tables import BOUND, FILL, USERS, end_of_log, endpoint, prepare, table_rows
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database, drop_slot


def test_the_slot_moves_on_acknowledgement_only(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)

    def confirmed() -> int:
        with database.connect() as connection:
            row = connection.execute(
                "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s", [config["slot"]]
            ).fetchone()
        assert row is not None
        return parse_lsn(row[0])

    before = confirmed()
    with session(config, BOUND) as capture:
        capture.until(Session.done, acknowledge=False)
        prepare(database, "UPDATE users SET name = 'x'")
        capture.until(lambda c: len(c.documents) >= 2000, acknowledge=False)
        assert confirmed() == before
        capture.acknowledge()
        wait_until(lambda: confirmed() >= parse_lsn(capture.state["cursor"]), 20, "the slot moves")


def test_an_idle_capture_moves_its_slot_past_what_other_tables_write(database: Database) -> None:
    prepare(database, USERS, "CREATE TABLE other (id int)")
    config = endpoint(database, heartbeat_seconds=0.3)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(database, "INSERT INTO other SELECT generate_series(1, 1000)")
        written = end_of_log(database)
        capture.until(lambda c: parse_lsn(c.state["cursor"]) >= written)
        assert capture.documents == []


def _fails_with(code: str, config: Json, state: Json, prepare: Callable[[], None] = lambda: None) -> None:
    prepare()
    with session(config, BOUND, state) as capture:
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == code
        assert capture.documents == []


def test_a_lost_position_is_found_before_anything_is_emitted(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND, stop=True) as capture:
        assert capture.finish() == 0
    state = capture.state

    # The position is ahead of the server: it was restored from a backup.
    _fails_with("TM-PG-016", config, {**state, "cursor": "FFFF/0"})
    # Another server.
    _fails_with("TM-PG-016", config, {**state, "source": {"system": "1"}})
    # A slot that was dropped, and one that was made again past our position.
    drop_slot(database, config["slot"])
    _fails_with("TM-PG-015", config, state)
    prepare(database, "INSERT INTO users VALUES (-1, 'between')")
    apply(config, BOUND)
    _fails_with("TM-PG-015", config, state)


@pytest.mark.heavy
def test_a_slot_in_use_names_who_uses_it(database: Database) -> None:
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as first:
        first.until(Session.done)
        with session(config, BOUND) as second:
            assert second.finish() == 1
            assert second.logs[-1]["fields"]["code"] == "TM-PG-014"
            assert "tidemark" in second.logs[-1]["message"]


def test_what_comes_on_stdin_while_capturing(database: Database) -> None:
    prepare(database, USERS)
    config = endpoint(database)
    apply(config, BOUND)
    for line, code in [
        (b"not json\n", "TM-PRO-001"),
        (b'{"spec":{}}\n', "TM-PRO-004"),
        (b'{"acknowledge":{"checkpoints":"many"}}\n', "TM-PRO-003"),
        (b'{"acknowledge":{"checkpoints":99}}\n', "TM-PRO-007"),
    ]:
        with session(config, BOUND) as capture:
            capture.until(Session.done, acknowledge=False)
            capture.send(line)
            assert capture.finish() == 1
            assert capture.logs[-1]["fields"]["code"] == code


def test_the_end_of_stdin_ends_a_capture_well(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        assert capture.process.stdin is not None
        capture.process.stdin.close()
        assert capture.process.wait(timeout=60) == 0


def test_a_missing_privilege_to_publish_is_an_error_with_the_statement(database: Database) -> None:
    role = f"{database.name}_cdc"
    prepare(database, USERS, f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'", f"GRANT SELECT ON users TO {role}")
    try:
        config = endpoint(database, user=role, password="x")
        with session(config, BOUND) as capture:
            assert capture.finish() == 1
            last = capture.logs[-1]["fields"]
        assert last["code"] == "TM-PG-011"
        assert 'CREATE PUBLICATION "tidemark" FOR TABLE ONLY "public"."users"' in last["remedy"]
    finally:
        with database.connect() as connection, connection.transaction():
            connection.execute(f"REVOKE ALL ON users FROM {role}")
            connection.execute(f"DROP ROLE {role}")


def test_a_chunk_holds_no_snapshot_longer_than_itself(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database, backfill={"chunk_rows": 50})
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        with database.connect() as connection:
            open_transactions = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemark' AND xact_start IS NOT NULL"
                " AND backend_type = 'client backend' AND datname = current_database()"
            ).fetchone()
        assert open_transactions == (0,)


def test_the_source_is_not_written_to_when_read_only(database: Database) -> None:
    prepare(database, USERS, FILL)
    config = endpoint(database)
    apply(config, BOUND)
    with session({**config, "read_only": True, "backfill": {"chunk_rows": 200}}, BOUND, stop=True) as capture:
        assert capture.finish() == 0
        assert capture.rows() == table_rows(database)
