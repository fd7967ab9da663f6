"""A row reads the same from a chunk and from the log: columns, and key."""

from __future__ import annotations

import sys

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import run, table_chunks
from tests.captures.mysql.test_chunk_values import MARIADB_VALUES, VALUES
from tests.captures.mysql.test_chunks import KEYS, MARIADB_KEYS
from tests.captures.session import bindings, session
from tests.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "connectors.mysql"]


def test_values_of_each_type(mariadb_database: Database) -> None:
    cases = VALUES if mariadb_database.is_mysql else VALUES + MARIADB_VALUES
    columns = ", ".join(f"c{place} {of}" for place, (of, _, _) in enumerate(cases))
    values = ", ".join(value for _, value, _ in cases)
    name = mariadb_database.name
    with mariadb_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {columns})")
        cursor.execute(f"INSERT INTO t VALUES (1, {values})")
        cursor.execute("INSERT INTO t (id) VALUES (2)")
        with session(mariadb_database.config(), bindings(f"{name}.t"), command=COMMAND) as capture:
            capture.until(lambda s: s.done())
            cursor.execute(f"INSERT INTO t VALUES (3, {values})")
            cursor.execute("INSERT INTO t (id) VALUES (4)")
            capture.until(lambda s: (4,) in s.rows())
            rows = capture.rows()
    for place, (of, _, _) in enumerate(cases):
        assert (of, rows[1,][f"c{place}"]) == (of, rows[3,][f"c{place}"])
        assert (of, rows[2,][f"c{place}"]) == (of, rows[4,][f"c{place}"])


def test_keys_of_each_type(mariadb_database: Database) -> None:
    """What the log touches is left out of a chunk by its key: the bytes must be the same."""
    cases = KEYS if mariadb_database.is_mysql else KEYS + MARIADB_KEYS
    if mariadb_database.is_mysql:
        cases = [case for case in cases if "nopad" not in case[0]]
    tables = [f"t{place}" for place in range(len(cases))]
    run(
        mariadb_database,
        *(f"CREATE TABLE {t} (n INT, k {of}, PRIMARY KEY (k, n))" for t, (of, _) in zip(tables, cases, strict=True)),
    )
    with captured_log(mariadb_database, *tables) as log:
        log.log.track(frozenset(range(len(cases))))
        run(
            mariadb_database,
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
        with table_chunks(mariadb_database, table) as chunks:
            keys = list(chunks.read().rows.keys)
        assert (of, len(logged)) == (of, len(keys))
        for key in keys:
            assert (of, sum(key in transaction for transaction in logged)) == (of, 1)
