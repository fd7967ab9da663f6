"""Every statement that a connector says to run is run by a test: here stands by which one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.captures.remedies import STATEMENT

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[2]

POSTGRES = "tests/captures/postgres/server/test_remedies.py"
STANDBY = "tests/captures/postgres/server/test_standby.py"
PLATFORMS = "tests/captures/postgres/server/test_prerequisites.py"
RESUMPTION = "tests/captures/postgres/server/test_resumption.py"
TRIGGER = "tests/captures/postgres/server/test_rewrite_trigger.py"
MYSQL = "tests/captures/mysql/server/test_remedies.py"
STREAMS = "tests/captures/postgres/log/test_left_streams.py"
OF_ALL = "tests/conformance/test_remedies.py"

EXECUTED = {
    # X stands for what the error knows.
    "ALTER EVENT TRIGGER tidemark_note_rewrite ENABLE ALWAYS;": TRIGGER,
    "ALTER PUBLICATION X ADD TABLE X;": POSTGRES,
    "ALTER PUBLICATION X DROP TABLE X;": POSTGRES,
    "ALTER PUBLICATION X SET (publish = 'insert, update, delete, truncate');": POSTGRES,
    "ALTER PUBLICATION X SET (publish_via_partition_root = true);": POSTGRES,
    "ALTER ROLE X LOGIN;": POSTGRES,
    "ALTER ROLE X REPLICATION;": POSTGRES,
    "ALTER ROLE {role} BYPASSRLS;": PLATFORMS,
    "ALTER ROLE {role} REPLICATION;": PLATFORMS,
    "ALTER SYSTEM SET hot_standby_feedback = on;": STANDBY,
    "ALTER SYSTEM SET wal_level = logical;": PLATFORMS,
    "ALTER TABLE X DROP SYSTEM VERSIONING;": MYSQL,
    "ALTER TABLE X REPLICA IDENTITY DEFAULT;": POSTGRES,
    "ALTER TABLE X REPLICA IDENTITY FULL;": POSTGRES,
    "ALTER TABLE X SET LOGGED;": POSTGRES,
    "CREATE EVENT TRIGGER tidemark_note_rewrite ON table_rewrite EXECUTE FUNCTION tidemark.note_rewrite();": TRIGGER,
    "CREATE FUNCTION tidemark.note_rewrite() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER "
    "SET search_path = pg_catalog, pg_temp AS $tidemark$X$tidemark$;": TRIGGER,
    "DROP EVENT TRIGGER IF EXISTS tidemark_note_rewrite;": TRIGGER,
    "DROP FUNCTION IF EXISTS tidemark.note_rewrite();": TRIGGER,
    "DROP USER ''@'HOST';": MYSQL,
    "DROP USER X;": MYSQL,
    "FLUSH PRIVILEGES;": MYSQL,
    "GRANT CONNECT ON DATABASE X TO X;": POSTGRES,
    "GRANT REPLICATION SLAVE ON *.* TO X;": MYSQL,
    "GRANT SELECT ON X TO X;": POSTGRES,
    "GRANT SELECT ON `SCHEMA`.* TO X;": MYSQL,
    "GRANT USAGE ON SCHEMA X TO X;": POSTGRES,
    "GRANT X ON *.* TO X;": MYSQL,
    "GRANT pg_read_all_stats TO X;": STANDBY,
    "GRANT rds_replication TO X;": PLATFORMS,
    "GRANT rds_replication TO {role};": PLATFORMS,
    "SELECT * FROM X WHERE \"X\"::text ~ 'X';": POSTGRES,
    "SELECT host FROM mysql.user WHERE user = X;": MYSQL,
    "SELECT pg_drop_replication_slot('X');": RESUMPTION,
    "SELECT pg_log_standby_snapshot();": STANDBY,
    "SELECT pg_reload_conf();": POSTGRES,
    "SELECT pg_terminate_backend(X);": STREAMS,
    "SELECT user, host FROM mysql.user;": MYSQL,
    "SET GLOBAL X = 'X';": MYSQL,
    "SET GLOBAL binlog_order_commits = ON;": MYSQL,
    "SET GLOBAL binlog_row_image = 'FULL';": OF_ALL,
    "SET GLOBAL binlog_row_value_options = '';": OF_ALL,
    "SET GLOBAL gtid_mode = X;": "tests/captures/mysql/test_mysql_only.py",
    "SET GLOBAL server_id = 1;": MYSQL,
    "SHOW VARIABLES LIKE 'ssl_ca';": MYSQL,
}
"""Those of ``error_codes.py`` are all executed by the tests named here; those that psycopg puts together
(``CREATE PUBLICATION``, ``USING INDEX``, and the dropping of a slot) are in the tests named here, too."""

NO_REMEDIES = {"ALTER TABLE waits, and the server keeps old row versions;"}


def _texts(tree: ast.AST) -> Iterator[str]:
    """Every string but docstrings, that of an f-string with X in the place of values."""
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    left_out |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_statement_that_is_said_is_executed() -> None:
    paths = [path for path in (ROOT / "captures").rglob("*.py") if path.name != "error_codes.py"]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    said = {each for tree in trees for text in _texts(tree) for each in STATEMENT.findall(" ".join(text.split()))}
    assert said - NO_REMEDIES == EXECUTED.keys()
    assert all((ROOT / path).exists() for path in EXECUTED.values())
