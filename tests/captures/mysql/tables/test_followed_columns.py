"""The columns after a statement, by those before it: they are the server's, in its order."""

from __future__ import annotations

from contextlib import closing
from random import Random

import pymysql
import pytest

from tests.captures.mysql.table_chunks import run
from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.statements.changes import changes
from tidemark.captures.mysql.tables.followed_columns import followed, resolved
from tidemark.captures.mysql.terms.columns import Column
from tidemark.testing.servers.mariadb import Database

A, B, C = (Column(name, "int") for name in "abc")


def _names(database: Database) -> list[str]:
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW COLUMNS FROM t")
        return [row[0] for row in cursor.fetchall()]


def _clauses(random: Random, names: list[str], count: int) -> list[str]:
    """Of one statement, which the server may refuse."""
    found = []
    here = [name for name in names if name != "id"]
    random.shuffle(here)
    for _ in range(random.randint(1, 4)):
        there = random.choice(["", " FIRST", f" AFTER {random.choice(names)}", f" AFTER n{count}"])
        count += 1
        steps = [f"ADD COLUMN n{count} INT DEFAULT 7{there}", f"ADD (n{count} INT, m{count} INT NOT NULL)"]
        if here:
            old = here.pop()
            old = random.choice((old, old, old.upper()))
            new = random.choice((f"n{count}", *names))
            steps = [
                random.choice(steps),
                f"DROP {old}",
                f"MODIFY {old.lower()} BIGINT{there}",
                f"CHANGE {old} {new} BIGINT{there}",
                f"RENAME COLUMN {old} TO {new}",
                f"DROP COLUMN {old}, ADD COLUMN {old.lower()} INT{there}",
            ]
        found.append(random.choice(steps))
    return found


def test_the_names_and_their_order_are_those_of_the_server(binlog_database: Database) -> None:
    random = Random(1)
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c INT)")
    known, unsure = 0, []
    for number in range(300):
        before = _names(binlog_database)
        statement = f"ALTER TABLE t {', '.join(_clauses(random, before, number * 10))}"
        try:
            run(binlog_database, statement)
        except pymysql.Error:
            continue
        (change,) = changes(statement.encode(), "d")
        alteration = resolved(change.alteration, [Column(name, "int") for name in before])
        assert alteration is not None, (statement, before)
        # In another order, and with columns of later statements, as the catalog may be when the log is behind.
        catalog = [Column(name, "int") for name in (*reversed(_names(binlog_database)), "later")]
        found = followed([Column(name, "int") for name in before], alteration, catalog)
        if found is None:
            unsure.append(statement)
            continue
        assert [column.name for column in found] == _names(binlog_database), (statement, before)
        known += 1
    # Two columns that move, one of them behind the other.
    assert known > 100 and len(unsure) < known / 20 and all(s.count(" AFTER ") > 1 for s in unsure), unsure


@pytest.mark.parametrize(
    "alteration",
    [
        Alteration(unknown=True),
        Alteration(dropped=("x",)),
        Alteration(renamed=(("x", "y"),)),
        Alteration(renamed=(("a", "b"),)),
        Alteration(renamed=(("a", "x"), ("b", "x"))),
        Alteration(added=("A",), placed=(("A", None),)),
        Alteration(revalued=("x",)),
        Alteration(redefaulted=("x",)),
    ],
)
def test_what_does_not_fit_is_not_known(alteration: Alteration) -> None:
    """Clauses with IF EXISTS may have done nothing."""
    assert resolved(alteration, (A, B, C)) is None


def test_definitions_come_from_the_catalog_where_the_statement_gives_them() -> None:
    big, later = Column("a", "bigint"), Column("b", "bigint")
    modified = Alteration(revalued=("a",))
    assert followed((A, B), modified, (big, later)) == (big, B)
    assert followed((A, B), modified, (later,)) is None
    renamed = Alteration(renamed=(("a", "c"),))
    assert followed((A, B), renamed, (later,)) == (C, B)
    assert followed((A, B), Alteration(added=("c",), placed=(("c", "a"),)), (C, later)) == (A, C, B)
    assert followed((A, B), Alteration(added=("c",), placed=(("c", None),)), (later,)) is None


def test_hidden_columns() -> None:
    """MariaDB's hash of a unique index comes last; while the catalog is ahead it is not known whether it is there."""
    hidden = Column("DB_ROW_HASH_1", "bigint", hidden=True)
    added = Alteration(added=("b",), placed=(("b", None),))
    assert followed((A, hidden), added, (A, B, hidden)) == (A, B, hidden)
    assert followed((A, hidden), added, (A, B, C, hidden)) is None
