"""What ``tidemark check --fix-sql`` prints is run as it is, and the check is satisfied."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.end_to_end.capture import Capture
from tests.end_to_end.test_remedies import role
from tests.workload.tables import create_tables
from tidemark.testing.servers.postgres import Database, drop_slot

TRIGGERS = "SELECT evtname, evtenabled::text FROM pg_event_trigger"


def _codes(capture: Capture) -> set[str]:
    """Those of the failures and warnings that have one."""
    report = json.loads(capture.run("check", "--json").said.splitlines()[0])
    return {each["code"] for each in report["findings"] if each["code"]}


def _follow(capture: Capture, database: Database) -> str:
    """Runs the script as a superuser, by psql where there is one."""
    printed = capture.run("check", "--fix-sql").said
    if database.binaries is None:
        with database.connect() as connection:
            connection.execute(printed.encode())
        return printed
    psql = [str(database.binaries / "psql"), "-X", "-v", "ON_ERROR_STOP=1", "-d", database.dsn]
    done = subprocess.run(psql, input=printed.encode(), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return printed


def test_the_script_for_a_role_that_lacks_rights(database: Database, tmp_path: Path) -> None:
    create_tables(database, 20)
    with role(database) as name:
        with database.connect() as connection:
            connection.execute(f"ALTER ROLE {name} NOREPLICATION".encode())
        capture = Capture(tmp_path, database, {"user": name, "password": "sesame"})
        assert _codes(capture) == {"TM-PG-006"}
        printed = _follow(capture, database)
        assert "-- TM-PG-006: " in printed and "sesame" not in printed
        assert _codes(capture) == set()
        capture.catch_up()
        with database.connect() as connection:
            assert connection.execute(TRIGGERS).fetchall() == [("tidemark_note_rewrite", "A")]
            for statement in ("DISABLE", "ENABLE REPLICA"):
                connection.execute(f"ALTER EVENT TRIGGER tidemark_note_rewrite {statement}".encode())
                assert _codes(capture) == {"TM-PG-045"}
                _follow(capture, database)
                assert _codes(capture) == set()
            connection.execute("ALTER FUNCTION tidemark.note_rewrite() SECURITY INVOKER")
            assert _codes(capture) == {"TM-PG-045"}
            _follow(capture, database)
            assert _codes(capture) == set()
            removing = [
                line.removeprefix("--   ") for line in _follow(capture, database).splitlines() if "DROP" in line
            ]
            assert len(removing) == 2
            for line in removing:
                connection.execute(line.encode())
            assert connection.execute(TRIGGERS).fetchall() == []
        drop_slot(database, "tidemark_test")
