"""The statements that errors give as remedies are executed as they stand, and the capture goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.capture import Capture
from tests.house.error_codes import CODES
from tests.workload.tables import create_tables
from tidemark.testing.servers.postgres import Database, drop_slot

STATEMENT = re.compile(r"\b(?:(?:ALTER|CREATE|DROP|GRANT|COMMENT) |SELECT pg_)[^;]*;")


@contextmanager
def role(database: Database) -> Iterator[str]:
    """A role that has every right a capture needs, and nothing more."""
    name = f"{database.name}_cdc"
    with database.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN REPLICATION PASSWORD 'sesame'".encode())
        connection.execute(f"GRANT CREATE ON DATABASE {database.name} TO {name}".encode())
        for table in ("accounts", "entries", "labels"):
            connection.execute(f"ALTER TABLE {table} OWNER TO {name}".encode())
    try:
        yield name
    finally:
        with database.connect() as connection:
            for leave in ("REASSIGN OWNED BY {} TO CURRENT_USER", "DROP OWNED BY {}", "DROP ROLE {}"):
                connection.execute(leave.format(name).encode())


def follow(capture: Capture, database: Database, code: str, command: str = "capture") -> None:
    """Runs the command, which fails with ``code`` for a person to act, and does what it says."""
    ended = capture.run(command, *(["--until-caught-up"] if command == "capture" else []))
    assert (ended.status, code in ended.said) == (1, True), ended.said
    if command == "capture":  # Without a terminal its lines are JSON, the last one too.
        advice = str(json.loads(ended.said.splitlines()[-1])["fields"]["remedy"])
    else:
        advice = ended.said[ended.said.index("what to do:") :]
    statements = STATEMENT.findall(advice)
    assert statements, advice
    with database.connect() as connection:
        for statement in statements:
            if "rds_replication" not in statement:  # a role of Amazon's own
                connection.execute(statement.encode())


@pytest.mark.parametrize(
    ("revoked", "code"),
    [
        ("REVOKE CONNECT ON DATABASE {database} FROM PUBLIC", "TM-PG-002"),
        ("ALTER ROLE {role} NOREPLICATION", "TM-PG-006"),
    ],
    ids=["CONNECT", "REPLICATION"],
)
def test_a_right_that_is_revoked(database: Database, tmp_path: Path, revoked: str, code: str) -> None:
    create_tables(database, 20)
    with role(database) as name:
        capture = Capture(tmp_path, database, {"user": name, "password": "sesame"})
        capture.catch_up()
        with database.connect() as connection:
            connection.execute(revoked.format(database=database.name, role=name).encode())
        follow(capture, database, code)
        capture.catch_up()
        drop_slot(database, "tidemark_test")


def test_a_lost_slot_with_a_connector_that_makes_none(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    with database.connect() as connection:
        connection.execute("CREATE PUBLICATION tidemark_test FOR ALL TABLES")
    capture = Capture(tmp_path, database, {"create": False})
    follow(capture, database, "TM-PG-012")
    capture.catch_up()
    drop_slot(database, "tidemark_test")
    capture.config["on_lost_position"] = "backfill"
    capture.write()
    follow(capture, database, "TM-PG-012")
    capture.catch_up()
    assert capture.differences() == []


def test_no_remedy_refers_to_what_no_capture_file_has() -> None:
    for code, entry in CODES.items():
        assert '{"spec"' not in entry.remedy, code
