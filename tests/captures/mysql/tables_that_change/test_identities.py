"""Columns that are added, renamed, swapped and dropped: no row is read again.

A consumer that goes by identities and fills has the source's rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing

import pymysql
import pytest

from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Rows, Session, bindings, session
from tests.captures.sessions import Sessions
from tidemark.protocol.messages import COLUMN_FILL, COLUMN_ID
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

FIRST = 3
"""Rows of each table before it is altered."""

CASES: dict[str, list[str]] = {
    "a constant": ["ADD COLUMN c INT DEFAULT 7"],
    "not null": ["ADD COLUMN c INT NOT NULL, ADD d VARCHAR(9) NOT NULL FIRST, ADD e DECIMAL(5, 2) NOT NULL AFTER id"],
    "several constants": [
        "ADD COLUMN c INT DEFAULT 1",
        "ADD COLUMN d VARCHAR(9) NOT NULL DEFAULT 'é'",
        "ADD INDEX i (c)",
        "ADD (e INT, f INT DEFAULT -3)",
    ],
    "renamed": ["RENAME COLUMN a TO c"],
    "renamed and back": ["RENAME COLUMN a TO c", "RENAME COLUMN c TO a"],
    "changed": ["CHANGE a c BIGINT AFTER v"],
    "moved": ["MODIFY a INT FIRST", "MODIFY b INT AFTER v"],
    "swapped": ["RENAME COLUMN a TO b, RENAME COLUMN b TO a"],
    "swapped with types": ["CHANGE a v INT, CHANGE v a VARCHAR(20)"],
    "swapped one by one": ["RENAME COLUMN a TO c", "RENAME COLUMN b TO a", "RENAME COLUMN c TO b"],
    "added again": ["DROP COLUMN a, ADD COLUMN a VARCHAR(9) DEFAULT 'new'"],
    "added again later": ["DROP COLUMN a", "ADD COLUMN a INT"],
    "again and again": [
        "DROP COLUMN a, ADD COLUMN a INT DEFAULT 1",
        "DROP COLUMN a, ADD COLUMN a INT DEFAULT 2",
        "RENAME COLUMN a TO b, DROP COLUMN b",
        "ADD COLUMN a INT DEFAULT 3",
    ],
    "beside one that goes again": ["ADD COLUMN c INT DEFAULT 1", "ADD COLUMN d INT DEFAULT 2", "DROP COLUMN c"],
    "a name of another column": ["RENAME COLUMN a TO c, ADD COLUMN a INT DEFAULT 5"],
    "everything": [
        "ADD COLUMN c INT DEFAULT 1, DROP COLUMN b, RENAME COLUMN a TO e",
        "ADD COLUMN a VARCHAR(9) NOT NULL, MODIFY v TEXT, COMMENT 'why'",
        "RENAME COLUMN e TO b, ALTER c SET DEFAULT 3, ADD d INT DEFAULT 4",
        "DROP COLUMN c, ADD COLUMN c INT DEFAULT 9",
    ],
    "in another case": ["RENAME COLUMN A TO c, DROP COLUMN B", "ADD B INT DEFAULT 8"],
}
"""Clauses of ALTER TABLE, statement by statement."""

AHEAD = {"renamed and back", "swapped one by one", "again and again", "beside one that goes again", "everything"}
"""What is read again where the catalog is ahead of the log: it has other columns under these names by then."""


def _rows_of(database: Database, tables: Sequence[str]) -> list[Rows]:
    """The rows by a capture that begins now."""
    bound = bindings(*(f"{database.name}.{table}" for table in tables))
    with session({**database.config(), "server_id": 4711}, bound, stop=True, command=COMMAND) as fresh:
        assert fresh.finish() == 0, fresh.last_words()
        return [fresh.rows(binding) for binding in range(len(tables))]


def _write(database: Database, table: str, number: int) -> None:
    """Rows before and after each statement: new ones, and others that are updated."""
    run(
        database,
        "SET sql_mode = ''",
        f"INSERT INTO {table} (id) VALUES ({number})",
        f"UPDATE {table} SET v = '{number}' WHERE id IN (1, {number - 1})",
    )


def _alter(database: Database, table: str, clauses: str) -> None:
    run(database, "SET sql_mode = ''", f"ALTER TABLE {table} {clauses}")


@pytest.mark.drawn(4)
@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@pytest.mark.parametrize("how", ["one by one", "at once", "stopped", "killed"])
def test_rows_are_the_sources(binlog_database: Database, how: str, metadata: str) -> None:
    database, tables = binlog_database, [f"t{number}" for number in range(len(CASES))]
    for table in tables:
        run(
            database,
            f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT, b INT, v VARCHAR(20))",
            f"INSERT INTO {table} VALUES (1, 11, 21, 'x'), (2, 12, 22, 'y'), ({FIRST}, 13, 23, NULL)",
        )
    bound = bindings(*(f"{database.name}.{table}" for table in tables))
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"), ExitStack() as stack:
        sessions = Sessions(stack, lambda state: session(database.config(), bound, state, command=COMMAND), ())
        sessions.current.until(Session.done)
        if how == "stopped":
            sessions.kill()
        for step in range(max(map(len, CASES.values()))):
            for table, clauses in zip(tables, CASES.values(), strict=True):
                if step < len(clauses):
                    _write(database, table, 10 + 10 * step)
                    _alter(database, table, clauses[step])
                    _write(database, table, 11 + 10 * step)
            if how == "one by one":
                altered = [n for n, clauses in enumerate(CASES.values()) if step < len(clauses)]
                sessions.current.until(lambda c: all(_seen(c, n, 11 + 10 * step) for n in altered))  # noqa: B023
            elif how == "killed":
                sessions.kill()
                sessions.open_again(killed=True)
        if how == "stopped":
            sessions.open_again(killed=True)
        expected = _rows_of(database, tables)
        sessions.current.until(lambda c: c.done() and [c.rows(n, whole=True) for n in range(len(tables))] == expected)
        again = {case for n, case in enumerate(CASES) if sessions.current.read(n) > FIRST}
    assert again <= (AHEAD if how != "one by one" else set())


def _seen(capture: Session, binding: int, key: int) -> bool:
    return (key,) in capture.rows(binding)


def test_the_schema_says_it(binlog_database: Database) -> None:
    database = binlog_database
    run(database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 2, 3)")
    with session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        told: list[dict[str, Json]] = []
        for clauses in (
            "ADD COLUMN c DECIMAL(5, 2) DEFAULT 1.234, RENAME COLUMN a TO d",
            "DROP COLUMN c, ADD COLUMN c INT, ADD COLUMN a BIT(1) NOT NULL",
            "ADD INDEX i (c)",
        ):
            _alter(database, "t", clauses)
            run(database, "UPDATE t SET b = b + 1")
            capture.until(lambda c: len(c.documents) == 2 + len(told))
            properties = capture.schemas[-1][1]["properties"]
            told.append({name: _said(part) for name, part in properties.items() if name != "_meta"})
            assert COLUMN_ID not in str(properties["_meta"])
    assert told[0] == {"id": {COLUMN_ID: "id"}, "d": {COLUMN_ID: "a"}, "b": {COLUMN_ID: "b"}} | {
        "c": {COLUMN_ID: "c", COLUMN_FILL: "1.23"}
    }
    assert told[1] == {"id": {COLUMN_ID: "id"}, "d": {COLUMN_ID: "a"}, "b": {COLUMN_ID: "b"}} | {
        "c": {COLUMN_ID: "c#1"},
        "a": {COLUMN_ID: "a#1", COLUMN_FILL: False},
    }
    assert {name: part[COLUMN_ID] for name, part in told[2].items()} == {
        name: part[COLUMN_ID] for name, part in told[1].items()
    }


def _said(part: Json) -> Json:
    return {key: part[key] for key in (COLUMN_ID, COLUMN_FILL) if key in part}


def test_a_schema_that_says_the_same_marks_the_place(binlog_database: Database) -> None:
    """Where the statement is in the log, also if documents do not have the column."""
    database = binlog_database
    run(database, "CREATE TABLE t (id INT PRIMARY KEY, secret INT)", "INSERT INTO t VALUES (1, 2)")
    bound = bindings(f"{database.name}.t", exclude=["secret"])
    with session(database.config(), bound, command=COMMAND) as capture:
        capture.until(Session.done)
        _alter(database, "t", "DROP COLUMN secret")
        capture.until(lambda c: len(c.schemas) == 2)
        assert capture.schemas[0] == capture.schemas[1]


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_a_default_that_is_another_one_when_it_is_read(binlog_database: Database, metadata: str, away: bool) -> None:
    """The catalog has it when the log comes to the statement that adds the column."""
    database = binlog_database
    run(database, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    bound = bindings(f"{database.name}.t")
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"), ExitStack() as stack:
        sessions = Sessions(stack, lambda state: session(database.config(), bound, state, command=COMMAND), ())
        sessions.current.until(Session.done)
        if away:
            sessions.kill()
        for clauses in ("ADD COLUMN c INT DEFAULT 7", "ALTER c SET DEFAULT 8", "ADD COLUMN d INT DEFAULT 1"):
            _alter(database, "t", clauses)
        run(database, "INSERT INTO t (id) VALUES (3)")
        if away:
            sessions.open_again(killed=True)
        expected = {(n,): {"id": n, "a": n, "c": 7, "d": 1} for n in (1, 2)} | {
            (3,): {"id": 3, "a": None, "c": 8, "d": 1}
        }
        sessions.current.until(lambda c: c.done() and c.rows(whole=True) == expected)
        if away:
            assert sessions.current.read() > 2


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_a_backfill_that_is_under_way(binlog_database: Database, metadata: str) -> None:
    """Chunks of before and after each statement have the values under the columns that they are of."""
    database = binlog_database
    run(
        database,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO t SELECT seq, seq, -seq FROM seq_1_to_4000",
    )
    config = {**database.config(), "backfill": {"chunk_rows": 20}}
    with global_setting(database, "binlog_row_metadata", f"'{metadata}'"), ExitStack() as stack:
        bound = bindings(f"{database.name}.t")
        sessions = Sessions(stack, lambda state: session(config, bound, state, command=COMMAND), ())
        for number, clauses in enumerate(
            (
                "RENAME COLUMN a TO b, RENAME COLUMN b TO a",
                "ADD COLUMN c INT DEFAULT 7",
                "RENAME COLUMN a TO c, RENAME COLUMN c TO a",
                "DROP COLUMN b, ADD COLUMN b INT DEFAULT 3",
            )
        ):
            sessions.current.until(lambda c: c.read() > 400 * (number + 1))  # noqa: B023
            assert not sessions.current.done()
            _alter(database, "t", clauses)
            run(database, f"UPDATE t SET a = {number} WHERE id % 100 = {number}")
            if number % 2:
                sessions.kill()
                sessions.open_again(killed=True)
        (expected,) = _rows_of(database, ["t"])
        sessions.current.until(lambda c: c.done() and c.rows(whole=True) == expected)


OTHERWISE: dict[str, tuple[Json, str, list[str]]] = {
    "to an excluded name": ({"exclude": ["secret"]}, "DROP COLUMN secret, CHANGE a secret INT", []),
    "from an excluded name": ({"exclude": ["secret"]}, "CHANGE secret c INT", ["c"]),
    "from a hashed name": ({"hash": ["secret"]}, "CHANGE secret c INT", ["c"]),
    "to a hashed name": ({"hash": ["secret"]}, "DROP COLUMN secret, CHANGE a secret INT", ["secret"]),
    "to a name with a policy": ({"on_bad_value": {"secret": "text"}}, "DROP secret, CHANGE a secret INT", ["secret"]),
    "a hashed constant": ({"hash": ["secret"]}, "DROP secret, ADD secret INT DEFAULT 7", ["secret"]),
    "an excluded constant": ({"exclude": ["secret"]}, "DROP secret, ADD secret INT DEFAULT 7", []),
    "a converted value": ({}, "CHANGE a c VARCHAR(20)", ["c"]),
    "a constant and a converted value": ({}, "ADD c INT DEFAULT 7, MODIFY a VARCHAR(20)", ["a"]),
}
"""By name: options, clauses, and names of columns whose values no event has."""


@pytest.mark.parametrize("case", OTHERWISE)
def test_values_that_documents_have_in_another_way(
    binlog_database: Database, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    options, clauses, names = OTHERWISE[case]
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, secret INT)", "INSERT INTO t VALUES (1, 11, 12)")
    config = {**binlog_database.config(), "hash_salt": "salt"}
    bound = bindings(f"{binlog_database.name}.t", **options)
    with session(config, bound, command=COMMAND) as capture:
        capture.until(Session.done)
        _alter(binlog_database, "t", clauses)
        run(binlog_database, "INSERT INTO t (id) VALUES (2)")
        with session({**config, "server_id": 4711}, bound, stop=True, command=COMMAND) as fresh:
            assert fresh.finish() == 0, fresh.last_words()
        capture.until(lambda c: c.done() and c.rows(whole=True) == fresh.rows())
        said = [line["message"] for line in capture.logs if "no event has the values of" in line["message"]]
        assert [text.partition("the values of ")[2].partition(";")[0] for text in said] == (
            [", ".join(names)] * bool(names)
        )
        assert (capture.read() > 1) == bool(names)


@pytest.mark.parametrize("clauses", ["ADD COLUMN c INT DEFAULT 7", "CHANGE a c INT", "DROP a, ADD a INT"])
def test_under_another_runtime(binlog_database: Database, clauses: str) -> None:
    """Schemas are as they ever were, and rows are read again."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 11)")
    bound = bindings(f"{binlog_database.name}.t")
    other = {"TIDEMARK_RUNTIME": ""}
    with session(binlog_database.config(), bound, command=COMMAND, env=other) as capture:
        capture.until(Session.done)
        _alter(binlog_database, "t", clauses)
        (expected,) = _rows_of(binlog_database, ["t"])
        capture.until(lambda c: c.done() and c.rows() == expected)
        assert not any(word in str(schema) for _, schema in capture.schemas for word in (COLUMN_ID, COLUMN_FILL))


def test_a_key_column_that_is_renamed(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 11)")
    with session(binlog_database.config(), bindings(f"{binlog_database.name}.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        _alter(binlog_database, "t", "CHANGE id k INT NOT NULL")
        emptied = [{"k": 1, "a": 11}]
        capture.until(lambda c: c.done() and _after_the_last_truncate(c) == emptied)


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_an_alter_that_is_logged_twice(mariadb_database: Database, metadata: str) -> None:
    """When it begins, and when it has ended or failed: only one that has ended counts, and once."""
    database = mariadb_database
    run(database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 11, 5), (2, 12, 5)")
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        if not cursor.execute("SHOW VARIABLES LIKE 'binlog_alter_two_phase'"):
            pytest.skip("only MariaDB 10.8 and later has it")
        cursor.execute("SET SESSION binlog_alter_two_phase = 1")
        with (
            global_setting(database, "binlog_row_metadata", f"'{metadata}'"),
            session(database.config(), bindings(f"{database.name}.t"), command=COMMAND) as capture,
        ):
            capture.until(Session.done)
            cursor.execute("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, ALGORITHM=COPY")
            with pytest.raises(pymysql.Error):
                cursor.execute("ALTER TABLE t DROP b, ADD b INT DEFAULT 7, ADD UNIQUE (a), ALGORITHM=COPY")
            cursor.execute("ALTER TABLE t ADD COLUMN c INT DEFAULT 7, ALGORITHM=COPY")
            run(database, "INSERT INTO t (id, a, b, c) VALUES (3, 13, 14, 8)")
            expected = {(n,): {"id": n, "a": 5, "b": 10 + n, "c": 7} for n in (1, 2)}
            expected |= {(3,): {"id": 3, "a": 13, "b": 14, "c": 8}}
            capture.until(lambda c: c.done() and c.rows(whole=True) == expected)
            assert capture.read() == 2


def _after_the_last_truncate(capture: Session) -> list[Json]:
    rows: list[Json] = []
    for _, document in capture.documents:
        rows = [] if document["_meta"]["op"] == "t" else [*rows, {k: v for k, v in document.items() if k != "_meta"}]
    return rows


def test_statements_that_are_not_understood(mariadb_database: Database) -> None:
    """What IF EXISTS passed over, and clauses that are not known, have the columns that are new read again."""
    run(mariadb_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 11)")
    with session(mariadb_database.config(), bindings(f"{mariadb_database.name}.t"), command=COMMAND) as capture:
        capture.until(Session.done)
        for clauses in (
            "DROP COLUMN IF EXISTS x, ADD COLUMN c INT DEFAULT 7",
            "ADD COLUMN IF NOT EXISTS c INT DEFAULT 8, ADD COLUMN d INT DEFAULT 9",
            "RENAME COLUMN IF EXISTS x TO y, RENAME COLUMN a TO b",
        ):
            read = capture.read()
            _alter(mariadb_database, "t", clauses)
            (expected,) = _rows_of(mariadb_database, ["t"])
            capture.until(lambda c: c.done() and c.rows(whole=True) == expected)  # noqa: B023
            assert capture.read() > read
