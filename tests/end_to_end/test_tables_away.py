"""A table that is dropped while nobody captures it: the next run captures the others, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import DATABASES
from tests.conformance.engine import Engine
from tests.end_to_end.capture import Capture
from tests.warm_command import warm_command
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.known_tables import known_tables


@pytest.fixture(params=["postgres", "mariadb"])
def engine(request: pytest.FixtureRequest) -> Engine:
    kind, database = DATABASES[request.param]
    made: Engine = kind(request.getfixturevalue(database))
    return made


def _capture(engine: Engine, folder: Path, tables: list[Any]) -> Capture:
    """With a connector that waits a second only."""
    command = warm_command("tests.captures.impatient", "1", "0.2", engine.module)
    return Capture(folder, engine.database, engine.config(), {"command": command}, tables)


def _events(capture: Capture) -> int:
    return ChangeLog(capture.log).summary().next_offset


@pytest.mark.drawn(1)
@pytest.mark.parametrize("named", [False, True], ids=["by a pattern", "by name"])
def test_a_table_that_is_dropped_between_two_runs(engine: Engine, tmp_path: Path, named: bool) -> None:
    engine.users(20)
    engine.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)", "INSERT INTO orders VALUES (1, 'a')")
    names = [f"{engine.schema}.users", f"{engine.schema}.orders"]
    capture = _capture(engine, tmp_path, names if named else [f"{engine.schema}.*"])
    capture.catch_up()
    engine.execute("DROP TABLE orders", "INSERT INTO users VALUES (1000, 'meanwhile')")
    before = _events(capture)
    ended = capture.run("capture", "--until-caught-up", "--json")
    assert ended.status == 1
    assert "TM-CAP-007" in ended.said and f"{engine.schema}.orders" in ended.said
    assert _events(capture) == before + 1
    status = json.loads(capture.status_file.read_text())
    table = status["tables"][f"{engine.schema}.orders"]
    assert table["state"] == "set_aside" and "orders" in table["error"]
    # Nothing refuses the others meanwhile.
    assert capture.run("check").status == 0
    assert capture.run("plan").status == 0
    engine.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)", "INSERT INTO orders VALUES (2, 'b')")
    capture.catch_up()
    assert [table.recommended_name for table in known_tables(capture.log)] == [
        f"{engine.schema}/{name}" for name in ("orders", "users")
    ]
    # The old row, its end, the new row.
    assert _events(capture) == before + 3
