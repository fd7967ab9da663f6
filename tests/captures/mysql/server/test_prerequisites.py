"""Requests that come before a capture: discovery, every unmet prerequisite at once, and errors of the connection."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.captures.mysql.binlog_server import binlog_server
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import documents, run, session_on, table_chunks
from tests.captures.session import unary
from tidemark.captures.mysql.database import MysqlDatabase
from tidemark.captures.mysql.server.session import Session, asking, connect
from tidemark.captures.mysql.tables.bindings import bound_tables
from tidemark.captures.mysql.tables.prerequisites import unmet
from tidemark.captures.mysql.terms.config import parse_endpoint, parse_resource
from tidemark.protocol.errors import SourceError
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import Binding
from tidemark.testing.servers.mariadb import Database, no_source
from tidemark.testing.servers.mariadb_server import MariaDbServer, installed_programs

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


def bound(database: Database, table: str, **resource: Any) -> Binding:
    return message_of(
        Binding,
        {
            "collection": {"name": table},
            "resourceConfig": {"schema": database.name, "table": table, **resource},
            "resourcePath": [database.name, table],
            "stateKey": table,
        },
    )


def failures(config: dict[str, Any], *bindings: Binding) -> dict[str, str]:
    """Messages of what validation says, by code."""
    return {said.split(": ", 1)[0]: said.split(": ", 1)[1] for said in all_failures(config, *bindings)}


def all_failures(config: dict[str, Any], *bindings: Binding) -> list[str]:
    """Code, message and remedy of each."""
    endpoint = parse_endpoint(config)
    resources = [parse_resource(binding.resource_config) for binding in bindings]
    with closing(connect(endpoint)) as opened:
        found = unmet(opened, endpoint, resources, bound_tables(opened, resources)).all
    return [f"{error.code}: {error.message} | {error.remedy}" for error in found]


@contextmanager
def account(database: Database, name: str, *grants: str) -> Iterator[dict[str, Any]]:
    """A user with these privileges; the configuration to connect as it."""
    run(database, f"CREATE USER '{name}'@'%' IDENTIFIED BY 'pässword'", *(f"GRANT {g} TO '{name}'@'%'" for g in grants))
    try:
        yield {**database.config(), "user": name, "password": "pässword"}
    finally:
        run(database, f"DROP USER '{name}'@'%'")


def test_spec_and_discovery_answer_on_the_pipe(binlog_database: Database) -> None:
    status, (answer,), _ = unary({"spec": {}}, command=COMMAND)
    assert status == 0 and answer["spec"]["resourcePathPointers"] == ["/schema", "/table"]
    assert answer["spec"]["configSchema"]["properties"]["password"]["secret"] is True
    run(
        binlog_database,
        "CREATE TABLE `a/b~c` (`k/e~y` INT PRIMARY KEY)",
        "CREATE TABLE keyless (v INT)",
        "CREATE TABLE fallback (v INT NOT NULL UNIQUE)",
    )
    status, (answer,), _ = unary({"discover": {"config": binlog_database.config()}}, command=COMMAND)
    found = {
        binding["resourceConfig"]["table"]: binding
        for binding in answer["discovered"]["bindings"]
        if binding["resourceConfig"]["schema"] == binlog_database.name
    }
    assert status == 0 and found.keys() == {"a/b~c", "keyless", "fallback"}
    assert found["a/b~c"]["key"] == ["/k~1e~0y"] and not found["a/b~c"].get("isFallbackKey")
    assert found["a/b~c"]["recommendedName"] == f"{binlog_database.name}/a/b~c"
    assert (found["keyless"]["key"], found["keyless"]["disable"]) == (["/_meta/source/cursor"], True)
    assert found["fallback"]["isFallbackKey"] and not found["fallback"].get("disable")


def test_a_good_server_is_valid_for_a_user_with_few_privileges(binlog_database: Database) -> None:
    monitor = "REPLICATION CLIENT" if binlog_database.is_mysql else "BINLOG MONITOR"
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    grants = [f"SELECT ON {binlog_database.name}.*", f"REPLICATION SLAVE, {monitor} ON *.*"]
    with account(binlog_database, "tm_few", *grants) as config:
        paths = MysqlDatabase().validate(config, [bound(binlog_database, "t")])
        assert paths == [[binlog_database.name, "t"]]


def test_foreign_keys_that_cascade_are_warned_of(binlog_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Where InnoDB deletes the children by itself, and the log does not tell."""
    run(
        binlog_database,
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE strict (id INT PRIMARY KEY REFERENCES parent (id))",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT of_p FOREIGN KEY (p) REFERENCES parent (id)"
        " ON DELETE CASCADE ON UPDATE SET NULL)",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (1, 1)",
    )
    monitor = "REPLICATION CLIENT" if binlog_database.is_mysql else "BINLOG MONITOR"
    grants = [f"SELECT ON {binlog_database.name}.*", f"REPLICATION SLAVE, {monitor} ON *.*"]
    with account(binlog_database, "tm_child", *grants) as config:
        MysqlDatabase().validate(config, [bound(binlog_database, table) for table in ("parent", "strict", "child")])
    warnings = [record.getMessage() for record in caplog.records if "foreign keys" in record.getMessage()]
    with captured_log(binlog_database, "parent", "child") as log:
        run(binlog_database, "DELETE FROM parent")
        logged = {document["_meta"]["source"]["table"] for document in log.read()}
    if logged == {"parent", "child"}:
        assert binlog_database.is_mysql and warnings == []  # from 9.6 on
    else:
        (warning,) = warnings
        assert logged == {"parent"}
        assert warning.startswith(f"{binlog_database.name}.child: ") and "of_p" in warning


def test_foreign_keys_are_seen_whatever_the_server_quotes(
    binlog_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    if binlog_database.is_mysql and binlog_database.version.startswith("9."):
        pytest.skip("the log of MySQL 9.6 and later has what foreign keys do")
    run(
        binlog_database,
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, "
        "CONSTRAINT fk FOREIGN KEY (id) REFERENCES parent (id) ON DELETE CASCADE)",
    )
    with global_setting(binlog_database, "sql_quote_show_create", "0"):
        assert all_failures(binlog_database.config(), bound(binlog_database, "child")) == []
    assert any("foreign keys fk" in record.getMessage() for record in caplog.records)


def test_a_key_that_the_server_generates_is_seen_though_it_hides_it(mysql_database: Database) -> None:
    if mysql_database.version.startswith("5."):
        pytest.skip("MySQL 5.7 generates no keys")
    with global_setting(mysql_database, "show_gipk_in_create_table_and_information_schema", "0"):
        run(mysql_database, "SET sql_generate_invisible_primary_key = 1", "CREATE TABLE t (v INT)")
        with session_on(mysql_database) as session:
            (table,) = bound_tables(session, [parse_resource({"schema": mysql_database.name, "table": "t"})])
        assert table is not None and table.key == ("my_row_id",)
        assert [column.name for column in table.columns] == ["my_row_id", "v"]
        with table_chunks(mysql_database, "t") as chunks, captured_log(mysql_database, "t") as log:
            run(mysql_database, "INSERT INTO t VALUES (7)")
            (logged,) = log.read()
            (row,) = documents(chunks.read().rows)
        assert row == {"my_row_id": 1, "v": 7} == {name: logged[name] for name in row}


def test_an_anonymous_account_that_takes_the_place_of_the_user(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with account(binlog_database, "tm_named", "ALL ON *.*") as config:
        run(binlog_database, "CREATE USER ''@'127.0.0.1' IDENTIFIED BY 'pässword'")
        try:
            message = failures(config, bound(binlog_database, "t"))["TM-MY-006"]
            assert "the anonymous account ''@'127.0.0.1'" in message and "DROP USER ''@'127.0.0.1';" in message
            assert "'tm_named'@'127.0.0.1'" in message
            with pytest.raises(SourceError, match="does not let user") as refused:
                connect(parse_endpoint({**config, "password": "another"}))
            assert "anonymous" in str(refused.value.remedy)
        finally:
            run(binlog_database, "DROP USER ''@'127.0.0.1'")


CONDITIONS = {
    "v > 1": "",
    "v > 1 -- more": "",
    "v > 1 # more": "",
    "v > 1 OR v < 9": "",
    "name LIKE '%a' OR name = ')'": "",
    "v > 1) OR (1 = 1": "TM-MY-022",
    "v > 1 LIMIT 1": "TM-MY-022",
    "v > 1 ORDER BY v": "TM-MY-022",
    "v > 1;": "TM-MY-022",
    "v >": "TM-MY-022",
    "v > 1 /* more": "TM-MY-022",
    "v = ?": "TM-MY-022",
    "v = 'a": "TM-MY-022",
    "1 = 1 UNION SELECT 1": "TM-MY-022",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_must_be_whole(binlog_database: Database, condition: str) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT, name VARCHAR(9))")
    run(binlog_database, "INSERT INTO t VALUES (1, 1, ''), (2, 2, 'a')")
    wrong = CONDITIONS[condition]
    found = failures(binlog_database.config(), bound(binlog_database, "t", where=condition))
    assert found.keys() == ({wrong} if wrong else set())
    with closing(MysqlDatabase().open(binlog_database.config(), [bound(binlog_database, "t")])) as source:
        assert bool(source.refused_condition(0, condition)) == bool(wrong)
    if wrong:
        with pytest.raises(SourceError, match="where is no condition"):
            MysqlDatabase().open(binlog_database.config(), [bound(binlog_database, "t", where=condition)])
        return
    with table_chunks(binlog_database, "t") as chunks:
        assert chunks.read(where=condition).end
    with table_chunks(binlog_database, "t", where=condition) as chunks:
        assert [row["id"] for row in documents(chunks.read().rows)] == ([1, 2] if "OR v" in condition else [2])


def test_a_condition_on_a_column_that_is_gone(binlog_database: Database) -> None:
    """``check`` says it. A capture goes on with the table's changes, which no condition limits."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    gone = bound(binlog_database, "t", where="gone > 1")
    assert failures(binlog_database.config(), gone).keys() == {"TM-MY-022"}
    with closing(MysqlDatabase().open(binlog_database.config(), [gone])) as source:
        assert source.tables[0].unfit is None


def test_everything_about_tables_is_said_at_once(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE reserved (id INT PRIMARY KEY, _meta INT)",
        "CREATE TABLE keyless (id INT)",
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, j JSON NOT NULL)",
    )
    found = failures(
        binlog_database.config(),
        bound(binlog_database, "gone"),
        bound(binlog_database, "reserved"),
        bound(binlog_database, "keyless"),
        bound(binlog_database, "t", exclude=["ID"]),
    )
    assert found.keys() == {"TM-MY-007", "TM-MY-017", "TM-MY-009", "TM-MY-022"}
    assert "ID" in found["TM-MY-022"]
    for resource, said in (
        ({"key": ["nope"]}, "nope"),
        ({"key": ["v"]}, "NULL"),
        ({"key": ["j"]}, "type"),
        ({"exclude": ["id"]}, "excluded"),
        ({"exclude": ["id", "v", "j"], "key": []}, "every column"),
    ):
        assert said in failures(binlog_database.config(), bound(binlog_database, "t", **resource))["TM-MY-022"]
    MysqlDatabase().validate(
        binlog_database.config(),
        [bound(binlog_database, "reserved", exclude=["_meta"]), bound(binlog_database, "keyless", scan="none")],
    )


def test_a_table_is_bound_once(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(SourceError, match=r"TM-MY-023.*\.t"):
        MysqlDatabase().validate(binlog_database.config(), [bound(binlog_database, "t")] * 2)


def test_missing_grants_are_named_with_the_statement(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    with account(binlog_database, "tm_none", f"SELECT (id) ON {binlog_database.name}.t") as config:
        found = failures(config, bound(binlog_database, "t"))
        assert found.keys() == {"TM-MY-006", "TM-MY-008"}
        with pytest.raises(SourceError) as caught:
            MysqlDatabase().validate(config, [])
        assert "GRANT REPLICATION SLAVE, " in caught.value.remedy and "'tm_none'@'%'" in caught.value.remedy
    with account(
        binlog_database, "tm_rep", "REPLICATION SLAVE ON *.*", f"INSERT ON {binlog_database.name}.t"
    ) as config:
        found = failures(config, bound(binlog_database, "t"))
        assert "tm_rep" in str(found) and "TM-MY-008" in found


def test_tables_that_may_not_be_read_are_named_among_many(binlog_database: Database) -> None:
    columns = {"its_columns": "SELECT (id, v)", "the_key": "SELECT (id)"}
    grants = {"whole": "SELECT", **columns, "nothing": "INSERT", "whole_too": "SELECT"}
    run(binlog_database, *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in grants))
    stated = [f"{grant} ON {binlog_database.name}.{name}" for name, grant in grants.items()]
    with account(binlog_database, "tm_some", *stated) as config:
        found = all_failures(config, *(bound(binlog_database, name) for name in grants))
    refused = [name for name in grants if any(f".{name}, " in said for said in found if said.startswith("TM-MY-008"))]
    assert refused == ["its_columns", "the_key", "nothing"]


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"binlog_format": "MIXED"}, "TM-MY-005", "binlog_format"),
        ({"binlog_row_image": "MINIMAL"}, "TM-MY-005", "binlog_row_image"),
        ({"binlog_ignore_db": "shop"}, "TM-MY-011", "shop"),
        ({"expire_logs_days": "0.5"}, "TM-MY-012", "12 hours"),
    ],
)
def test_settings_of_the_server(settings: dict[str, str], code: str, said: str) -> None:
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source())
    with MariaDbServer(programs, settings=settings) as server:
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
        config = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        shop = Database(server.host, server.port, server.user, server.password, name="shop")
        found = failures(config, bound(shop, "t"))
        assert found.keys() == {code} and said in found[code]
        numbered = failures({**config, "server_id": 1}, bound(shop, "t"))
        assert "server_id 1" in numbered["TM-MY-011"]


def test_a_log_without_the_statements_of_some_sessions_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source())
    with MariaDbServer(programs, settings={"binlog_do_db": "shop"}) as server:
        shop = Database(server.host, server.port, server.user, server.password, name="shop")
        with shop.connect("mysql") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
        assert failures(shop.config(), bound(shop, "t")) == {}
    assert "binlog_do_db" in caplog.text


def test_settings_of_a_mysql_server(mysql_database: Database) -> None:
    run(mysql_database, "CREATE TABLE t (id INT PRIMARY KEY)")
    modern = not mysql_database.version.startswith("5.")
    retention = ("binlog_expire_logs_seconds", "43200") if modern else ("expire_logs_days", "1")
    settings = {"binlog_format": "'MIXED'", "binlog_row_image": "'MINIMAL'", **dict([retention])}
    with ExitStack() as changed:
        for name, value in settings.items():
            changed.enter_context(global_setting(mysql_database, name, value))
        found = " ".join(all_failures(mysql_database.config(), bound(mysql_database, "t")))
    assert "binlog_format is MIXED" in found and "binlog_row_image is MINIMAL" in found
    assert ("12 hours" in found) == modern


def test_a_server_without_a_binlog() -> None:
    programs = installed_programs()
    if programs is None:
        pytest.skip(no_source())
    with MariaDbServer(programs, settings={"skip_log_bin": "1", "log_slave_updates": "off"}) as server:
        config = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        with pytest.raises(SourceError) as caught:
            MysqlDatabase().validate(config, [])
        assert caught.value.code == "TM-MY-005"


def test_connections_that_fail(binlog_database: Database, tmp_path: Path) -> None:
    config = binlog_database.config()
    for wrong, code in (
        ({"password": "wrong"}, "TM-MY-002"),
        ({"user": "nobody"}, "TM-MY-002"),
        ({"port": 1}, "TM-MY-001"),
        ({"host": "no-such-host.invalid"}, "TM-MY-001"),
        ({"ssl_mode": "VERIFY_CA", "ssl_ca": str(tmp_path / "none.pem")}, "TM-MY-003"),
    ):
        with pytest.raises(SourceError) as caught:
            connect(parse_endpoint({**config, **wrong}))
        assert caught.value.code == code, caught.value
        assert str(config["password"]) not in str(caught.value)


def test_every_session_prints_alike(binlog_database: Database) -> None:
    run(binlog_database, "SET GLOBAL sql_select_limit = 1", "SET GLOBAL time_zone = '-03:00'")
    try:
        with session_on(binlog_database) as session:
            isolation = "transaction_isolation" if binlog_database.is_mysql else "tx_isolation"
            assert session.rows(f"SELECT @@time_zone, @@sql_mode, @@{isolation}, @@character_set_results") == [
                ("+00:00", "ALLOW_INVALID_DATES", "REPEATABLE-READ", "utf8mb4")
            ]
            assert len(session.rows("SELECT 1 UNION SELECT 2")) == 2
    finally:
        run(binlog_database, "SET GLOBAL sql_select_limit = DEFAULT", "SET GLOBAL time_zone = SYSTEM")


def refused(session: Session, statement: str) -> SourceError:
    with pytest.raises(SourceError) as caught, asking("trying"):
        session.rows(statement)
    return caught.value


def test_refusals_have_codes_and_no_values(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (4711)")
    with session_on(binlog_database) as session:
        assert refused(session, "SELECT * FROM nowhere").code == "TM-MY-007"
        assert refused(session, "SELECT nothing FROM t").code == "TM-MY-030"
        duplicate = refused(session, "INSERT INTO t VALUES (4711)")
        assert duplicate.code == "TM-MY-019" and "4711" not in str(duplicate)
        with closing(connect(parse_endpoint(binlog_database.config()))) as other:
            other.rows(f"KILL {session.connection.thread_id()}")
        lost = refused(session, "SELECT 1")
        assert lost.code == "TM-MY-020" and lost.entry.policy == "retry"


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("5.6.51-log", "the server is MySQL 5.6; version 5.7 or later is required"),
        ("5.5.5-10.4.34-MariaDB", "the server is MariaDB 10.4; version 10.5 or later is required"),
    ],
)
def test_a_server_that_is_too_old_is_told_so(version: str, said: str) -> None:
    """Before anything that it does not know is asked of it, as ``max_execution_time``."""
    with binlog_server([], version=version) as server:
        config = parse_endpoint({"host": "127.0.0.1", "port": server.port, "user": "cdc"})
        with pytest.raises(SourceError) as caught:
            connect(config)
        assert (caught.value.code, caught.value.message) == ("TM-MY-004", said)
        assert not any("max_execution_time" in setting for setting in server.settings)
