"""Rows of which the log tells nothing, between two looks and while stopped: of partitions that come, go and lose some,
and of a key that is gone for a while.
"""

from __future__ import annotations

import pytest

from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, operations
from tests.captures.postgres.tables_that_change.verdicts import PARTS, PLAIN, Change, outcomes
from tests.captures.session import Session
from tests.captures.source_tables import prepare
from tidemark.testing.servers.postgres import Database

UNLOGGED = (
    "ALTER TABLE {t}_low SET UNLOGGED",
    "DELETE FROM {t}_low WHERE id % 3 = {n}",
    "ALTER TABLE {t}_low SET LOGGED",
)
TRUNCATED = ("TRUNCATE {t}_low",)
TOUCHED = "UPDATE {t} SET a = a || '+' WHERE id % 3 = 1"
DETACHED = ("ALTER TABLE {t} DETACH PARTITION {t}_low",)
BACK = (
    *DETACHED,
    "DELETE FROM {t}_low WHERE id % 3 = {n}",
    "ALTER TABLE {t} ATTACH PARTITION {t}_low FOR VALUES FROM (0) TO (20)",
)
RETYPED = "ALTER TABLE {t} ALTER b TYPE text USING upper(b)"
FILLED = "ALTER TABLE {t} ADD c{n} float8 DEFAULT random()"
EMPTY_LOW = "INSERT INTO {t} SELECT i, 'new', 'n{n}' FROM generate_series(1, 19) i ON CONFLICT DO NOTHING"
WITHOUT_KEY = (
    "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey",
    "UPDATE {t} SET id = id + 1",
    "ALTER TABLE {t} ADD PRIMARY KEY (id)",
)
FULL = "ALTER TABLE {t} REPLICA IDENTITY FULL"
INDEX = "CREATE UNIQUE INDEX {t}_key ON {t} (id)"
INDEXED = (PLAIN[0].replace("PRIMARY KEY", "NOT NULL"), INDEX, FULL, *PLAIN[1:])
NEW = "CREATE TABLE {t}_new{n} PARTITION OF {t} FOR VALUES FROM (1{n}00) TO (1{n}50)"
FILL_NEW = "INSERT INTO {t} SELECT i, 'a', 'b' FROM generate_series(1{n}10, 1{n}20) i"

LOST = {
    **{
        f"{name}, {order}, {alter.split()[3].lower()}": Change(
            (EMPTY_LOW, *(() if order == "after" else (alter,)), *lost, *((alter,) if order == "after" else ())), PARTS
        )
        for name, lost in {"truncated": TRUNCATED, "unlogged": UNLOGGED, "back": BACK}.items()
        for order in ("before", "after")
        for alter in (RETYPED, FILLED)
    },
    "back, and both retyped": Change((BACK[0], BACK[1], RETYPED, RETYPED.replace("{t}", "{t}_low"), BACK[2]), PARTS),
    "the table truncated, and then a partition": Change(("TRUNCATE {t}", EMPTY_LOW, *TRUNCATED), PARTS),
    "the table truncated, and a partition unlogged, at once": Change(
        (f"BEGIN; TRUNCATE {{t}}; {UNLOGGED[0]}; {EMPTY_LOW}; {UNLOGGED[2]}; COMMIT",), PARTS
    ),
    "the table truncated and filled, and then a partition, at once": Change(
        (f"BEGIN; TRUNCATE {{t}}; {EMPTY_LOW}; TRUNCATE {{t}}_low; COMMIT",), PARTS
    ),
    "the same, and the partition filled once more": Change(
        (f"BEGIN; TRUNCATE {{t}}; {EMPTY_LOW}; TRUNCATE {{t}}_low; INSERT INTO {{t}} VALUES (5, 'a', 'b'); COMMIT",),
        PARTS,
    ),
    "without a key": Change(WITHOUT_KEY, (*PLAIN, FULL)),
    "without a key, and FULL": Change((FULL, *WITHOUT_KEY, "ALTER TABLE {t} REPLICA IDENTITY DEFAULT")),
    "without a unique index": Change(("DROP INDEX {t}_key", WITHOUT_KEY[1], INDEX), INDEXED),
    "a unique index that is made again, as if it had been away": Change(
        ("REINDEX INDEX CONCURRENTLY {t}_key",), INDEXED
    ),
    "new, filled and truncated": Change((NEW, FILL_NEW, "TRUNCATE {t}_new{n}"), PARTS),
    "new, filled, truncated and filled": Change(
        (NEW, FILL_NEW, "TRUNCATE {t}_new{n}", "INSERT INTO {t} VALUES (1{n}30, 'a', 'b')"), PARTS
    ),
    "new, filled and truncated at once": Change((f"BEGIN; {NEW}; {FILL_NEW}; TRUNCATE {{t}}_new{{n}}; COMMIT",), PARTS),
    "new, filled and truncated at once, and filled later": Change(
        (f"BEGIN; {NEW}; {FILL_NEW}; TRUNCATE {{t}}_new{{n}}; COMMIT", "INSERT INTO {t} VALUES (1{n}30, 'a', 'b')"),
        PARTS,
    ),
    "new, filled, truncated and filled at once": Change(
        (f"BEGIN; {NEW}; {FILL_NEW}; TRUNCATE {{t}}_new{{n}}; INSERT INTO {{t}} VALUES (1{{n}}30, 'a', 'b'); COMMIT",),
        PARTS,
    ),
    "new, filled and unlogged": Change(
        (
            NEW,
            FILL_NEW,
            "ALTER TABLE {t}_new{n} SET UNLOGGED",
            "DELETE FROM {t} WHERE id = 1{n}15",
            "ALTER TABLE {t}_new{n} SET LOGGED",
        ),
        PARTS,
    ),
    "new, filled, and back": Change(
        (
            NEW,
            FILL_NEW,
            "ALTER TABLE {t} DETACH PARTITION {t}_new{n}",
            "DELETE FROM {t}_new{n}",
            "ALTER TABLE {t} ATTACH PARTITION {t}_new{n} FOR VALUES FROM (1{n}00) TO (1{n}50)",
            "INSERT INTO {t} VALUES (1{n}30, 'a', 'b')",
        ),
        PARTS,
    ),
}

OLD = tuple(statement.replace("{n}", n) for n in "01" for statement in (NEW.replace("_new", "_old"), FILL_NEW))
GONE = {
    "detached": Change(("ALTER TABLE {t} DETACH PARTITION {t}_old{n}",), (*PARTS, *OLD)),
    "dropped": Change(("DROP TABLE {t}_old{n}",), (*PARTS, *OLD)),
    "new, filled and dropped": Change((NEW, FILL_NEW, "DROP TABLE {t}_new{n}"), PARTS),
    "new, filled and detached": Change((NEW, FILL_NEW, "ALTER TABLE {t} DETACH PARTITION {t}_new{n}"), PARTS),
}

ATTACH = "ALTER TABLE {t} ATTACH PARTITION {t}_new{n} FOR VALUES FROM (1{n}00) TO (1{n}50)"
WITH_ROWS = (
    "CREATE TABLE {t}_new{n} (b text, id int PRIMARY KEY, a varchar(20))",
    "INSERT INTO {t}_new{n} SELECT 'b', i, 'a' FROM generate_series(1{n}10, 1{n}20) i",
)
COME = {
    "new and filled": (Change((NEW, FILL_NEW), PARTS), 0),
    "new and filled at once": (Change((f"BEGIN; {NEW}; {FILL_NEW}; COMMIT",), PARTS), 0),
    "new and filled at once, and then once more": (
        Change(
            (f"BEGIN; {NEW}; {FILL_NEW}; COMMIT", "ANALYZE {t}", "INSERT INTO {t} VALUES (1{n}30, 'a', 'b')"), PARTS
        ),
        0,
    ),
    "new and empty": (Change((NEW,), PARTS), 0),
    "attached empty, and filled": (
        Change(("CREATE TABLE {t}_new{n} (LIKE {t} INCLUDING ALL)", ATTACH, FILL_NEW), PARTS),
        0,
    ),
    "another name": (Change(("ALTER TABLE {t}_low RENAME TO {t}_x", "ALTER TABLE {t}_x RENAME TO {t}_low"), PARTS), 0),
    "rewritten": (Change(("VACUUM FULL {t}_low",), PARTS), 0),
    "truncated with the table": (Change(("TRUNCATE {t}", EMPTY_LOW), PARTS), 0),
    "truncated with the table, and filled at once": (
        Change(
            (f"BEGIN; TRUNCATE {{t}}; {EMPTY_LOW}; {EMPTY_LOW.replace('19', '90')}; {TOUCHED}; COMMIT", TOUCHED), PARTS
        ),
        0,
    ),
    "attached with rows": (Change((*WITH_ROWS, ATTACH), PARTS), 11),
    "attached with rows, and filled": (
        Change((*WITH_ROWS, ATTACH, "INSERT INTO {t} VALUES (1{n}30), (1{n}31)"), PARTS),
        13,
    ),
    "attached with rows of a subtransaction": (
        Change((f"BEGIN; {WITH_ROWS[0]}; SAVEPOINT s; {WITH_ROWS[1]}; RELEASE s; {ATTACH}; COMMIT",), PARTS),
        11,
    ),
    "attached with rows out of line that are all updated": (
        Change(
            (
                WITH_ROWS[0],
                "ALTER TABLE {t}_new{n} ALTER b SET STORAGE EXTERNAL",
                WITH_ROWS[1].replace("'b'", "repeat('b', 3000)"),
                ATTACH,
                "UPDATE {t} SET a = 'u' WHERE id >= 100",
            ),
            PARTS,
        ),
        11,
    ),
    "attached with rows that were rewritten": (
        Change((*WITH_ROWS, "CLUSTER {t}_new{n} USING {t}_new{n}_pkey", ATTACH), PARTS),
        11,
    ),
    "attached with rows, by hash, at a second level": (
        Change(
            (
                "CREATE TABLE {t}_new{n} (b text, id int PRIMARY KEY, a varchar(20)) PARTITION BY HASH (id)",
                "CREATE TABLE {t}_new{n}_0 PARTITION OF {t}_new{n} FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
                "CREATE TABLE {t}_new{n}_1 PARTITION OF {t}_new{n} FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
                WITH_ROWS[1],
                ATTACH,
            ),
            PARTS,
        ),
        11,
    ),
    "attached as the default": (
        Change(
            (
                "CREATE TABLE {t}_new{n} (id int PRIMARY KEY, a varchar(20), b text)",
                "INSERT INTO {t}_new{n} SELECT -i - 10 * {n} FROM generate_series(1, 5) i",
                "DELETE FROM {t} WHERE id < 0",
                "ALTER TABLE {t} DETACH PARTITION {t}_old",
                "DROP TABLE {t}_old",
                "ALTER TABLE {t} ATTACH PARTITION {t}_new{n} DEFAULT",
                "ALTER TABLE {t}_new{n} RENAME TO {t}_old",
            ),
            (*PARTS, "CREATE TABLE {t}_old PARTITION OF {t} DEFAULT"),
        ),
        5,
    ),
}


@pytest.mark.drawn(1)
@pytest.mark.parametrize("publication", ["", "FOR ALL TABLES WITH (publish_via_partition_root = true)"])
def test_rows_that_are_lost(any_database: Database, publication: str) -> None:
    """No row stays that is gone, whatever else explains that the partition has another file."""
    if publication:
        prepare(any_database, f"CREATE PUBLICATION tidemark {publication}")
    live, stopped = outcomes(any_database, LOST)
    assert {name: (live[name].what, stopped[name].what) for name in LOST} == dict.fromkeys(LOST, ("emptied", "emptied"))


def test_partitions_that_come(any_database: Database) -> None:
    """Of all rows only those are read that the log does not have, whoever wrote which file."""
    live, stopped = outcomes(any_database, {name: change for name, (change, _) in COME.items()})
    read = {name: (live[name]["s"], stopped[name]["s"]) for name in COME}
    assert read == {name: (rows, rows) for name, (_, rows) in COME.items()}


def test_partitions_that_go(any_database: Database) -> None:
    """Their rows go too, if that is wanted."""
    live, stopped = outcomes(any_database, GONE, on_partition_gone="reread")
    assert {name: (live[name].what, stopped[name].what) for name in GONE} == dict.fromkeys(GONE, ("emptied", "emptied"))


@pytest.mark.parametrize("change", GONE.values(), ids=list(GONE))
def test_a_partition_whose_rows_stay(database: Database, change: Change) -> None:
    """A warning names it, also where only the log has shown that it was there."""
    prepare(database, *(statement.replace("{t}", "t") for statement in change.create))

    def gone(capture: Session, name: str) -> bool:
        of = [line["message"] for line in capture.logs if line.get("fields", {}).get("code") == "TM-PG-044"]
        return any("its rows stay downstream" in message and f"public.{name}" in message for message in of)

    def altered(number: str) -> tuple[list[str], str]:
        statements = [statement.replace("{t}", "t").replace("{n}", number) for statement in change.statements]
        return statements, f"t_{'old' if change.create != PARTS else 'new'}{number}"

    with capturing(database) as capture:
        capture.until(Session.done)
        statements, name = altered("0")
        prepare(database, *statements)
        capture.until(lambda c: gone(c, name), SECONDS)
    statements, name = altered("1")
    prepare(database, *statements)
    with capturing(database, capture.state, stop=True) as again:
        assert again.finish() == 0, again.last_words()
        assert gone(again, name)
        assert not operations(again)["s"]


@pytest.mark.parametrize("key", [("id",), ("a", "id")])
def test_a_partition_of_which_half_was_read(database: Database, key: tuple[str, ...]) -> None:
    """The next session reads the rest of it, and nothing of the others."""
    columns = "id int, a int, b text"
    prepare(
        database,
        f"CREATE TABLE t ({columns}, PRIMARY KEY ({', '.join(key)})) PARTITION BY RANGE (id)",
        "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (1000)",
        "INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 500) i",
        f"CREATE TABLE t_new ({columns}, PRIMARY KEY ({', '.join(key)}))",
        "INSERT INTO t_new SELECT i, i % 7 FROM generate_series(1000, 1399) i",
    )
    slowly = {"chunk_rows": 20, "max_rate": "200 rows/s"}
    with capturing(database, resource={"where": "b IS NULL"}) as first:
        first.until(Session.done)
    prepare(database, "ALTER TABLE t ATTACH PARTITION t_new FOR VALUES FROM (1000) TO (2000)")
    with capturing(database, first.state, resource={"where": "b IS NULL"}, backfill=slowly) as second:
        second.until(lambda c: len(c.documents) >= 60, SECONDS)
        assert not second.done()
    prepare(database, "UPDATE t SET b = 'later' WHERE id % 10 = 3", "DELETE FROM t WHERE id % 50 = 7")
    with capturing(database, second.state, resource={"where": "b IS NULL"}, stop=True) as third:
        assert third.finish() == 0, third.last_words()
    read = operations(second)["s"] + operations(third)["s"]
    assert 300 <= read <= 400 and operations(third)["s"] < 400
    third.documents[:0] = [*first.documents, *second.documents]
    assert kept(third, key) == held(database)
