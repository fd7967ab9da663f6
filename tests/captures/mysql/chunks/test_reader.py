"""Chunks: scans in key order of every kind of key, rereads, conditions, ends, and what interrupts them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.captures.mysql.table_chunks import binding_of, documents, run, session_on, table_chunks, texts
from tests.examples import examples
from tidemark.backfill.keys import key_from_texts
from tidemark.captures.contract.errors import TableAltered, TableAway
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.values.types import key_text, text_of_key
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import wait_until
from tidemark.testing.servers.mariadb import Database

KEYS: list[tuple[str, Sequence[str]]] = [
    ("INT", ["-2147483648", "-1", "0", "7", "10", "2147483647"]),
    ("BIGINT UNSIGNED", ["0", "9223372036854775808", "18446744073709551615", "9", "10"]),
    ("INT(8) UNSIGNED ZEROFILL", ["1", "20", "300"]),
    ("DECIMAL(30,10)", ["-1.5", "0", "0.0000000001", "99999999999999999999.9999999999", "2", "10"]),
    ("BIT(64)", ["b'0'", "b'1'", "18446744073709551615", "9223372036854775808"]),
    ("YEAR", ["0", "1901", "2155"]),
    ("FLOAT", ["0.1", "0.2", "-0.1", "16777216", "3.4e38", "1e-40", "0.30000001"]),
    ("DOUBLE", ["0.1", "1e308", "-1e-308", "5e-324", "0.1000000000000000055511151231257827", "123456789.123456789"]),
    ("VARCHAR(20) COLLATE utf8mb4_general_ci", ["'a'", "'B'", "'c'", "'Ä'", "'é'", "''", "'z'", "'b2'", "'ß'", "'中'"]),
    ("VARCHAR(20) COLLATE utf8mb4_unicode_ci", ["'a'", "'B'", "'c'", "'æ'", "'ss1'", "'ß'", "'-a'", "'😀'"]),
    ("VARCHAR(20) COLLATE utf8mb4_bin", ["'a'", "'B'", "'A'", "'b'", "'ä'", "'a\\0b'", "'a\\\\0b'", "'\\n'"]),
    ("VARCHAR(20) CHARACTER SET latin1", ["'a'", "'B'", "'ä'", "'€'", "'ÿ'", "'\\''", "'\"'"]),
    ("VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci", ["'ae1'", "'ä'", "'o'", "'ß'", "'t'"]),
    ("VARCHAR(20) CHARACTER SET utf16", ["'a'", "'😀'", "'ü'"]),
    ("VARCHAR(20) CHARACTER SET sjis", ["'a'", "'日'", "'本'", "'ｱ'"]),
    ("CHAR(5) CHARACTER SET cp1251", ["'я'", "'А'", "'б'", "''"]),
    ("BINARY(4)", ["'a'", "'a\\0b'", "x'ffffffff'", "x'00000000'", "x'80'"]),
    ("VARBINARY(20)", ["'a'", "'a\\0'", "x''", "x'ff'", "'a '"]),
    ("ENUM('zebra','apple','Mango')", ["'zebra'", "'apple'", "'Mango'", "0"]),
    ("ENUM('z','it''s','b') CHARACTER SET latin1", ["'z'", "'it''s'", "'b'"]),
    ("ENUM('z😀','y','z?','z😁','a') COLLATE utf8mb4_bin", ["1", "2", "3", "4", "5"]),
    ("ENUM('😀','中','b') CHARACTER SET utf16", ["1", "2", "3"]),
    ("SET('z','a','m')", ["''", "'z'", "'a'", "'z,m'", "'z,a,m'"]),
    (
        "SET({})".format(", ".join(f"'{n}'" for n in range(64))),
        ["0", "1", "9223372036854775807", "'63'", "'0,63'", "~0"],
    ),
    ("DATE", ["'0000-00-00'", "'2024-00-00'", "'2024-02-29'", "'2024-02-31'", "'9999-12-31'", "'1000-01-01'"]),
    ("DATETIME(6)", ["'0000-00-00'", "'2024-01-15 14:30:00.123456'", "'2024-01-15 14:30:00.123457'", "'2024-01-00'"]),
    ("DATETIME", ["'0000-00-00'", "'2024-01-15 14:30:00'", "'9999-12-31 23:59:59'"]),
    (
        "TIMESTAMP(6)",
        ["'0000-00-00'", "'1970-01-01 00:00:01'", "'2024-10-27 00:30:00.5'", "'2024-10-27 01:30:00.000001'"],
    ),
    ("TIME(6)", ["'-838:59:59'", "'-00:00:00.000001'", "'00:00:00'", "'23:59:59.999999'", "'838:59:59'"]),
]
MARIADB_KEYS: list[tuple[str, Sequence[str]]] = [
    ("VARCHAR(20) COLLATE utf8mb4_nopad_bin", ["'a'", "'a '", "'a  '", "'a!'"]),
    ("UUID", ["'00000000-0000-0000-0000-000000000000'", "uuid()", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "uuid()"]),
    ("INET6", ["'::'", "'::ffff:1.2.3.4'", "'fe80::1'", "'2001:db8::1'"]),
    ("INET4", ["'0.0.0.0'", "'255.255.255.255'", "'10.0.0.2'", "'9.0.0.1'"]),
]
MYSQL_KEYS: list[tuple[str, Sequence[str]]] = [
    ("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", ["'a'", "'a '", "'B'", "'Ä1'", "'é'", "''", "' '", "'ß'", "'ss1'"]),
    ("VARCHAR(20) COLLATE utf8mb4_0900_as_cs", ["'a'", "'A'", "'ä'", "'a '", "'😀'", "'中'"]),
    ("VARCHAR(20) COLLATE utf8mb4_0900_bin", ["'a'", "'a '", "'a  '", "'a!'", "'B'"]),
    ("CHAR(5) COLLATE utf8mb4_ja_0900_as_cs_ks", ["'か'", "'カ'", "'a'", "''"]),
]
"""From 8.0 on."""


def keys_of(database: Database) -> list[tuple[str, Sequence[str]]]:
    """A type and SQL of its values, for each kind of key that the server has."""
    if not database.is_mysql:
        return [case for case in KEYS + MARIADB_KEYS if database.has_type(case[0])]
    return KEYS if database.version.startswith("5.") else KEYS + MYSQL_KEYS


def test_scans_of_every_kind_of_key_see_each_row_once_in_the_servers_order(binlog_database: Database) -> None:
    cases = keys_of(binlog_database)
    for place, (of, values) in enumerate(cases):
        with binlog_database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
            cursor.execute(f"CREATE TABLE t{place} (k {of}, n INT, PRIMARY KEY (k, n))")
            for number, value in enumerate(values):
                cursor.execute(f"INSERT INTO t{place} VALUES ({value}, {number}), ({value}, {number + 100})")
            cursor.execute(f"SELECT n FROM t{place} ORDER BY k, n")
            expected = [row[0] for row in cursor.fetchall()]
        with table_chunks(binlog_database, f"t{place}", on_bad_value={"k": "text"}) as chunks:
            for limit in (1, 3):
                keys, rows = chunks.scan(limit)
                assert (of, [row["n"] for row in rows]) == (of, expected)
            assert len(set(keys)) == len(expected)
            again = chunks.read(scan=False, rereads=keys).rereads
            assert (of, sorted(again.keys)) == (of, sorted(keys))
            middle = key_from_texts(texts(keys)[len(keys) // 2][:1])
            before, after = chunks.scan(2, until=middle)[1], chunks.scan(100)[1]
            after = [row for row in after if row not in before]
            assert len(before) + len(after) == len(expected)
            rest = chunks.read(middle, limit=100)
            assert (of, documents(rest.rows)) == (of, after)


def test_keys_of_several_columns_are_compared_along_the_index(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (a VARCHAR(9), b ENUM('z','a'), c INT, v INT, PRIMARY KEY (a, b, c), KEY (v))",
        "INSERT INTO t SELECT seq DIV 100, 1 + seq MOD 2, seq, 0 FROM seq_1_to_2000"
        if not binlog_database.is_mysql
        else "INSERT INTO t VALUES ('1', 'z', 1, 0), ('1', 'a', 0, 0), ('2', 'z', 0, 0)",
    )
    with table_chunks(binlog_database, "t") as chunks:
        keys, _ = chunks.scan(37)
        query = chunks.target.scan(keys[len(keys) // 2], None, None, 10)
    assert len(set(keys)) == len(keys)
    with session_on(binlog_database) as session:
        plan = session.rows(f"EXPLAIN {'FORMAT=TRADITIONAL ' if binlog_database.is_mysql else ''}{query}")[0]
    assert "range" in plan and not any("filesort" in str(part) for part in plan)


def test_a_reread_finds_another_spelling_and_says_it(binlog_database: Database) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY)",
        "INSERT INTO t VALUES ('Ä')",
    )
    with table_chunks(binlog_database, "t") as chunks:
        found = chunks.read(scan=False, rereads=[b"a", b"gone"])
    assert found.rereads.keys[:] == ["Ä".encode()]
    assert len(found.rows) == 0 and not found.end


def test_a_condition_limits_the_scan_and_not_rereads(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    run(binlog_database, *(f"INSERT INTO t VALUES ({n}, {n % 10})" for n in range(50)))
    with table_chunks(binlog_database, "t", where="v = 3 OR v = 4") as chunks:
        assert [row["id"] for row in chunks.scan(7)[1]] == [n for n in range(50) if n % 10 in (3, 4)]
        assert [row["id"] for row in chunks.scan(7, where="id < 20")[1]] == [3, 4, 13, 14]
        assert chunks.read(scan=False, rereads=[b"7"]).rereads.keys[0] == b"7"
        first = chunks.read(limit=3)
    # It ends with what it looked at: three rows, none of which meets the condition.
    assert (len(first.rows), first.cursor, first.end, first.scanned) == (0, b"2", False, 3)


def test_a_scan_ends_when_fewer_rows_come_than_were_asked_for(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)")
    with table_chunks(binlog_database, "t") as chunks:
        assert not chunks.read(limit=3).end
        assert chunks.read(limit=4).end
        assert chunks.read(b"3").end


def test_a_wide_chunk_is_ended_early_and_goes_on(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    run(binlog_database, *(f"INSERT INTO t VALUES ({n}, repeat('x', 100000))" for n in range(40)))
    with table_chunks(binlog_database, "t", chunk_bytes=300_000) as chunks:
        first = chunks.read(limit=40)
        assert 3 <= len(first.rows) < 40 and not first.end
        second = chunks.read(first.rows.keys[-1], limit=40)
        # By now the width of rows is known, and the limit asks for no more than fit.
        assert len(second.rows) <= 3 and not second.end
        assert [row["id"] for row in chunks.scan(40)[1]] == list(range(40))


def test_a_query_that_the_server_breaks_off_gives_the_rows_that_came(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    run(binlog_database, *(f"INSERT INTO t VALUES ({n}, repeat('x', 1000000))" for n in range(12)))
    slow = "id < 10 OR sleep(60) = 0"
    with table_chunks(binlog_database, "t", where=slow) as chunks, session_on(binlog_database) as session:
        killer = threading.Thread(target=_kill_sleeper, args=(binlog_database,))
        killer.start()
        chunk = chunks.read(limit=1000)
        killer.join()
        assert 0 < len(chunk.rows) <= 10 and not chunk.end
        assert chunks.read(b"99").end
        assert session.value("SELECT 1") == 1


def _kill_sleeper(database: Database) -> None:
    with session_on(database) as session:

        def found() -> bool:
            running = session.rows(
                "SELECT id FROM information_schema.processlist WHERE db IS NULL AND info LIKE %s AND state LIKE %s",
                "SELECT%sleep(60)%",
                "%sleep%",
            )
            for (number,) in running:
                session.rows(f"KILL QUERY {number}")
            return bool(running)

        wait_until(found, 20, "the chunk's query sleeps")


def test_cancel_ends_a_read_from_another_thread(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    with table_chunks(binlog_database, "t", where="sleep(20) = 0") as chunks:
        failures: list[SourceError] = []

        def read() -> None:
            try:
                chunks.read()
            except SourceError as error:
                failures.append(error)

        reading = threading.Thread(target=read)
        reading.start()
        with session_on(binlog_database) as session:
            wait_until(
                lambda: bool(
                    session.rows(
                        "SELECT id FROM information_schema.processlist WHERE info LIKE %s", "SELECT `id`%sleep%"
                    )
                ),
                20,
                "the chunk's query runs",
            )
        chunks.reader.cancel()
        reading.join(10)
        assert not reading.is_alive() and [error.code for error in failures] == ["TM-MY-019"]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD COLUMN w INT",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t MODIFY v BIGINT",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t MODIFY e ENUM('b','a')",
        "DROP TABLE t",
    ],
)
def test_a_table_that_was_altered_is_noticed(binlog_database: Database, change: str) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, e ENUM('a','b'))",
        "INSERT INTO t VALUES (1, 1, 'a')",
    )
    with table_chunks(binlog_database, "t") as chunks:
        run(binlog_database, change)
        gone = change.startswith("DROP TABLE")
        with pytest.raises(TableAway if gone else TableAltered) as caught:
            chunks.read()
        assert caught.value.code == ("TM-MY-007" if gone else "TM-MY-030")


def test_a_primary_key_that_becomes_another_index_is_an_alteration(binlog_database: Database) -> None:
    """The columns are the same, and a chunk names an index that is not there any more."""
    run(binlog_database, "CREATE TABLE t (id INT NOT NULL, PRIMARY KEY (id))", "INSERT INTO t VALUES (1)")
    with table_chunks(binlog_database, "t") as chunks:
        run(binlog_database, "ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE (id)")
        with pytest.raises(TableAltered, match="TM-MY-030"):
            chunks.read()


def test_a_table_that_is_altered_once_the_snapshot_is_open(
    binlog_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MySQL's catalog is then as it was in the snapshot, and its table is not."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
    with table_chunks(binlog_database, "t") as chunks:
        taker = chunks.reader._fences
        opened = taker.open

        def open_and_alter() -> object:
            snapshot = opened()
            run(binlog_database, "ALTER TABLE t DROP COLUMN v")
            return snapshot

        monkeypatch.setattr(taker, "open", open_and_alter)
        with pytest.raises(TableAltered, match="TM-MY-030"):
            chunks.read()


def test_a_condition_that_names_no_column_is_no_alteration(binlog_database: Database) -> None:
    """Nothing will become of the table: such a backfill is given up, and does not wait for ever."""
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    for configured, asked in (("nothing = 1", None), (None, "nothing = 1")):
        with table_chunks(binlog_database, "t", where=configured) as chunks:
            with pytest.raises(SourceError, match="TM-MY-030") as caught:
                chunks.read(where=asked)
            assert not isinstance(caught.value, TableAltered)


def test_no_transaction_stays_open_after_a_chunk(binlog_database: Database) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with table_chunks(binlog_database, "t") as chunks:
        assert len(chunks.read().rows) == 1
        run(binlog_database, "SET lock_wait_timeout = 1", "INSERT INTO t VALUES (2)", "ALTER TABLE t COMMENT 'x'")
        assert len(chunks.read().rows) == 2


@pytest.mark.parametrize("text", ["1 OR 1=1", "1'", "", "0x1", "1e9", "--1"])
def test_texts_that_are_no_keys_never_reach_a_statement(binlog_database: Database, text: str) -> None:
    run(
        binlog_database,
        "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a') NOT NULL, d DATE NOT NULL, f DOUBLE NOT NULL)",
    )
    target = ScanTarget.of(binding_of(binlog_database, "t", key=["id", "e", "d", "f"]))
    for place in range(4):
        if place == 3 and text == "1e9":
            continue
        parts = ["1", "1", "2024-01-01", "1.0"]
        parts[place] = text
        with pytest.raises(SourceError) as caught:
            target.scan(key_from_texts(parts), None, None, 1)
        assert caught.value.code == "TM-MY-024"


@settings(max_examples=examples(80))
@given(st.text())
def test_key_texts_are_injective_and_without_nul(text: str) -> None:
    written = key_text(text)
    assert "\0" not in written and text_of_key(written) == text


@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=30, unique=True))
def test_scans_of_any_texts(binlog_database: Database, values: list[str]) -> None:
    with binlog_database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_unicode_ci PRIMARY KEY)")
        cursor.executemany("INSERT IGNORE INTO t VALUES (%s)", [(value,) for value in values])
        cursor.execute("SELECT k FROM t ORDER BY k")
        expected = [row[0] for row in cursor.fetchall()]
    with table_chunks(binlog_database, "t") as chunks:
        assert [row["k"] for row in chunks.scan(4)[1]] == expected
