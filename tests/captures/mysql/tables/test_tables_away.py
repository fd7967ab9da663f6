"""Tables that are set aside on MySQL and MariaDB: what privileges and statements do to them, and how they come back."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tests.captures.impatient import aside_of, impatient, is_set_aside
from tests.captures.mysql.server.test_prerequisites import account
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Session, bindings, session
from tidemark.testing.servers.mariadb import Database

SECONDS = 60


def _tables(database: Database) -> list[Json]:
    for table in ("users", "orders"):
        run(database, f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT)", f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    return bindings(f"{database.name}.users", f"{database.name}.orders")


def _capture(
    config: dict[str, Any], bound: list[Json], state: Json | None = None, *, stop: bool = False
) -> AbstractContextManager[Session]:
    return session(config, bound, state, stop=stop, command=impatient("tidemark.connectors.mysql"))


def test_a_table_that_may_not_be_read_for_a_while(binlog_database: Database) -> None:
    """The same table, of which nothing was passed over: it goes on where it stood."""
    name = binlog_database.name
    bound = _tables(binlog_database)
    monitor = "REPLICATION CLIENT" if binlog_database.is_mysql else "BINLOG MONITOR"
    user = f"{name[-20:]}_some"
    grants = [f"REPLICATION SLAVE, {monitor} ON *.*", f"SELECT ON {name}.users", f"SELECT ON {name}.orders"]
    with account(binlog_database, user, *grants) as config:
        with _capture(config, bound, stop=True) as first:
            assert first.finish() == 0, first.last_words()
        run(binlog_database, f"REVOKE SELECT ON {name}.orders FROM '{user}'@'%'", "INSERT INTO users VALUES (3, 3)")
        with _capture(config, bound, first.state) as second:
            second.until(lambda c: is_set_aside(c, "orders") and (3,) in c.rows(0), SECONDS)
            found = aside_of(second, "orders")
            assert found is not None and found["code"] == "TM-MY-007" and "passed" not in found
            run(binlog_database, f"GRANT SELECT ON {name}.orders TO '{user}'@'%'")
            second.until(lambda c: aside_of(c, "orders") is None, SECONDS)
            run(binlog_database, "INSERT INTO orders VALUES (3, 3)")
            second.until(lambda c: (3,) in c.rows(1))
            assert [doc["id"] for binding, doc in second.documents if binding == 1] == [3]


def test_a_table_that_loses_its_key(binlog_database: Database) -> None:
    bound = _tables(binlog_database)
    with _capture(binlog_database.config(), bound) as capture:
        capture.until(Session.done)
        run(binlog_database, "ALTER TABLE orders DROP PRIMARY KEY", "INSERT INTO orders VALUES (2, 3)")
        capture.until(lambda c: is_set_aside(c, "orders"), SECONDS)
        capture.until(lambda c: (aside_of(c, "orders") or {}).get("passed"))
        found = aside_of(capture, "orders")
        assert found is not None and found["code"] == "TM-MY-009"
        run(
            binlog_database,
            "INSERT INTO users VALUES (3, 3)",
            "DELETE FROM orders WHERE n = 2",
            "ALTER TABLE orders ADD PRIMARY KEY (id)",
        )
        capture.until(lambda c: aside_of(c, "orders") is None and c.rows(1).get((2,)) == {"id": 2, "n": 3}, SECONDS)
        assert (3,) in capture.rows(0)


def test_a_schema_that_is_dropped(binlog_database: Database) -> None:
    """The log does not name its tables."""
    other = f"{binlog_database.name}_other"
    bound = _tables(binlog_database)[:1]
    make = [
        f"CREATE DATABASE {other}",
        f"CREATE TABLE {other}.t (id INT PRIMARY KEY)",
        f"INSERT INTO {other}.t VALUES (1)",
    ]
    run(binlog_database, *make)
    try:
        with _capture(binlog_database.config(), [*bound, *bindings(f"{other}.t")]) as capture:
            capture.until(Session.done)
            run(binlog_database, f"DROP DATABASE {other}")
            capture.until(lambda c: is_set_aside(c, "t"), SECONDS)
            run(binlog_database, "INSERT INTO users VALUES (3, 3)")
            capture.until(lambda c: (3,) in c.rows(0))
            run(binlog_database, *make, f"INSERT INTO {other}.t VALUES (2)")
            capture.until(lambda c: aside_of(c, "t") is None and c.rows(1).keys() == {(1,), (2,)}, SECONDS)
    finally:
        run(binlog_database, f"DROP DATABASE IF EXISTS {other}")
