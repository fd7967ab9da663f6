"""The condition of a command: one that is none reads nothing, is said at once, and does no harm to its table."""

from __future__ import annotations

import sys

import pytest

from tests.captures.engine.test_commands import control, handled, snapshots
from tests.captures.mysql.table_chunks import run
from tests.captures.session import Session, bindings, session
from tidemark.testing.servers.mariadb import Database

COMMAND = [sys.executable, "-m", "tidemark.connectors.mysql"]


@pytest.mark.parametrize("where", ["id > 4) OR (1 = 1", "id >", "nothing = 1"])
def test_what_is_no_condition_reads_nothing(binlog_database: Database, where: str) -> None:
    run(binlog_database, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (5)")
    name = f"{binlog_database.name}.t"
    with session(binlog_database.config(), bindings(name), command=COMMAND) as capture:
        capture.until(Session.done)
        capture.send(control(1, "backfill", name, where=where))
        capture.until(lambda c: handled(1)(c) and any("was refused" in line["message"] for line in c.logs))
        (said,) = [line for line in capture.logs if "was refused" in line["message"]]
        assert said["fields"]["code"] == "TM-CAP-004" and "is no condition" in said["message"]
        assert capture.done() and not any("retrying" in line["message"] for line in capture.logs)
        capture.send(control(2, "backfill", name, where="id > 4 -- these"))
        capture.until(lambda c: handled(2)(c) and len(snapshots(c)) == 4)
        assert snapshots(capture) == [1, 2, 5, 5]
