"""``hash``: documents have the salted SHA-256 of a column's text, from chunks and from the log alike."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import binding_of, run, session_on, table_chunks
from tests.conformance.mysql_literals import Case, cases_of
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.database import MysqlDatabase
from tidemark.captures.mysql.rows.logged_values import value_reader
from tidemark.captures.mysql.rows.table_map import JSON, LoggedColumn
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.terms.columns import Column
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding
from tidemark.testing.servers.mariadb import Database

SALT = "päper"
CONFIG = {"hash_salt": SALT}


def hashed_cases(database: Database) -> list[Case]:
    """MySQL's JSON has no hash; MariaDB's is a text."""
    return [case for case in cases_of(database) if not database.is_mysql or case[0] != "JSON"]


def test_chunk_and_log_have_the_same_hashes_of_every_type(binlog_database: Database) -> None:
    cases = hashed_cases(binlog_database)
    hashed = [f"c{place}" for place in range(len(cases))]
    columns = ", ".join(f"{name} {of} NULL" for name, (of, _, _) in zip(hashed, cases, strict=True))
    values = ", ".join(value for _, value, _ in cases)
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns}, plain TEXT)")
        with captured_log(binlog_database, "t", hash=hashed, **CONFIG) as log:
            cursor.execute(f"INSERT INTO t VALUES (1, {values}, 'as it is')")
            cursor.execute(f"INSERT INTO t VALUES (2, {values}, NULL)")
            cursor.execute(f"UPDATE t SET plain = 'so', {', '.join(f'{name} = NULL' for name in hashed)} WHERE id = 2")
            documents = log.read()
    before = documents[2]["_meta"]["before"]
    (_, first), _, (_, last) = plain(documents)
    with table_chunks(binlog_database, "t", hash=hashed, salt=SALT) as chunks:
        rows = chunks.scan(10)[1]
    for name, (of, _, _) in zip(hashed, cases, strict=True):
        assert (of, len(first[name])) == (of, 64)
        assert (of, rows[0][name], before[name]) == (of, first[name], first[name])
        assert (of, rows[1][name], last[name]) == (of, None, None)
    assert rows == [first, last]
    assert (first["plain"], last["plain"]) == ("as it is", "so")


def test_hashes_are_those_that_sql_makes(binlog_database: Database) -> None:
    names = {
        "t": "TEXT CHARACTER SET latin1",
        "b": "BINARY(3)",
        "d": "DECIMAL(9,2)",
        "at": "TIMESTAMP(3) NULL",
        "e": "ENUM('ü','x')",
        "s": "SET('a','c')",
        "n": "INT",
    }
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        columns = ", ".join(f"{name} {of}" for name, of in names.items())
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
        cursor.execute("INSERT INTO t VALUES (1, 'é€', x'00ff', 1.5, '2024-01-15 10:00:00.25', 'ü', 'a,c', -7)")
        texts = [f"CONVERT({name} USING utf8mb4)" if name in "tes" else name for name in names]
        cursor.execute(f"SELECT {', '.join(f'SHA2(CONCAT(%s, {text}), 256)' for text in texts)} FROM t", [SALT] * 7)
        (expected,) = cursor.fetchall()
    with table_chunks(binlog_database, "t", hash=list(names), salt=SALT) as chunks:
        (row,) = chunks.scan(10)[1]
    assert row == {"id": 1, **dict(zip(names, expected, strict=True))}
    assert row["n"] == hashlib.sha256(f"{SALT}-7".encode()).hexdigest()


def test_the_schema_says_so(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, n DECIMAL(9,2) COMMENT 'Secret.', m BLOB NOT NULL)")
    binding = binding_of(binlog_database, "t", hash=["n", "m"], salt=SALT)
    members = binding.opened().document_schema["properties"]
    assert members["n"] == {
        "type": ["string", "null"],
        "description": "Secret. Not the value, but its salted SHA-256 in hexadecimal.",
    }
    assert members["m"]["type"] == "string" and "contentEncoding" not in members["m"]
    assert SALT not in repr(binding) and repr(SALT.encode()) not in repr(ScanTarget.of(binding))


@pytest.mark.parametrize(
    ("resource", "config", "said"),
    [
        ({"hash": ["mail"]}, {}, r"TM-MY-023.*t: .*hash_salt"),
        ({"hash": ["id"]}, CONFIG, r"TM-MY-022.*the key column id cannot be hashed"),
        ({"hash": ["male"]}, CONFIG, r"TM-MY-022.*hash names unknown columns: male"),
    ],
)
def test_what_cannot_be_hashed(binlog_database: Database, resource: Any, config: Any, said: str) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, mail TEXT)")
    bound = Binding(
        resource_config={"schema": binlog_database.name, "table": "t", **resource},
        resource_path=[binlog_database.name, "t"],
        state_key="t",
    )
    with pytest.raises(SourceError, match=said):
        MysqlDatabase().validate({**binlog_database.config(), **config}, [bound])


def test_without_a_salt_nothing_is_opened(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, mail TEXT)")
    binding = binding_of(binlog_database, "t")
    resource = binding.resource.model_copy(update={"hash": ["mail"]})
    with pytest.raises(SourceError, match="TM-MY-023"), session_on(binlog_database):
        BoundTable(0, "t", resource, binding.table, emit_truncate=True, tinyint1_as_bool=False)


def test_a_json_of_mysql_is_never_hashed_nor_shown() -> None:
    """Where a column became one while it was captured: the log may have changes instead of its value."""
    column = Column("j", "json", json=True, salt=b"salt")
    logged = LoggedColumn(JSON, 4, 0, "j")
    with pytest.raises(LookupError):
        value_reader(logged, column, None, "0", recode_of=lambda _: None, tinyint1_as_bool=False)
