"""A row reads the same from a chunk and from the log: characters, labels, and key."""

from __future__ import annotations

import sys

import pytest

from tests.captures.log_reader import plain
from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.chunks.test_reader import keys_of
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run, table_chunks
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


def test_keys_of_each_type(binlog_database: Database) -> None:
    """What the log touches is left out of a chunk by its key: the bytes must be the same."""
    cases = keys_of(binlog_database)
    tables = [f"t{place}" for place in range(len(cases))]
    run(
        binlog_database,
        *(f"CREATE TABLE {t} (n INT, k {of}, PRIMARY KEY (k, n))" for t, (of, _) in zip(tables, cases, strict=True)),
    )
    # Among the keys are zero dates.
    with captured_log(binlog_database, *tables, on_bad_value="text") as log:
        log.log.track(frozenset(range(len(cases))))
        run(
            binlog_database,
            "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
            *(
                f"INSERT INTO {table} VALUES ({number}, {value})"
                for table, (_, values) in zip(tables, cases, strict=True)
                for number, value in enumerate(values)
            ),
        )
        log.read()
        touched = [[t.touched[place] for t in log.transactions if place in t.touched] for place in range(len(cases))]
    for table, (of, _), logged in zip(tables, cases, touched, strict=True):
        with table_chunks(binlog_database, table, on_bad_value="text") as chunks:
            keys = list(chunks.read().rows.keys)
        assert (of, len(logged)) == (of, len(keys))
        for key in keys:
            assert (of, sum(key in transaction for transaction in logged)) == (of, 1)


def highest(charset: str, database: Database) -> int:
    """Where a set of single bytes ends: MySQL, unlike MariaDB, lets no others into one of seven bits."""
    return 128 if charset == "ascii" and database.is_mysql else 256


def test_every_character_of_each_character_set(binlog_database: Database) -> None:
    """The server converts a chunk's texts, also bytes that stand for no character: the log's must be no others."""
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT character_set_name, maxlen FROM information_schema.character_sets")
        sets = [(name, longest) for name, longest in cursor.fetchall() if not name.startswith(("binary", "utf", "ucs"))]
        columns = ", ".join(f"{name} LONGTEXT CHARACTER SET {name}" for name, _ in sets)
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
        cursor.execute("SET sql_mode = '', group_concat_max_len = 10000000")
        cursor.execute("CREATE TEMPORARY TABLE numbers (n INT)")
        cursor.execute(
            "INSERT INTO numbers WITH RECURSIVE r AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 255)"
            " SELECT a.n * 256 + b.n FROM r a, r b"
        )
        with captured_log(binlog_database, "t") as log:
            cursor.execute("INSERT INTO t (id) VALUES (1)")
            for name, longest in sets:
                coded = f"CHAR(n USING {name})"
                wanted = f"CHAR_LENGTH({coded}) = 1" if longest > 1 else f"n < {highest(name, binlog_database)}"
                characters = f"SELECT GROUP_CONCAT({coded} ORDER BY n SEPARATOR '') FROM numbers WHERE {wanted}"
                cursor.execute(f"UPDATE t SET {name} = ({characters})")
            logged = log.read()[-1]
    with table_chunks(binlog_database, "t") as chunks:
        (read,) = chunks.scan(10)[1]
    del logged["_meta"]
    assert [name for name, _ in sets if logged[name] != read[name]] == []
    assert len(read["gbk"]) > 20_000 and len(read["cp866"]) == 256


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_labels_in_the_character_set_of_their_column(binlog_database: Database, metadata: str) -> None:
    labels = {"latin1": "é€", "utf16": "日\\", "gbk": "中", "cp866": "Жя", "ucs2": "ü"}
    columns = [
        f"{charset}_{of} {of}('a', '{label}') CHARACTER SET {charset}"
        for charset, label in labels.items()
        for of in ("enum", "set")
    ]
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(columns)})".replace("\\", "\\\\"))
        with captured_log(binlog_database, "t") as log:
            run(binlog_database, f"INSERT INTO t VALUES (1{', 2, 3' * len(labels)})")
            (logged,) = log.read()
            assert log.schemas == []
    with table_chunks(binlog_database, "t") as chunks:
        (read,) = chunks.scan(10)[1]
    del logged["_meta"]
    assert logged == read
    assert read["cp866_enum"] == "Жя" and read["utf16_set"] == "a,日\\"


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
def test_columns_that_documents_do_not_have(binlog_database: Database, metadata: str) -> None:
    """The log has them: what is excluded, of every size, and what MariaDB adds for a unique index over long texts."""
    types = ("INT", "DATE", "MEDIUMINT", "DECIMAL(9,2)", "VARCHAR(9)", "BIT(3)", "MEDIUMTEXT", "ENUM('a')")
    columns = ", ".join(f"c{place} {of}" for place, of in enumerate(types))
    hashed = "" if binlog_database.is_mysql else ", UNIQUE (v), UNIQUE (v, c6)"
    exclude = [f"c{place}" for place in range(len(types))]
    with global_setting(binlog_database, "binlog_row_metadata", f"'{metadata}'"):
        run(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY, {columns}, v TEXT{hashed})")
        with captured_log(binlog_database, "t", exclude=exclude) as log:
            run(
                binlog_database,
                "INSERT INTO t VALUES (1, 7, '2024-01-02', 8, 1.5, 'x', 3, 'y', 'a', 'v'), (2, 7"
                + ", NULL" * 7
                + ", 'w')",
                "UPDATE t SET v = 'u' WHERE id = 1",
                "ALTER TABLE t ADD COLUMN w INT DEFAULT 5",
                "INSERT INTO t (id, w) VALUES (3, 6)",
                "DELETE FROM t WHERE id = 2",
            )
            logged = [document for _, document in plain(log.read())]
            assert not log.restarted
    assert logged == [
        {"id": 1, "v": "v"},
        {"id": 2, "v": "w"},
        {"id": 1, "v": "u"},
        {"id": 3, "v": None, "w": 6},
        {"id": 2, "v": "w", "w": 5},
    ]
    with table_chunks(binlog_database, "t", exclude=exclude) as chunks:
        assert chunks.scan(10)[1] == [{"id": 1, "v": "u", "w": 5}, {"id": 3, "v": None, "w": 6}]


def test_a_key_with_bytes_that_are_no_characters(binlog_database: Database) -> None:
    """All such bytes read as a question mark: a scan that went on from that would not end, or leave rows out."""
    keys = [bytes([first, last]) for first in (0x3F, 0x98, 0xFF) for last in (0x41, 0x98, 0xE0)]
    run(binlog_database, "CREATE TABLE t (k VARCHAR(900) CHARACTER SET cp1251 COLLATE cp1251_bin PRIMARY KEY, n INT)")
    with captured_log(binlog_database, "t") as log:
        log.log.track(frozenset((0,)))
        values = ", ".join(f"(X'{key.hex() * 200}', {n})" for n, key in enumerate(keys))
        run(binlog_database, f"INSERT INTO t VALUES {values}")
        log.read()
        (transaction,) = log.transactions
    with table_chunks(binlog_database, "t") as chunks:
        scanned, rows = chunks.scan(1)
        assert sorted(row["n"] for row in rows) == list(range(len(keys)))
        assert all(key in transaction.touched[0] for key in scanned)
        assert len(chunks.read(scan=False, rereads=scanned).rereads) == len(keys)
