"""A table that cannot be read is left alone, and everything else goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.captures.session import Json, Session, apply, bindings, session
from tests.captures.source_tables import FILL, USERS, endpoint, prepare, table_rows
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.postgres import Database

BOTH = bindings("public.users", "public.secrets")
SECRETS = ["CREATE TABLE secrets (id int PRIMARY KEY)", "INSERT INTO secrets SELECT generate_series(1, 100)"]
ALL_SECRETS = "SELECT id FROM secrets"


@contextmanager
def reader_of_users(database: Database) -> Iterator[Json]:
    """The configuration of a role that may stream all and read only users."""
    prepare(database, USERS, FILL, *SECRETS)
    config = endpoint(database)
    apply(config, BOTH)
    role = f"{database.name}_reader"
    prepare(
        database,
        f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'x'",
        f"GRANT SELECT ON users TO {role}",
    )
    try:
        yield {**config, "user": role, "password": "x"}
    finally:
        prepare(database, f"REVOKE ALL ON users, secrets FROM {role}", f"DROP ROLE {role}")


def status_of(capture: Session, table: str) -> Json:
    lines = [line for line in capture.logs if line.get("eventType") == "connectorStatus"]
    found: Json = lines[-1]["fields"]["tables"][table] if lines else {}
    return found


def test_the_others_go_on_and_a_command_takes_it_up_again(database: Database) -> None:
    with reader_of_users(database) as config, session(config, BOTH) as capture:
        capture.until(lambda c: len(c.rows(0)) == 1000)
        prepare(database, "UPDATE users SET name = 'x' WHERE id = 1", "INSERT INTO secrets VALUES (1000)")
        capture.until(lambda c: c.rows(0) == table_rows(database))
        capture.until(lambda c: c.rows(1) == {(1000,): {"id": 1000}})
        failed = capture.state["bindings"]["public%2Fsecrets"]["failed"]
        assert failed["code"] == "TM-PG-008" and "secrets" in failed["text"]
        wait_until(lambda: status_of(capture, "public.secrets").get("state") == "failed", 20, "the status says so")
        assert "TM-PG-008" in status_of(capture, "public.secrets")["error"]
        assert not capture.done()
        prepare(database, f"GRANT SELECT ON secrets TO {config['user']}")
        capture.send({"control": {"sequence": 1, "action": "resume", "tables": ["public.secrets"]}})
        capture.until(lambda c: c.done() and c.rows(1) == table_rows(database, ALL_SECRETS))
        assert "failed" not in capture.state["bindings"]["public%2Fsecrets"]


def test_a_capture_that_is_to_end_when_all_is_done_names_it(database: Database) -> None:
    with reader_of_users(database) as config:
        with session(config, BOTH, stop=True) as capture:
            assert capture.finish() == 1
            assert capture.rows(0) == table_rows(database)
            last = capture.logs[-1]
            assert last["fields"]["code"] == "TM-CAP-003"
            assert "public.secrets" in last["message"] and "TM-PG-008" in last["message"]
        prepare(database, f"GRANT SELECT ON secrets TO {config['user']}")
        with session(config, BOTH, capture.state, stop=True) as again:
            assert again.finish() == 0
            assert again.rows(1) == table_rows(database, ALL_SECRETS)
            assert again.rows(0) == {}, "what was done is not read again"


@pytest.mark.heavy
@pytest.mark.drawn(1)
@pytest.mark.parametrize("scan", ["key", "physical"])
def test_a_locked_table_does_not_hold_up_the_log(database: Database, scan: str) -> None:
    prepare(database, USERS, FILL, *SECRETS, "INSERT INTO secrets SELECT generate_series(101, 5000)")
    bound = bindings("public.users", "public.secrets", scan=scan)
    # Readers that have nothing to do ask where the table can be cut.
    config = endpoint(database, backfill={"readers": 4, "chunk_rows": 20})
    apply(config, bound)
    with database.connect(autocommit=False) as locker, session(config, bound) as capture:
        capture.until(lambda c: len(c.rows(1)) >= 100)
        locker.execute("LOCK TABLE secrets IN ACCESS EXCLUSIVE MODE")
        capture.until(lambda c: len(c.rows(0)) == 1000)
        for number in range(40):
            prepare(database, f"UPDATE users SET name = 'new {number}' WHERE id = 1")
            capture.until(lambda c, name=f"new {number}": c.rows(0)[1,]["name"] == name, 10)  # type: ignore[misc]
        assert not any("reconnecting" in line["message"] for line in capture.logs)
        locker.rollback()
        capture.until(lambda c: c.done() and len(c.rows(1)) == 5000)


def test_a_table_that_is_locked_at_the_start_holds_up_no_other(database: Database) -> None:
    prepare(database, USERS, FILL, *SECRETS)
    config = endpoint(database)
    apply(config, BOTH)
    with session(config, BOTH, stop=True) as capture:
        assert capture.finish() == 0
    with database.connect(autocommit=False) as locker:
        locker.execute("LOCK TABLE secrets IN ACCESS EXCLUSIVE MODE")
        with session(config, BOTH, capture.state) as again:
            prepare(database, "INSERT INTO users VALUES (5000, 'followed')")
            again.until(lambda c: (5000,) in c.rows(0))


def test_a_locked_table_holds_up_no_other(database: Database) -> None:
    prepare(database, USERS, FILL, *SECRETS, "INSERT INTO secrets SELECT generate_series(101, 2000)")
    config = endpoint(database, backfill={"readers": 2, "chunk_rows": 50, "max_rate": "1000 rows"})
    apply(config, BOTH)
    with database.connect(autocommit=False) as locker, session(config, BOTH) as capture:
        capture.until(lambda c: len(c.rows(1)) >= 100)
        locker.execute("LOCK TABLE secrets IN ACCESS EXCLUSIVE MODE")
        capture.until(lambda c: len(c.rows(0)) == 1000)
        assert len(capture.rows(1)) < 2000
        locker.rollback()
        capture.until(lambda c: c.done() and len(c.rows(1)) == 2000)
