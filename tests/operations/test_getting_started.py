"""The short SQL of docs/getting-started.md is enough for a capture."""

from __future__ import annotations

import re
from pathlib import Path

from tests.end_to_end.capture import Capture
from tests.house.files import ROOT
from tests.operations.test_lag import slot_of
from tests.workload.tables import create_tables
from tidemark.testing.servers.postgres import Database


def test_the_statements_of_the_page_as_a_superuser_runs_them(database: Database, tmp_path: Path) -> None:
    page = (ROOT / "docs/getting-started.md").read_text()
    found = re.search(r"as a superuser:\n\n```text\n(.*?)```", page, re.DOTALL)
    assert found
    user, password = database.name, "a-password-of-cdc"
    statements = found[1].replace("cdc", user).replace("…", password).splitlines()
    assert statements.pop(0).startswith("ALTER SYSTEM SET wal_level = logical;")  # The server has it.
    create_tables(database, 20)
    capture = Capture(tmp_path, database, {**slot_of(database), "user": user, "password": password})
    capture.config["publication"] = "tidemark_shop"
    capture.write()
    with database.connect() as admin:
        try:
            admin.execute("\n".join(statements).encode())
            checked = capture.run("check")
            assert checked.status == 0, checked.said
            capture.catch_up()
            assert capture.differences() == []
        finally:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [user])
            admin.execute(f"DROP OWNED BY {user}; DROP ROLE {user}".encode())
