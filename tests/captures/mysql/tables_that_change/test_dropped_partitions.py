"""``on_partition_gone``: the rows of partitions that are dropped stay downstream, or their table is read again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.mysql.captured_log import captured_log
from tests.captures.mysql.table_chunks import run
from tidemark.testing.servers.mariadb import Database

TABLE = """
    CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id)
    (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION `p 2` VALUES LESS THAN (30))
"""


@pytest.mark.parametrize("stopped", [False, True], ids=["live", "stopped"])
@pytest.mark.parametrize("policy", ["warn", "reread", "default"])
def test_partitions_that_are_dropped(
    binlog_database: Database, caplog: pytest.LogCaptureFixture, policy: str, stopped: bool
) -> None:
    run(binlog_database, TABLE, "INSERT INTO t VALUES (1), (11), (21)")
    config = {} if policy == "default" else {"on_partition_gone": policy}
    statements = ["ALTER TABLE t DROP PARTITION p0, `p 2`", "INSERT INTO t VALUES (12)"]
    before: dict[str, Any] = {}
    if stopped:
        with captured_log(binlog_database, "t", **config) as log:
            before = {"cursor": str(log.log.log_position), "identity": log.source.identity()}
        run(binlog_database, *statements)
    with captured_log(binlog_database, "t", **before, **config) as log:
        if not stopped:
            run(binlog_database, *statements)
        assert [document["id"] for document in log.read()] == [12]
        assert log.restarted == (set() if policy == "warn" else {0}) and not log.to_read_again and not log.set_aside
    warned = [record.getMessage() for record in caplog.records if getattr(record, "code", "") == "TM-MY-056"]
    assert len(warned) == (policy == "warn")
    assert all(f"{binlog_database.name}.t: p0, p 2 went at" in message for message in warned)


def test_a_partition_that_is_emptied_is_none_that_is_gone(binlog_database: Database) -> None:
    run(binlog_database, TABLE, "INSERT INTO t VALUES (1), (11)")
    with captured_log(binlog_database, "t", on_partition_gone="warn") as log:
        run(binlog_database, "ALTER TABLE t TRUNCATE PARTITION p0")
        log.read()
        assert log.restarted == {0}
