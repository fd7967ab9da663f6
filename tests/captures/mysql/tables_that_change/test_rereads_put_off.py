"""``on_alter: ask`` where MySQL's log tells it: a statement removes rows, and the others keep their keys."""

from __future__ import annotations

import sys

from tests.captures.impatient import aside_of
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Json, Session, bindings, session
from tests.conformance.test_on_alter import order, refused
from tests.conformance.test_rereads import causes, said
from tests.conformance.test_rereads import kept as noted
from tidemark.captures.mysql.tables.table_changes import PARTITION_REMOVED
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]
SECONDS = 60

PARTITIONED = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT) PARTITION BY RANGE (id) "
    "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)"
)


def test_rows_are_gone_and_keys_are_what_they_were(binlog_database: Database) -> None:
    run(binlog_database, PARTITIONED, "INSERT INTO t VALUES (1, 1), (11, 11), (12, 12)")
    config: Json = {**binlog_database.config(), "on_alter": "ask"}
    bound = bindings(f"{binlog_database.name}.t")
    with session(config, bound, command=COMMAND) as capture:
        capture.until(Session.done)
        run(binlog_database, "ALTER TABLE t DROP PARTITION p0", "UPDATE t SET a = 0 WHERE id = 11")
        capture.until(lambda c: bool(noted(c, "t").get("put_off")) and bool(said(c, "t")), SECONDS)
        assert causes(noted(capture, "t")) == {PARTITION_REMOVED.name: ["p0"]} and aside_of(capture, "t") is None
        capture.until(lambda c: c.rows()[(11,)]["a"] == 0, SECONDS)
        assert (1,) in capture.rows()
        order(capture, 1, keep=True)
        refused(capture, "TM-CAP-009")
        order(capture, 2)
        capture.until(lambda c: c.rows().keys() == {(11,), (12,)}, SECONDS)
