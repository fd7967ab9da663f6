"""Changes of the binary log as columns: the log gets from them what it gets from lines, to the last byte."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.captures.mysql.logged_both_ways import BothWays
from tests.captures.mysql.random_rows import MORE_TYPES, TYPES, random_row
from tests.conformance.mysql_literals import cases_of
from tidemark.testing.servers.mariadb import Database

STORES_ANYTHING = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"
NUMBERS = "(WITH RECURSIVE s AS (SELECT {} n UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT n FROM s) s"


def execute(database: Database, *statements: str) -> None:
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        for statement in statements:
            cursor.execute(statement)


def numbers(first: int, last: int) -> str:
    """A table ``s`` of the numbers ``n`` between these, less than a thousand apart."""
    return NUMBERS.format(first, last)


@pytest.mark.parametrize("image", ["FULL", "MINIMAL", "NOBLOB"])
def test_a_value_of_each_type(
    binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str
) -> None:
    values: dict[str, list[str]] = {}
    for of, value, expected in cases_of(binlog_database):
        bad = isinstance(expected, str) and expected.startswith(("0000-", "2024-00"))
        values.setdefault(of, []).append("NULL" if bad else value)
    most = max(map(len, values.values())) + 1
    columns = [f"c{number} {of}" for number, of in enumerate(values)]
    rows = [[cases[n] if n < len(cases) else "NULL" for cases in values.values()] for n in range(most)]
    execute(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY, n INT, {', '.join(columns)})")
    both = BothWays(binlog_database, tmp_path, monkeypatch, "t")
    execute(
        binlog_database,
        STORES_ANYTHING,
        f"SET SESSION binlog_row_image = {image}",
        *(f"INSERT INTO t VALUES ({n}, 0, {', '.join(row)})" for n, row in enumerate(rows)),
        "UPDATE t SET n = 1",
        "UPDATE t SET id = id + 100 WHERE id % 2 = 0",
        *(f"UPDATE t SET c{number} = NULL" for number in range(0, len(values), 9)),
        *(f"DELETE FROM t WHERE id % 100 = {n}" for n in range(most)),
    )
    found, _ = both.compare(limit=1)
    assert len(found) >= 3 * most
    # Inserts that have all columns, and deletes, in any case.
    assert both.batches >= most and (both.lines == 0) is (image == "FULL")


@pytest.mark.parametrize("policy", ["text", "null", "quarantine", "clamp"])
def test_bad_values_by_any_policy(
    binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    kinds = ["DATE", "DATETIME", "DATETIME(3)", "TIMESTAMP(6) NULL", "JSON", "VARCHAR(9) CHARACTER SET ucs2", "BIT(64)"]
    policies = {f"c{n}": policy for n in range(len(kinds)) if policy in ("text", "null", "quarantine") or n < 4}
    made = ", ".join(f"c{n} {of}" for n, of in enumerate(kinds))
    execute(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY, {made}, b BLOB, d DOUBLE)")
    both = BothWays(binlog_database, tmp_path, monkeypatch, "t", on_bad_value=policies)
    good = "'2024-02-29', '2024-01-02 03:04:05', '2024-01-02 03:04:05.678', '2024-01-02 03:04:05.6', '[1]', 'é', 7"
    bad = ["'0000-00-00'", "'0000-00-00'", "'2023-02-29'", "'0000-00-00'", "' 3'", "'ü'", "18446744073709551615"]
    fill = f"INSERT INTO t SELECT n, {good}, x'00ff', n / 7 FROM {{}}"
    execute(
        binlog_database,
        STORES_ANYTHING,
        fill.format(numbers(1, 500)),
        *(f"UPDATE t SET c{n} = {value} WHERE id = {300 + n}" for n, value in enumerate(bad)),
        f"INSERT INTO t VALUES (501, {', '.join(bad)}, NULL, NULL)",
        fill.format(numbers(502, 900)),
        "UPDATE t SET d = -0.0 WHERE id > 600",
        "DELETE FROM t",
    )
    found, apart = both.compare()
    assert len(found) + len(apart) >= 2000 and bool(apart) is (policy == "quarantine")
    assert both.batches


@pytest.mark.drawn(2)
@pytest.mark.parametrize(("image", "fewest"), [("FULL", 1), ("FULL", 40), ("MINIMAL", 1), ("NOBLOB", 1)])
def test_random_changes_of_several_tables(
    binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str, fewest: int
) -> None:
    random, moves = Random(), count(1000, 1000)
    names = ["t", "u", "v"]
    for name in names:
        columns = "id INT, other INT NOT NULL DEFAULT 0, note VARCHAR(200), at TIMESTAMP(6) NULL, large TEXT, n INT"
        execute(binlog_database, f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id{', other' * (name == 'v')}))")
    both = BothWays(binlog_database, tmp_path, monkeypatch, *names, fewest=fewest)
    execute(
        binlog_database,
        *(f"INSERT INTO {name} SELECT n, 0, 'note', now(6), 'x', n FROM {numbers(1, 200)}" for name in names),
    )
    with binlog_database.connect(autocommit=False) as connection, connection.cursor() as run:
        run.execute(f"SET SESSION binlog_row_image = {image}")
        for number in range(60):
            for _ in range(random.randint(1, 4)):
                name, first = random.choice(names), random.randint(1, 200)
                of = f"WHERE id BETWEEN {first} AND {first + random.choice([0, 3, 90])}"
                run.execute(
                    random.choice(
                        [
                            f"INSERT IGNORE INTO {name} SELECT n + {next(moves)}, {number}, nullif(concat('é', n % 3),"
                            f" 'é0'), now(6), repeat('large', {random.randint(0, 200)}), n"
                            f" FROM {numbers(first, first + 90)}",
                            f"UPDATE {name} SET n = {number}, other = other + n {of}",
                            f"UPDATE {name} SET id = id + {next(moves)} {of}",
                            f"UPDATE {name} SET large = NULL, note = repeat('é', 40) {of} AND id % 2 = 0",
                            f"DELETE FROM {name} {of} AND id % 3 = 0",
                            f"TRUNCATE {name}" if random.random() < 0.1 else f"DELETE FROM {name} WHERE id > 100000",
                        ]
                    )
                )
            connection.commit()
    found = both.compare()
    assert both.batches and sum(map(len, found)) > 500


@pytest.mark.drawn(2)
@pytest.mark.parametrize("nulls", [0.0, 0.2, 0.9])
def test_random_rows(binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nulls: float) -> None:
    random = Random()
    kinds = random.choices(TYPES + MORE_TYPES, k=20)
    made = ", ".join(f"c{n} {of.removesuffix(' NULL')} NULL" for n, (of, _) in enumerate(kinds))
    execute(binlog_database, f"CREATE TABLE t (id INT PRIMARY KEY, {made})")
    both = BothWays(binlog_database, tmp_path, monkeypatch, "t")
    marks = ", ".join(["%s"] * len(kinds))
    with binlog_database.connect(init_command="SET time_zone = '+00:00'") as connection, connection.cursor() as cursor:
        for number in range(60):
            cursor.execute(f"INSERT INTO t VALUES ({number}, {marks})", random_row(random, kinds, nulls))
        for number in range(60):
            row: Sequence[object] = random_row(random, kinds, nulls)
            some = random.sample(range(len(kinds)), 7)
            sets = ", ".join(f"c{place} = %s" for place in some)
            cursor.execute(f"UPDATE t SET {sets} WHERE id = {number}", [row[place] for place in some])
    execute(binlog_database, "DELETE FROM t")
    (found, _) = both.compare()
    assert len(found) > 120 and both.batches and not both.lines


def test_rows_that_columns_do_not_hold_are_lines_in_their_places(
    binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, day DATE, secret TEXT, note LONGTEXT, gone INT)")
    resource = {"on_bad_value": {"day": "quarantine"}, "hash": ["secret"], "exclude": ["gone"]}
    both = BothWays(binlog_database, tmp_path, monkeypatch, "t", fewest=2, hash_salt="a long salt", **resource)
    usual = (
        "INSERT INTO t SELECT n, '2024-01-01' + INTERVAL n DAY, concat('secret ', n), repeat('note ', 80), n FROM {}"
    )
    execute(
        binlog_database,
        STORES_ANYTHING,
        usual.format(numbers(1, 700)),
        "INSERT INTO t VALUES (701, '0000-00-00', 's', 'n', 1), (702, '2024-00-01', NULL, NULL, 1)",
        usual.format(numbers(703, 720)),
        "INSERT INTO t VALUES (721, '2024-01-01', 's', repeat('x', 9000000), 1)",
        "INSERT INTO t VALUES (722, '2024-01-01', 's', repeat('\"', 700000), 1)",
        usual.format(numbers(723, 1500)),
        "UPDATE t SET note = 'other' WHERE id = 1400",
        "UPDATE t SET gone = 2 WHERE id < 700",
        "DELETE FROM t",
    )
    found, apart = both.compare()
    assert len(found) + len(apart) >= 2 * 1500 and apart
    assert both.batches > 2 and 0 < both.lines < 2500


def test_columns_that_come_and_go(binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT)")
    both = BothWays(binlog_database, tmp_path, monkeypatch, "t", fewest=2)
    execute(
        binlog_database,
        f"INSERT INTO t SELECT n, n, 'b' FROM {numbers(1, 100)}",
        "ALTER TABLE t ADD c DATE",
        f"INSERT INTO t SELECT n, n, 'b', '2024-01-01' FROM {numbers(101, 200)}",
        "ALTER TABLE t DROP a",
        "UPDATE t SET b = 'new'",
        "TRUNCATE TABLE t",
        f"INSERT INTO t SELECT n, 'b', '2024-01-01' FROM {numbers(1, 100)}",
    )
    found, _ = both.compare()
    assert len(found) >= 500 and both.batches >= 4


def test_a_transaction_in_which_the_connection_breaks(
    binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(
        binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, note TEXT)", "CREATE TABLE u (id INT PRIMARY KEY, n INT)"
    )
    both = BothWays(binlog_database, tmp_path, monkeypatch, "t", "u")
    execute(
        binlog_database,
        "BEGIN",
        *(f"INSERT INTO t SELECT {n} + n, repeat('note ', 800) FROM {numbers(1, 900)}" for n in range(0, 2700, 900)),
        f"INSERT INTO u SELECT n, n FROM {numbers(1, 100)}",
        "UPDATE t SET id = -id WHERE id > 2500",
        "COMMIT",
        "DELETE FROM u",
    )
    of_t, of_u, _ = both.compare(limit=1, breaks=True)
    assert (len(of_t), len(of_u)) == (2700 + 2 * 200, 200) and both.batches > both.breaks > 1


@pytest.mark.parametrize("ends", ["COMMIT", "COMMIT ONE PHASE"])
def test_rows_of_prepared_transactions_are_numbered_over_all_events(
    binlog_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    execute(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    both = BothWays(binlog_database, tmp_path, monkeypatch, "t")
    execute(
        binlog_database,
        "XA START 'x'",
        *(f"INSERT INTO t SELECT {n} + n, n FROM {numbers(1, 300)}" for n in (0, 300)),
        "UPDATE t SET id = -id WHERE id > 500",
        "DELETE FROM t WHERE id < 100",
        "XA END 'x'",
        *(() if "ONE" in ends else ("XA PREPARE 'x'",)),
        ends.replace("COMMIT", "XA COMMIT 'x'"),
        "DELETE FROM t",
    )
    found, _ = both.compare()
    assert len(found) >= 1200 and both.batches
