"""Keys from the log: byte for byte the rows that a chunk gives, under the same keys."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.chunk_tails import tails
from tests.captures.mysql.captured_log import CapturedLog, captured_log
from tests.captures.mysql.log.test_stream import global_setting
from tests.captures.mysql.table_chunks import run, table_chunks
from tidemark.testing.servers.mariadb import Database

KEYS = [
    ("INT", "-5"),
    ("BIGINT UNSIGNED", "18446744073709551615"),
    ("DECIMAL(12,3)", "-0.5"),
    ("FLOAT", "0.1"),
    ("DOUBLE", "1e300"),
    ("DATE", "'2024-01-15'"),
    ("DATETIME(3)", "'2024-01-15 14:30:00.5'"),
    ("TIMESTAMP(6)", "'2024-01-15 14:30:00.5'"),
    ("TIME(2)", "'-12:00:00.25'"),
    ("YEAR", "1999"),
    ("BIT(20)", "b'1010'"),
    ("BIT(1)", "b'1'"),
    ("VARCHAR(20) CHARACTER SET latin1", "'é\\\\\\0'"),
    ("CHAR(9)", "'Ü '"),
    ("ENUM('x','y')", "'y'"),
    ("SET('x','y','z')", "'x,z'"),
    ("VARBINARY(9)", "x'00ff'"),
    ("BINARY(4)", "x'0100'"),
]
"""A type, and SQL of a value."""


def chunk_lines(database: Database, table: str, **options: Any) -> dict[bytes, bytes]:
    """What a chunk has of each row after its place, by key."""
    with table_chunks(database, table, **options) as chunks:
        rows = chunks.read().rows
    return {key: tail.partition(b'"}')[2] for key, tail in zip(rows.keys, tails(rows), strict=True)}


def agree(log: CapturedLog, table: str, **options: Any) -> None:
    """The newest row of each key that the log gave is the chunk's, byte for byte."""
    (transaction, *others) = log.transactions
    assert not others
    keys = list(transaction.touched[0]._keys)
    # The end of ``source`` is the first brace before the end of ``_meta``, or before an old row.
    tails = [line[line.index(b'}},"') + 1 :] if b'}},"' in line else line for line in log.lines]
    found = dict(zip(keys, (b"}," + tail.partition(b"},")[2] for tail in tails), strict=True))
    expected = chunk_lines(log.database, table, **options)
    assert found.keys() == expected.keys()
    for key, tail in expected.items():
        assert found[key].rstrip() == tail.rstrip()


@pytest.mark.parametrize(("of", "value"), KEYS)
def test_keys_are_those_of_chunks(binlog_database: Database, of: str, value: str) -> None:
    run(binlog_database, f"CREATE TABLE t (k {of}, part INT, PRIMARY KEY (k, part))")
    with captured_log(binlog_database, "t") as log:
        log.log.track(frozenset((0,)))
        run(binlog_database, "SET time_zone = '+00:00'", f"INSERT INTO t VALUES ({value}, 1), ({value}, 2)")
        log.read()
        agree(log, "t")


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_mariadbs_old_fractions_of_a_second(mariadb_database: Database, metadata: str) -> None:
    """Of tables made before 10.0, or with ``mysql56_temporal_format = OFF``: the log does not say how many digits."""
    values = {
        "DATETIME": ("1000-01-01 00:00:00.987654", "9999-12-31 23:59:59.999999", "2024-02-29 12:00:00"),
        "TIMESTAMP": ("1970-01-01 00:00:01.000001", "2038-01-19 03:14:07.999999", "2024-02-29 12:00:00.5"),
        "TIME": ("-838:59:59.999999", "838:59:59.999999", "-00:00:00.5"),
    }
    types = [(kind, digits) for kind in values for digits in range(7)]
    columns = ", ".join(f"c{place} {kind}({digits}) NULL" for place, (kind, digits) in enumerate(types))
    with global_setting(mariadb_database, "mysql56_temporal_format", "OFF"):
        run(mariadb_database, f"CREATE TABLE t (id DATETIME(3), {columns}, last INT, PRIMARY KEY (id))")
    with captured_log(mariadb_database, "t", exclude=["c3"]) as log:
        log.log.track(frozenset((0,)))
        with global_setting(mariadb_database, "binlog_row_metadata", f"'{metadata}'"):
            rows = [
                f"('2024-01-15 14:30:00.{row}5', {', '.join(repr(values[kind][row]) for kind, _ in types)}, 7)"
                for row in range(3)
            ]
            empty = f"('2024-01-15', {'NULL, ' * len(types)}8)"
            run(mariadb_database, "SET time_zone = '+00:00'", f"INSERT INTO t VALUES {', '.join([*rows, empty])}")
        log.read()
        agree(log, "t", exclude=["c3"])
