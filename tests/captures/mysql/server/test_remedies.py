"""What an error says to run is run as it stands, with names that have to be quoted, and the error is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.server.test_prerequisites import bound
from tests.captures.mysql.table_chunks import run
from tests.captures.remedies import STATEMENT, statements
from tidemark.captures.mysql.error_codes import CODES
from tidemark.captures.mysql.server.session import connect
from tidemark.captures.mysql.tables.bindings import bound_tables
from tidemark.captures.mysql.tables.prerequisites import unmet
from tidemark.captures.mysql.terms.config import parse_endpoint, parse_resource
from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.mariadb import Database

TABLE = "T 1; `odd`"
QUOTED = "`T 1; ``odd```"
USER = "The 'cdc' \"\\ `user"
ACCOUNT = "'The ''cdc'' \"\\\\ `user'@'%'"


@contextmanager
def account(database: Database, *grants: str) -> Iterator[dict[str, Any]]:
    """A user whose name has to be quoted; the configuration to connect as it."""
    run(database, f"CREATE USER {ACCOUNT} IDENTIFIED BY 'x'", *(f"GRANT {grant} TO {ACCOUNT}" for grant in grants))
    try:
        yield {**database.config(), "user": USER, "password": "x"}
    finally:
        run(database, f"DROP USER {ACCOUNT}")


def failures(database: Database, *tables: str, **config: Any) -> dict[str, SourceError]:
    """Every unmet prerequisite, by its code."""
    settings = parse_endpoint({**database.config(), **config})
    resources = [parse_resource(bound(database, table).resource_config) for table in tables]
    with closing(connect(settings)) as session:
        return {
            error.code: error for error in unmet(session, settings, resources, bound_tables(session, resources)).all
        }


def follow(database: Database, error: SourceError) -> None:
    run(database, *statements(error.remedy))


def monitor(database: Database) -> str:
    return "REPLICATION CLIENT" if database.is_mysql else "BINLOG MONITOR"


def test_privileges(binlog_database: Database) -> None:
    run(binlog_database, f"CREATE TABLE {QUOTED} (id INT PRIMARY KEY)", "CREATE TABLE seen (id INT PRIMARY KEY)")
    with account(binlog_database, f"SELECT ON {binlog_database.name}.seen") as config:
        for _ in range(2):  # a table that may not be read shows itself once there is any right to it
            found = failures(binlog_database, TABLE, **config)
            for code in found.keys() & {"TM-MY-006", "TM-MY-008"}:
                follow(binlog_database, found[code])
            run(binlog_database, f"GRANT INSERT ON {binlog_database.name}.{QUOTED} TO {ACCOUNT}")
        assert failures(binlog_database, TABLE, **config) == {}


def test_an_account_without_grants(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with account(binlog_database) as config:
        found = failures(binlog_database, **config)
        assert found.keys() == {"TM-MY-006", "TM-MY-008"}
        for error in found.values():
            run(binlog_database, *(each.replace("SCHEMA", binlog_database.name) for each in statements(error.remedy)))
        assert failures(binlog_database, **config) == failures(binlog_database, "t", **config) == {}


def test_an_anonymous_account(binlog_database: Database) -> None:
    """The server takes a user for it whose own account is for hosts that are less exact."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with account(binlog_database, "ALL ON *.*") as config:
        for password in ("x", "another"):
            run(binlog_database, f"CREATE USER ''@'127.0.0.1' IDENTIFIED BY '{password}'")
            if password == "x":
                follow(binlog_database, failures(binlog_database, "t", **config)["TM-MY-006"])
            else:
                with pytest.raises(SourceError) as refused:
                    failures(binlog_database, "t", **config)
                (_, drop) = statements(str(refused.value.remedy))
                run(binlog_database, drop.replace("HOST", "127.0.0.1"))
            assert failures(binlog_database, "t", **config) == {}


def test_the_log_is_refused(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    grants = [f"SELECT ON {binlog_database.name}.*", f"{monitor(binlog_database)}, REPLICATION SLAVE ON *.*"]
    with account(binlog_database, *grants) as config, captured_log(binlog_database, "t", **config) as log:
        run(binlog_database, f"REVOKE REPLICATION SLAVE ON *.* FROM {ACCOUNT}")
        with pytest.raises(SourceError) as refused:
            log.log.reconnect()
            log.read()
        assert refused.value.code == "TM-MY-006", refused.value
        follow(binlog_database, refused.value)
        log.log.reconnect()
        run(binlog_database, "INSERT INTO t VALUES (1)")
        assert [document["id"] for document in log.read()] == [1]


def test_a_table_with_a_history(mariadb_database: Database) -> None:
    run(mariadb_database, f"CREATE TABLE {QUOTED} (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
    found = failures(mariadb_database, TABLE)
    assert found.keys() == {"TM-MY-007"}
    follow(mariadb_database, found["TM-MY-007"])
    assert failures(mariadb_database, TABLE) == {}


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("binlog_format", "'MIXED'", "TM-MY-005"),
        ("binlog_row_image", "'MINIMAL'", "TM-MY-005"),
        ("binlog_expire_logs_seconds", "43200", "TM-MY-012"),
        ("expire_logs_days", "0.5", "TM-MY-012"),
        ("server_id", "0", "TM-MY-011"),
    ],
)
def test_settings(binlog_database: Database, name: str, value: str, code: str) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with closing(connect(parse_endpoint(binlog_database.config()))) as session:
        known = session.variable(name)
    if known is None or name == ("expire_logs_days" if binlog_database.is_mysql else "server_id"):
        pytest.skip(f"{name} is not this server's, or takes no such value")
    with global_setting(binlog_database, name, value):
        found = failures(binlog_database, "t")
        assert code in found, found
        follow(binlog_database, found[code])
        assert code not in failures(binlog_database, "t")


def test_accounts_that_are_not_let_in(binlog_database: Database) -> None:
    """What only an administrator knows, the account's host and a new password, the statements have in capitals."""
    with account(binlog_database) as config:
        for shut in ("ACCOUNT LOCK", "PASSWORD EXPIRE"):
            run(binlog_database, f"ALTER USER {ACCOUNT} {shut}")
            with pytest.raises(SourceError) as refused:
                connect(parse_endpoint(config))
            assert refused.value.code == "TM-MY-002"
            remedy = refused.value.remedy
            (asking,) = [each for each in statements(remedy) if each.startswith("SELECT")]
            with binlog_database.connect() as connection, connection.cursor() as cursor:
                cursor.execute(asking)
                assert cursor.fetchall() in (["%"], [("%",)], (("%",),))
            filled = remedy.replace("'HOST'", "'%'").replace("NEW PASSWORD", "x")
            run(binlog_database, *(each for each in statements(filled) if each.startswith("ALTER")))
            connect(parse_endpoint(config)).close()


OTHERS = [
    # Of errors that these servers do not give: GTIDs are on, nobody tried passwords, certificates are trusted.
    ("TM-MY-011", "SET GLOBAL binlog_order_commits = ON;"),
    ("TM-MY-002", "FLUSH PRIVILEGES;"),
    ("TM-MY-001", "SHOW VARIABLES LIKE 'ssl_ca';"),
]
SAID = OTHERS + sorted({(entry.code, each) for entry in CODES for each in STATEMENT.findall(entry.remedy)})


@pytest.mark.parametrize(("code", "statement"), SAID)
def test_statements_that_are_only_tried(binlog_database: Database, code: str, statement: str) -> None:
    """Where the error cannot be provoked here: the server takes them."""
    if "rds_" in statement:
        pytest.skip("a procedure of Amazon's own")
    setting = re.match(r"SET GLOBAL (\w+)", statement)
    with ExitStack() as kept:
        if setting is not None:
            with closing(connect(parse_endpoint(binlog_database.config()))) as session:
                if session.variable(setting[1]) is None:
                    pytest.skip(f"this server has no {setting[1]}")
            kept.enter_context(global_setting(binlog_database, setting[1], f"@@GLOBAL.{setting[1]}"))
        run(binlog_database, statement)
