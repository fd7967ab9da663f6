"""Changes of the log as columns: the log gets from them what it gets from lines, to the last byte of ``_loc``."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.captures.postgres.chunks.test_column_chunks import literals
from tests.captures.postgres.logged_both_ways import BothWays
from tidemark.testing.servers.postgres import Database

LARGE = "(SELECT string_agg(md5((n * 1000 + i)::text), '') FROM generate_series(1, 300) i)"
"""A text that is stored out of line, another one for each ``n``."""


def execute(database: Database, *statements: str) -> None:
    with database.connect() as session:
        for statement in statements:
            session.execute(statement)


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_value_of_each_type(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: str
) -> None:
    with database.connect() as session:
        values = literals(session)
    most = max(map(len, values.values()))
    columns = [f"c{number} {of}" for number, of in enumerate(values)]
    rows = [[cases[n] if n < len(cases) else cases[-1] for cases in values.values()] for n in range(most)]
    execute(
        database,
        f"CREATE TABLE t (id int PRIMARY KEY, n int, {', '.join(columns)})",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
    )
    both = BothWays(database, tmp_path, monkeypatch, "t")
    inserts = [f"INSERT INTO t VALUES ({n}, 0, {', '.join(row)})" for n, row in enumerate(rows)]
    deletes = [f"DELETE FROM t WHERE id % 100 = {n}" for n in range(most)]
    execute(database, *inserts, "UPDATE t SET n = 1", "UPDATE t SET id = id + 100 WHERE id % 2 = 0", *deletes)
    found, _ = both.compare(limit=1)
    assert len(found) == 3 * most + 2 * ((most + 1) // 2)
    negative_zeros = sum(any("'-0'" in value for value in row) for row in rows)
    assert both.batches > 2 * most - 2 * negative_zeros - 4


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("identity", "fewest"), [("DEFAULT", 1), ("FULL", 1), ("USING INDEX other_key", 1), ("DEFAULT", 40)]
)
def test_random_changes_of_several_tables(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identity: str, fewest: int
) -> None:
    columns = "id int, other int NOT NULL DEFAULT 0, note text, tags int[], at timestamptz, large text, n int"
    names = ["t", "u", "v"]
    for name in names:
        execute(
            database,
            f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id))",
            f"CREATE UNIQUE INDEX other_key_{name} ON {name} (id, other)",
            f"ALTER TABLE {name} ALTER large SET STORAGE EXTERNAL",
            f"ALTER TABLE {name} REPLICA IDENTITY {identity.replace('other_key', f'other_key_{name}')}",
        )
    both = BothWays(database, tmp_path, monkeypatch, *names, fewest=fewest)
    random, moves = Random(), count(1000, 1000)
    with database.connect(autocommit=False) as session:
        for name in names:  # So many changes there are, whatever is drawn.
            session.execute(
                f"INSERT INTO {name} SELECT n, 0, 'note', ARRAY[n], now(), 'x', n FROM generate_series(1, 200) n"
            )
        session.commit()
        for number in range(60):
            for _ in range(random.randint(1, 4)):
                name, first = random.choice(names), random.randint(1, 200)
                last = first + random.choice([0, 3, 90])
                of = f"WHERE id BETWEEN {first} AND {last}"
                session.execute(
                    random.choice(
                        [
                            f"INSERT INTO {name} SELECT n, {number}, nullif('note ' || n % 3, 'note 0'),"
                            f" ARRAY[n, NULL], now(), {LARGE}, n FROM generate_series({first}, {last}) n"
                            " ON CONFLICT (id) DO UPDATE SET n = -1",
                            f"UPDATE {name} SET n = {number}, other = other + n {of}",
                            f"UPDATE {name} SET id = id + {next(moves)} {of}",
                            f"UPDATE {name} SET large = NULL, note = repeat('é', 40) {of} AND id % 2 = 0",
                            f"DELETE FROM {name} {of} AND id % 3 = 0",
                            f"TRUNCATE {name}" if random.random() < 0.1 else f"DELETE FROM {name} WHERE id > 1000",
                        ]
                    )
                )
            session.commit()
    found = both.compare()
    assert both.batches and sum(map(len, found)) > 500


def test_rows_that_columns_do_not_hold_are_lines_in_their_places(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(
        database,
        "CREATE TABLE t (id int PRIMARY KEY, day date, price numeric(5,2), secret text, note text, weight float8)",
    )
    resource = {
        "on_bad_value": {"day": "quarantine", "price": "null"},
        "hash": ["secret"],
    }
    both = BothWays(database, tmp_path, monkeypatch, "t", fewest=2, resource=resource, hash_salt="salt")
    usual = "SELECT i, DATE '2024-01-01' + i, i % 1000, 'secret ' || i, 'note', i FROM generate_series({}, {}) i"
    execute(
        database,
        f"INSERT INTO t {usual.format(1, 700)}",
        "INSERT INTO t VALUES (701, 'infinity', 1, 's', 'n', 1), (702, '0001-01-01 BC', 'NaN', NULL, NULL, '-0')",
        f"INSERT INTO t {usual.format(703, 720)}",
        "INSERT INTO t VALUES (721, '2024-01-01', 1, 's', repeat('x', 9000000), 1)",
        "INSERT INTO t VALUES (722, '2024-01-01', 1, 's', repeat('\"', 3000000), 1)",
        f"INSERT INTO t {usual.format(723, 2000)}",
        "UPDATE t SET weight = '-0' WHERE id = 1500",
        "UPDATE t SET weight = 2",
        "DELETE FROM t",
    )
    found, apart = both.compare()
    assert len(found) + len(apart) == 3 * 2000 + 1 and apart
    assert both.batches > 2 and 0 < both.lines < 3000


def test_columns_that_come_and_go(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, a int, b text)")
    both = BothWays(database, tmp_path, monkeypatch, "t", fewest=2)
    fill = "INSERT INTO t SELECT i, {} FROM generate_series({}, {}) i"
    execute(
        database,
        fill.format("i, 'b'", 1, 100),
        "BEGIN",
        "ALTER TABLE t ADD c date",
        fill.format("i, 'b', now()", 101, 200),
        "COMMIT",
        "ALTER TABLE t DROP a",
        "UPDATE t SET b = 'new'",
        "ALTER TABLE t ALTER c TYPE text USING c::text",
        "UPDATE t SET b = 'newer'",
        "ALTER TABLE t RENAME b TO a",
        "UPDATE t SET a = 'newest'",
    )
    found, _ = both.compare()
    assert len(found) == 800 and both.batches >= 4


def test_a_transaction_in_which_the_connection_breaks(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(database, "CREATE TABLE t (id int PRIMARY KEY, note text)", "CREATE TABLE u (id int PRIMARY KEY)")
    both = BothWays(database, tmp_path, monkeypatch, "t", "u")
    execute(
        database,
        "BEGIN",
        "INSERT INTO t SELECT i, repeat('note ', 40) || i FROM generate_series(1, 9000) i",
        "INSERT INTO u SELECT generate_series(1, 100)",
        "UPDATE t SET id = -id WHERE id > 7000",
        "COMMIT",
        "DELETE FROM u",
    )
    of_t, of_u, _ = both.compare(limit=1, breaks=True)
    assert (len(of_t), len(of_u)) == (9000 + 2 * 2000, 200) and both.batches > both.breaks > 1


def test_rows_that_are_large_as_json_only(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "a" * 60
    execute(database, f"CREATE TYPE wide AS ({name} int)", "CREATE TABLE t (id int PRIMARY KEY, many wide[])")
    both = BothWays(database, tmp_path, monkeypatch, "t")
    filled = "array_fill(ROW(1)::wide, ARRAY[{}])"
    execute(
        database,
        f"INSERT INTO t SELECT i, {filled.format(3)} FROM generate_series(1, 100) i",
        f"INSERT INTO t VALUES (101, {filled.format(150_000)})",
        f"INSERT INTO t SELECT i, {filled.format(3)} FROM generate_series(102, 200) i",
    )
    found, _ = both.compare(limit=1)
    # How many batches the rows before and after it come in depends on how fast the server sends them.
    assert len(found) == 200 and both.lines == 1 and both.batches >= 2
