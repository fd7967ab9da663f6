"""Splits: bounds that the server gave, in its order, of about even parts, whatever the key's type and its skew."""

from __future__ import annotations

import sys
from contextlib import closing
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.captures import session as capturing
from tests.captures.mysql.table_chunks import binding_of, run, session_on, texts
from tidemark.backfill.keys import Key, key_from_texts
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.chunks.split_points import between, split
from tidemark.captures.mysql.server.session import Session
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.types import key_text
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]

ROWS = 1000

HEX = "LEFT(SHA2(n, 256), 32)"  # MySQL 9 has no MD5
UUID = f"CONCAT_WS('-', SUBSTR({HEX}, 1, 8), SUBSTR({HEX}, 9, 4), SUBSTR({HEX}, 13, 4), '9c00', SUBSTR({HEX}, 21, 12))"
LETTERS = "CONCAT(CHAR(65 + n % 26 + 32 * (n DIV 26 % 2) USING ascii), n)"

KEYS = {
    "integers": ("BIGINT", "n"),
    "sparse integers": ("BIGINT UNSIGNED", "IF(n = 999, 18446744073709551615, n * n)"),
    "decimals": ("DECIMAL(30,10)", "n / 7 - 100"),
    "datetimes": ("DATETIME(6)", "'2024-01-15' + INTERVAL n * 1234567 MICROSECOND"),
    "datetimes behind a zero date": ("DATETIME", "IF(n = 0, '0000-00-00', '2024-01-15' + INTERVAL n SECOND)"),
    "times": ("TIME(6)", "SEC_TO_TIME(n * 100.5 - 90000)"),
    "binary uuids": ("BINARY(16)", f"UNHEX({HEX})"),
    "bytes of all lengths": ("VARBINARY(30)", f"LEFT(UNHEX({HEX}), 4 + n % 12)"),
    "uuids as text": ("CHAR(36) CHARACTER SET ascii", UUID),
    "texts regardless of case": ("VARCHAR(20) COLLATE utf8mb4_general_ci", LETTERS),
    "texts by their bytes": ("VARCHAR(20) COLLATE utf8mb4_bin", LETTERS),
    "capital letters": ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin", f"UPPER({LETTERS})"),
    "a long beginning": ("VARCHAR(60) CHARACTER SET latin1", "CONCAT('Übergröße-customer-', LPAD(n, 9, '0'))"),
    "chinese": (
        "VARCHAR(20) CHARACTER SET utf8mb3",
        "CONVERT(UNHEX(HEX(0xE4B880 + n DIV 60 * 256 + n % 60)) USING utf8mb3)",
    ),
    "another character set": ("VARCHAR(20) CHARACTER SET cp1251", f"CONCAT('Ж', {HEX})"),
    "outliers": ("VARCHAR(20)", "CASE n WHEN 0 THEN '!' WHEN 1 THEN '~~~' ELSE CONCAT('order ', n) END"),
}
MARIADB_KEYS = {
    "uuids of version 4": ("UUID", UUID.replace(f"SUBSTR({HEX}, 13, 4)", f"CONCAT('4', SUBSTR({HEX}, 13, 3))")),
    "uuids of version 7": ("UUID", "CONCAT('018cc251-', LPAD(HEX(n), 4, '0'), '-7000-8000-000000000001')"),
    "addresses": ("INET6", f"CONCAT(LEFT({HEX}, 4), ':', SUBSTR({HEX}, 5, 4), '::1')"),
}


def fill(database: Database, of: str, value: str, table: str = "t") -> ScanTarget:
    """Makes a table of ``ROWS`` rows: ``k`` of this type and value, and ``n``, both the key."""
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE {table} (k {of}, n INT, PRIMARY KEY (k, n))")
        cursor.execute(
            f"INSERT INTO {table} WITH RECURSIVE r AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 99)"
            f" SELECT {value}, n FROM (SELECT a.i * 100 + b.i AS n FROM r a, r b) numbers WHERE n < {ROWS}"
        )
        cursor.execute(f"ANALYZE TABLE {table}")
    return ScanTarget.of(binding_of(database, table))


def ranges(session: Session, target: ScanTarget, bounds: list[Key]) -> list[list[int]]:
    """The rows of each range, by their ``n``."""
    ends: list[Key | None] = [None, *bounds, None]
    return [[row[1] for row in session.rows(target.scan(*pair, None, None))] for pair in pairwise(ends)]


def test_ranges_of_every_kind_of_key_are_the_table_and_about_even(binlog_database: Database) -> None:
    cases = {name: case for name, case in {**KEYS, **MARIADB_KEYS}.items() if binlog_database.has_type(case[0])}
    with session_on(binlog_database) as session:
        for place, (name, (of, value)) in enumerate(cases.items()):
            target = fill(binlog_database, of, value, f"t{place}")
            found = ranges(session, target, split(session, target, None, None, 4))
            sizes = [len(rows) for rows in found]
            assert (name, sorted(n for rows in found for n in rows)) == (name, list(range(ROWS)))
            # By samples of the index that the server takes at random: in one of some thousand a range is larger.
            assert len(sizes) == 4 and max(sizes) < ROWS * 2 // 3, (name, sizes)


def test_a_range_is_cut_between_its_own_ends(binlog_database: Database) -> None:
    target = fill(binlog_database, "VARCHAR(20) COLLATE utf8mb4_general_ci", LETTERS)
    with session_on(binlog_database) as session:
        cursor, until = key_from_texts(["G"]), key_from_texts(["p", "0"])
        inside = [row[1] for row in session.rows(target.scan(cursor, until, None, None))]
        bounds = split(session, target, cursor, until, 3)
        ends: list[Key | None] = [cursor, *bounds, until]
        parts = [[row[1] for row in session.rows(target.scan(*pair, None, None))] for pair in pairwise(ends)]
    assert len(bounds) == 2 and all(parts)
    assert [n for part in parts for n in part] == inside and 200 < len(inside) < 800


def test_a_heavy_value_of_the_first_column_is_cut_by_the_others(binlog_database: Database) -> None:
    """As of a table of all tenants, where one has nearly all rows."""
    target = fill(binlog_database, "VARCHAR(20)", "IF(n MOD 100 = 0, CONCAT('small', n), 'large')")
    with session_on(binlog_database) as session:
        bounds = split(session, target, None, None, 4)
        sizes = [len(rows) for rows in ranges(session, target, bounds)]
    assert sum(sizes) == ROWS and len(sizes) == 4 and max(sizes) < ROWS // 2
    assert any(len(bound) == 2 and bound[0] == "large" for bound in texts(bounds))


def test_what_is_equal_to_the_server_is_never_cut(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_general_ci, n INT UNIQUE, PRIMARY KEY (k, n))",
        "INSERT INTO t VALUES ('a', 1), ('A', 2), ('\u00e4', 3)",
        "CREATE TABLE one (k VARCHAR(9) PRIMARY KEY)",
    )
    target = ScanTarget.of(binding_of(binlog_database, "t"))
    one = ScanTarget.of(binding_of(binlog_database, "one"))
    with session_on(binlog_database) as session:
        found = ranges(session, target, split(session, target, None, None, 3))
        assert [n for rows in found for n in rows] == [1, 2, 3] and all(found)
        assert split(session, one, None, None, 3) == []
        run(binlog_database, "INSERT INTO one VALUES ('a')")
        assert split(session, one, None, None, 3) == split(session, target, b"a", b"a", 3) == []


def test_a_table_that_somebody_locks_is_not_cut(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (a INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (50), (100)")
    target = ScanTarget.of(binding_of(binlog_database, "t"))
    limit = "max_statement_time" if not binlog_database.is_mysql else "max_execution_time"
    with session_on(binlog_database) as session, session_on(binlog_database) as locker:
        before = session.rows(f"SELECT @@lock_wait_timeout, @@{limit}")
        locker.rows("LOCK TABLES t WRITE")
        assert split(session, target, None, None, 4) == []
        locker.rows("UNLOCK TABLES")
        assert len(split(session, target, None, None, 4)) == 3
        assert session.rows(f"SELECT @@lock_wait_timeout, @@{limit}") == before


def test_looking_for_bounds_ends_in_time(binlog_database: Database) -> None:
    target = fill(binlog_database, "INT", "n")
    with session_on(binlog_database) as session:
        # The first question is asked when there is time left, and no other.
        times = iter([0.0, 0.0, 9.0])
        assert len(split(session, target, None, None, 8, clock=lambda: next(times))) == 1


def test_a_capture_reads_ranges_of_a_text_key_at_the_same_time(binlog_database: Database) -> None:
    fill(binlog_database, "VARCHAR(20) COLLATE utf8mb4_general_ci", LETTERS)
    config = {**binlog_database.config(), "backfill": {"chunk_rows": 20, "readers": 3}}
    most = 0

    def done(capture: capturing.Session) -> bool:
        nonlocal most
        most = max(
            [most, *(len(each["scan"].get("ranges", ())) for each in capture.state.get("bindings", {}).values())]
        )
        return capture.done()

    with capturing.session(config, capturing.bindings(f"{binlog_database.name}.t"), command=COMMAND) as capture:
        capture.until(done)
        read = [document["n"] for _, document in capture.documents]
    assert most >= 3
    assert set(read) == set(range(ROWS)) and len(read) < 1.2 * ROWS  # A chunk may reach beyond a bound.


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_between_two_is_one(one: float, other: float) -> None:
    low, high = sorted((one, other))
    (text,) = between(Column("k", "double"), repr(low), repr(high))
    assert low <= float(text) <= high


CHARSETS = st.sampled_from(["utf8mb4", "utf8mb3", "latin1", "cp1251", "sjis"])


@settings(deadline=None)
@given(low=st.text(max_size=8), high=st.text(max_size=8), charset=CHARSETS)
def test_texts_between_are_texts_of_the_column(low: str, high: str, charset: str) -> None:
    column = Column("k", "varchar", charset=charset)
    code = {"utf8mb3": "utf-8", "utf8mb4": "utf-8", "latin1": "cp1252", "sjis": "cp932"}.get(charset, charset)
    low, high = (text.encode(code, "ignore").decode(code) for text in (low, high))
    coded = charset in ("cp1251", "sjis")
    for text in between(column, *(text.encode(code).hex() if coded else key_text(text) for text in (low, high))):
        assert "\0" not in text
        found = bytes.fromhex(text) if coded else text.encode(code)
        assert charset == "cp1251" or found.decode(code)
