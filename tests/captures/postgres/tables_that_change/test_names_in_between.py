"""Names that exist between two looks at the catalogs only: rows of the log have them, and no catalog that was read."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept, operations
from tests.captures.session import Session
from tests.captures.source_tables import prepare
from tests.examples import sample
from tidemark.protocol.environment import RUNTIME
from tidemark.testing.servers.postgres import Database

MOOD = "CREATE TYPE mood AS ENUM ('low', 'high')"
PLAIN = ["CREATE TABLE t (id int PRIMARY KEY, a text)", "INSERT INTO t SELECT i, 'a' || i FROM generate_series(1, 9) i"]

ADD, RENAME = "ALTER TYPE mood ADD VALUE 'mid'", "ALTER TYPE mood RENAME VALUE 'mid' TO 'middle'"
COLUMN = "ALTER TABLE t ADD b text"

CASES = {
    "label": (
        [MOOD, "CREATE TABLE t (id int PRIMARY KEY, a mood)", "INSERT INTO t VALUES (1, 'low')"],
        [ADD, "INSERT INTO t VALUES (2, 'mid')"],
        [RENAME],
    ),
    "label of a key": (
        [MOOD, "CREATE TABLE t (id mood PRIMARY KEY, a int)", "INSERT INTO t VALUES ('low', 1)"],
        [ADD, "INSERT INTO t VALUES ('mid', 2)"],
        [RENAME, "UPDATE t SET a = 3 WHERE id = 'middle'"],
    ),
    "label, deep": (
        [
            MOOD,
            "CREATE DOMAIN moody AS mood",
            "CREATE TYPE pair AS (x moody, y int)",
            "CREATE TYPE span AS RANGE (subtype = mood)",
            "CREATE TABLE t (id int PRIMARY KEY, a pair[], b span)",
            "INSERT INTO t VALUES (1, ARRAY[('low', 1)::pair], '[low,high]')",
        ],
        [
            ADD,
            "INSERT INTO t VALUES (2, ARRAY[('mid', 1)::pair], NULL)",
            "ALTER TYPE mood ADD VALUE 'top'",
            "INSERT INTO t VALUES (3, NULL, '[low,top)')",
        ],
        [RENAME, "ALTER TYPE mood RENAME VALUE 'top' TO 'peak'"],
    ),
    "label of a range": (
        [
            MOOD,
            "CREATE TYPE span AS RANGE (subtype = mood)",
            "CREATE TABLE t (id int PRIMARY KEY, a span)",
            "INSERT INTO t VALUES (1, '[low,high)')",
        ],
        [ADD, "INSERT INTO t VALUES (2, '[low,mid)')"],
        [RENAME],
    ),
    "label of a new column": (
        [MOOD, *PLAIN],
        ["ALTER TABLE t ADD b mood", "INSERT INTO t VALUES (20, 'a', 'high')"],
        ["ALTER TYPE mood RENAME VALUE 'high' TO 'great'"],
    ),
    "column": (PLAIN, [COLUMN, "INSERT INTO t VALUES (20, 'a', 'b')"], ["ALTER TABLE t RENAME b TO c"]),
    "column, and another with its name": (
        PLAIN,
        [COLUMN, "INSERT INTO t VALUES (20, 'a', 'b')"],
        ["ALTER TABLE t RENAME b TO c", COLUMN],
    ),
    "column, dropped and added again": (
        PLAIN,
        [COLUMN, "INSERT INTO t VALUES (20, 'a', 'b')"],
        ["ALTER TABLE t DROP b", COLUMN],
    ),
    "column with another type, which keeps the rows' files": (
        PLAIN,
        ["ALTER TABLE t ADD b cidr", "INSERT INTO t VALUES (20, 'a', '10.0.0.1')"],
        ["ALTER TABLE t ALTER b TYPE inet"],
    ),
    "column, renamed and renamed back": (
        PLAIN,
        ["ALTER TABLE t RENAME a TO b", "INSERT INTO t VALUES (20, 'a')"],
        ["ALTER TABLE t RENAME b TO a"],
    ),
}

KILLED, AWAY = (
    sample(CASES, {name: CASES[name] for name in some})
    for some in (
        ("label", "label of a new column", "column", "column, renamed and renamed back"),
        ("label of a key", "label, deep", "column, and another with its name", "column, dropped and added again"),
    )
)


def _is_right(capture: Session, database: Database) -> bool:
    """Whether the rows are the table's. A column that was added as NULL is missing in older documents."""
    return _without_nulls(kept(capture)) == _without_nulls(held(database))


def _without_nulls(rows: Iterable[str]) -> list[str]:
    return sorted(json.dumps({k: v for k, v in json.loads(row).items() if v is not None}) for row in rows)


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("table", "used", "renamed"), CASES.values(), ids=CASES)
def test_a_name_between_two_looks(database: Database, table: list[str], used: list[str], renamed: list[str]) -> None:
    prepare(database, *table)
    with capturing(database) as capture:
        capture.until(Session.done, SECONDS)
        prepare(database, *used, *renamed)
        capture.until(lambda c: c.done() and _is_right(c, database), SECONDS)


@pytest.mark.parametrize(("table", "used", "renamed"), KILLED.values(), ids=KILLED)
def test_a_name_of_which_only_a_killed_capture_had_rows(
    database: Database, table: list[str], used: list[str], renamed: list[str]
) -> None:
    """The state has the name together with the position behind the rows."""
    prepare(database, *table)
    with capturing(database) as capture:
        capture.until(Session.done, SECONDS)
        prepare(database, *used)
        capture.until(lambda c: _is_right(c, database), SECONDS)
    prepare(database, *renamed)
    with capturing(database, capture.state) as again:
        again.documents[:0] = capture.documents
        again.until(lambda c: c.done() and _is_right(c, database), SECONDS)


@pytest.mark.parametrize(
    ("runtime", "table", "used", "renamed"),
    [*(("1", *case) for case in AWAY.values()), ("", *CASES["column"])],
    ids=[*AWAY, "column, under another runtime"],
)
def test_a_name_that_only_existed_while_the_capture_was_away(
    database: Database, runtime: str, table: list[str], used: list[str], renamed: list[str]
) -> None:
    env = {RUNTIME: runtime}
    prepare(database, *table)
    with capturing(database, env=env) as capture:
        capture.until(Session.done, SECONDS)
    prepare(database, *used, *renamed)
    with capturing(database, capture.state, env=env) as again:
        again.documents[:0] = capture.documents
        again.until(lambda c: c.done() and _is_right(c, database), SECONDS)


def test_a_row_with_a_label_that_is_renamed_before_it_is_committed(database: Database) -> None:
    """The log has the row with the old label, behind the position at which the label was found renamed."""
    prepare(database, MOOD, "CREATE TABLE t (id int PRIMARY KEY, a mood)", "INSERT INTO t VALUES (1, 'low')")
    with capturing(database) as capture, database.connect(autocommit=False) as writer:
        capture.until(Session.done, SECONDS)
        writer.execute("INSERT INTO t VALUES (2, 'low')")
        prepare(database, "ALTER TYPE mood RENAME VALUE 'low' TO 'bad'")
        capture.until(lambda c: c.done() and _is_right(c, database), SECONDS)
        writer.commit()
        capture.until(lambda c: c.done() and _is_right(c, database), SECONDS)


def test_added_labels_and_columns_have_nothing_read_again(database: Database) -> None:
    prepare(database, MOOD, "CREATE TABLE t (id int PRIMARY KEY, a mood)", "INSERT INTO t VALUES (1, 'low')")
    with capturing(database) as capture:
        capture.until(Session.done, SECONDS)
        prepare(
            database,
            ADD,
            "INSERT INTO t VALUES (2, 'mid')",
            "ALTER TABLE t ADD b mood",
            "INSERT INTO t VALUES (3, 'mid', 'mid')",
            "ALTER TABLE t ADD c int",
            "INSERT INTO t VALUES (4, 'low', 'high', 5)",
        )
        capture.until(lambda c: len(kept(c)) == 4, SECONDS)
        shown = "ALTER TYPE mood RENAME VALUE 'high' TO 'great'"
        assert operations(capture) == {"s": 1, "c": 3}
        prepare(database, shown)
        capture.until(lambda c: c.done() and _is_right(c, database), SECONDS)
        assert operations(capture) == {"s": 5, "c": 3}
