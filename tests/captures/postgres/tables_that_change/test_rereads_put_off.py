"""``on_alter: ask`` where it depends on what PostgreSQL can tell: rows that may be gone, and rows without keys."""

from __future__ import annotations

import pytest

from tests.captures.impatient import NEVER, aside_of
from tests.captures.postgres.tables_that_change.capturing import SECONDS, capturing, held, kept
from tests.captures.session import Session
from tests.captures.source_tables import prepare
from tests.conformance.test_on_alter import order, refused
from tests.conformance.test_rereads import causes, said
from tests.conformance.test_rereads import kept as noted
from tidemark.captures.postgres.server.rewrite_trigger import SCRIPT
from tidemark.testing.servers.postgres import Database

TABLE = "CREATE TABLE t (id int {}, a text)"
ROWS = "INSERT INTO t SELECT i, i::text FROM generate_series(1, 100) i"


def test_rows_may_be_gone_and_keys_are_what_they_were(database: Database) -> None:
    """Its changes are captured, and its rows are never taken for right."""
    prepare(database, TABLE.format("PRIMARY KEY"), ROWS)
    with capturing(database, on_alter="ask") as first:
        first.until(Session.done)
    publish = "ALTER PUBLICATION tidemark SET (publish = '{}')"
    less, all_of_it = publish.format("insert"), publish.format("insert, update, delete, truncate")
    prepare(database, less, "DELETE FROM t WHERE id = 30", all_of_it)
    with capturing(database, first.state, on_alter="ask") as second:
        second.documents[:0] = first.documents
        second.until(lambda c: bool(noted(c, "t").get("put_off")) and bool(said(c, "t")), SECONDS)
        assert "options" in causes(noted(second, "t")) and aside_of(second, "t") is None
        prepare(database, "UPDATE t SET a = 'new' WHERE id = 1", "DELETE FROM t WHERE id = 2")
        second.until(lambda c: (2,) not in c.rows(), SECONDS)
        assert second.rows()[(1,)]["a"] == "new" and (30,) in second.rows()
        order(second, 1, keep=True)
        refused(second, "TM-CAP-009")
        order(second, 2)
        second.until(lambda c: kept(c) == held(database), SECONDS)


def test_rows_without_a_key_cannot_be_told_apart(database: Database) -> None:
    """A change would have to name a row as it is downstream: the table is set aside, and nothing comes twice."""
    prepare(database, TABLE.format(""), "ALTER TABLE t REPLICA IDENTITY FULL", ROWS)
    with capturing(database, on_alter="ask") as first:
        first.until(Session.done)
        prepare(database, "ALTER TABLE t ALTER id TYPE text", "DELETE FROM t WHERE id = '30'")
        first.until(lambda c: aside_of(c, "t") is not None and bool(noted(c, "t").get("put_off")), SECONDS)
        order(first, 1, keep=True)
        refused(first, "TM-CAP-009")
        prepare(database, "INSERT INTO t VALUES ('200', 'meanwhile')")
    with capturing(database, first.state, on_alter="ask") as second:
        second.documents[:0] = first.documents
        order(second, 2)
        second.until(lambda c: aside_of(c, "t") is None and kept(c, ()) == held(database), SECONDS)


@pytest.mark.parametrize("keep", [False, True], ids=["read again", "kept"])
def test_a_rewrite_of_which_the_trigger_tells(database: Database, keep: bool) -> None:
    """It is put off where the log has it, and later rows keep coming; then the user's word counts."""
    prepare(database, TABLE.format("PRIMARY KEY"), ROWS, SCRIPT)
    with capturing(database, on_alter="ask", look=NEVER) as first:
        first.until(Session.done)
        prepare(
            database,
            "ALTER TABLE t ALTER a TYPE text USING a || '!'",
            "UPDATE t SET a = 'later' WHERE id = 1",
        )
        first.until(lambda c: bool(noted(c, "t").get("put_off")) and c.rows()[(1,)]["a"] == "later", SECONDS)
        assert causes(noted(first, "t")) == {"column_rewritten": ["a"]}
        assert first.rows()[(2,)]["a"] == "2"
    with capturing(database, first.state, on_alter="ask", look=NEVER) as second:
        second.documents[:0] = first.documents
        order(second, 1, keep=keep)
        if not keep:
            second.until(lambda c: kept(c) == held(database), SECONDS)
            return
        prepare(database, "UPDATE t SET a = 'last' WHERE id = 3")
        second.until(lambda c: c.rows()[(3,)]["a"] == "last", SECONDS)
        assert not noted(second, "t").get("put_off")
        assert second.rows()[(2,)]["a"] == "2" and held(database) != kept(second)
