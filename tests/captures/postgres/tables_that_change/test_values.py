"""ALTERs that change values of which the log has no events: of columns, of types, and of what is captured."""

from __future__ import annotations

import pytest

from tests.captures.impatient import aside_of
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, operations
from tests.captures.session import Session
from tests.captures.source_tables import prepare
from tidemark.testing.servers.postgres import Database

PLAIN = [
    "CREATE TABLE t (id int PRIMARY KEY, a text, b text, g text GENERATED ALWAYS AS (upper(a)) STORED)",
    "INSERT INTO t SELECT i, 'a' || i, 'b' || i FROM generate_series(1, 300) i",
]
TYPED = [
    "CREATE TYPE mood AS ENUM ('low', 'high')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE TABLE t (id int PRIMARY KEY, a mood[], b pair)",
    "INSERT INTO t SELECT i, '{low,high}', ROW(i, 'y' || i)::pair FROM generate_series(1, 300) i",
]


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("table", "alters", "query"),
    [
        (
            PLAIN,
            [
                "ALTER TABLE t DROP g, ALTER a TYPE text USING upper(a)",
                "ALTER TABLE t ALTER a TYPE text USING lower(a)",
            ],
            "SELECT * FROM t",
        ),
        (
            PLAIN,
            [
                "ALTER TABLE t DROP b",
                "ALTER TABLE t ADD b text",
                "ALTER TABLE t DROP b",
                "ALTER TABLE t ADD b text DEFAULT 'c'",
            ],
            "SELECT id, a, b FROM t",
        ),
        (
            PLAIN,
            ["ALTER TABLE t RENAME a TO c", "ALTER TABLE t RENAME b TO a", "ALTER TABLE t RENAME c TO b"] * 2,
            "SELECT id, a, b FROM t",
        ),
        (PLAIN, ["ALTER TABLE t ALTER g DROP EXPRESSION", "SELECT"], "SELECT * FROM t"),
        (
            TYPED,
            ["ALTER TYPE mood RENAME VALUE 'low' TO 'bad'", "ALTER TYPE mood RENAME VALUE 'bad' TO 'sad'"],
            "SELECT * FROM t",
        ),
        (
            TYPED,
            ["ALTER TYPE pair RENAME ATTRIBUTE x TO z", "ALTER TYPE pair RENAME ATTRIBUTE z TO w"],
            "SELECT * FROM t",
        ),
        (TYPED, ["ALTER TYPE pair ADD ATTRIBUTE z int", "ALTER TYPE pair DROP ATTRIBUTE x"], "SELECT * FROM t"),
        (
            TYPED,
            ["ALTER TYPE pair DROP ATTRIBUTE x, ADD ATTRIBUTE z int", "ALTER TYPE pair ADD ATTRIBUTE w jsonb"],
            "SELECT * FROM t",
        ),
    ],
    ids=["using", "made again", "swapped", "expression", "labels", "renamed", "added and dropped", "replaced"],
)
def test_values_that_an_alter_changes(database: Database, table: list[str], alters: list[str], query: str) -> None:
    """Under load, in a backfill and after it, and between two sessions with older rows in the log."""
    prepare(database, *table)
    half = len(alters) // 2
    load = iter(range(1, 1000))

    def changed(*statements: str) -> list[str]:
        row = next(load)
        return [
            f"UPDATE t SET b = b WHERE id = {row}",
            *statements,
            f"UPDATE t SET b = b WHERE id IN ({row + 100}, 299)",
        ]

    with capturing(database, backfill={"chunk_rows": 20, "max_rate": "400 rows/s"}) as capture:
        capture.until(lambda c: len(c.documents) >= 60, SECONDS)
        prepare(database, *changed(*alters[:half]))
        capture.until(lambda c: c.done() and kept(c) == held(database, query), SECONDS)
        prepare(database, *changed(), f"DELETE FROM t WHERE id = {next(load)}")
        capture.until(lambda c: kept(c) == held(database, query), SECONDS)
        # A value that has another one's place and type in it cannot be decoded: the table is aside for a moment.
        assert operations(capture)["t"] == 0 or "ADD ATTRIBUTE z int" in alters[0]
    prepare(database, *changed(*alters[half:]), "DELETE FROM t WHERE id = 200")
    with capturing(database, capture.state, stop=True) as again:
        assert again.finish() == 0, again.last_words()
        again.documents[:0] = capture.documents
        assert kept(again) == held(database, query)


@pytest.mark.parametrize(
    "alter",
    [
        "ALTER TYPE mood RENAME VALUE 'low' TO 'bad'",
        "ALTER TABLE t ALTER id TYPE text USING 'key ' || id",
        "ALTER TABLE t RENAME id TO key; ALTER TABLE t RENAME a TO id; ALTER TABLE t RENAME key TO a",
    ],
)
def test_keys_that_an_alter_changes(database: Database, alter: str) -> None:
    """No row stays under a key that nobody has any more."""
    prepare(
        database,
        "CREATE TYPE mood AS ENUM ('low', 'middle', 'high')",
        "CREATE TABLE t (id mood PRIMARY KEY, a mood NOT NULL UNIQUE)",
        "INSERT INTO t VALUES ('low', 'high'), ('high', 'middle')",
    )
    with capturing(database) as capture:
        capture.until(Session.done)
        prepare(database, *alter.split("; "))
        key = ("a",) if "RENAME id" in alter else ("id",)
        capture.until(lambda c: c.done() and operations(c)["t"] >= 1 and kept(c, key) == held(database), SECONDS)


def test_the_type_of_a_key_gets_another_name(database: Database) -> None:
    """Chunks compare keys as values of their type, by its name."""
    prepare(
        database,
        "CREATE SCHEMA attic",
        "CREATE DOMAIN number AS int",
        "CREATE TABLE t (id number PRIMARY KEY, a int)",
        "INSERT INTO t SELECT i, i FROM generate_series(1, 300) i",
    )
    with capturing(database, backfill={"chunk_rows": 20, "max_rate": "400 rows/s"}) as capture:
        capture.until(lambda c: len(c.documents) >= 60, SECONDS)
        prepare(database, "ALTER DOMAIN number RENAME TO id", "ALTER DOMAIN id SET SCHEMA attic")
        capture.until(lambda c: c.done() and kept(c) == held(database), SECONDS)
        assert operations(capture) == {"s": 300}


def test_the_key_gets_another_collation(oldest_database: Database) -> None:
    """A scan by key goes in the order of its collation: a cursor of one says nothing in the other."""
    with oldest_database.connect() as connection:
        if connection.execute("SELECT FROM pg_collation WHERE collname = 'en-x-icu'").fetchone() is None:
            pytest.skip("the server was built without ICU")
    prepare(
        oldest_database,
        'CREATE TABLE t (id text COLLATE "C" PRIMARY KEY, a int)',
        "INSERT INTO t SELECT c || to_char(i, 'FM000'), i FROM generate_series(1, 150) i, unnest('{a,A}'::text[]) c",
    )
    with capturing(oldest_database, backfill={"chunk_rows": 20, "max_rate": "400 rows/s"}) as capture:
        capture.until(lambda c: len(c.documents) >= 60, SECONDS)
        prepare(oldest_database, 'ALTER TABLE t ALTER id TYPE text COLLATE "en-x-icu"')
        capture.until(lambda c: c.done() and kept(c) == held(oldest_database), SECONDS)


def test_a_column_that_gets_the_name_of_a_documents_own_member(database: Database) -> None:
    prepare(database, *PLAIN, "CREATE TABLE s (id int PRIMARY KEY)", "INSERT INTO s VALUES (1)")
    with capturing(database, tables=("public.t", "public.s")) as capture:
        capture.until(Session.done)
        prepare(database, "ALTER TABLE t RENAME a TO _meta", "UPDATE t SET _meta = 'x'", "INSERT INTO s VALUES (2)")
        capture.until(lambda c: (aside_of(c, "t") or {}).get("code") == "TM-PG-017" and len(c.rows(1)) == 2, SECONDS)
        prepare(database, "ALTER TABLE t RENAME _meta TO a")
        query = "SELECT id, a, b FROM t"
        capture.until(lambda c: aside_of(c, "t") is None and kept(c) == held(database, query), SECONDS)
        assert all(isinstance(document["_meta"], dict) for _, document in capture.documents)


def test_a_table_that_is_taken_out_of_the_capture_and_put_back(database: Database) -> None:
    prepare(database, *TYPED, "CREATE TABLE s (id int PRIMARY KEY)", "INSERT INTO s VALUES (1)")
    both = ("public.s", "public.t")
    with capturing(database, tables=both, stop=True) as first:
        assert first.finish() == 0
    with capturing(database, first.state, tables=both[:1], stop=True) as without:
        assert without.finish() == 0
    prepare(database, "DELETE FROM t WHERE id < 50")
    with capturing(database, without.state, tables=both, stop=True) as back:
        assert back.finish() == 0
        back.documents[:0] = first.documents
        assert kept(back, binding=1) == held(database)
        assert "taken_out" not in back.state


def test_a_column_that_is_no_longer_excluded(database: Database) -> None:
    prepare(database, *PLAIN)
    with capturing(database, resource={"exclude": ["b"]}, stop=True) as first:
        assert first.finish() == 0
    with capturing(database, first.state, stop=True) as with_it:
        assert with_it.finish() == 0
        assert operations(with_it) == {"s": 300}
        assert kept(with_it) == held(database, "SELECT id, a, b FROM t")
    with capturing(database, with_it.state, stop=True) as once_more:
        assert once_more.finish() == 0
        assert once_more.documents == []
