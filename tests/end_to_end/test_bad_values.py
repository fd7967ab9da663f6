"""Values that have no place in a document, as a user of `tidemark capture` meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import DATABASES
from tests.conformance.engine import Engine
from tests.end_to_end.capture import Capture
from tests.runtime.logged_events import events
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.models import QUARANTINE


@pytest.fixture(params=["postgres", "mariadb"])
def engine(request: pytest.FixtureRequest) -> Engine:
    kind, database = DATABASES[request.param]
    made: Engine = kind(request.getfixturevalue(database))
    return made


def _insert(engine: Engine, *rows: str) -> None:
    loosely = ["SET sql_mode = ''"] if engine.prefix == "TM-MY" else []
    engine.execute(*loosely, *(f"INSERT INTO born VALUES ({row})" for row in rows))


def _rows(capture: Capture, collection: str) -> list[Any]:
    return [(e["id"], str(e["day"])) for e in events(ChangeLog(capture.log), collection) if e["_op"] != "t"]


def test_set_aside_then_the_line_that_the_error_says(engine: Engine, tmp_path: Path) -> None:
    bad = "infinity" if engine.prefix == "TM-PG" else "0000-00-00"
    engine.users(3)
    engine.execute("CREATE TABLE born (id int PRIMARY KEY, day date)")
    _insert(engine, "1, '2024-01-15'", f"2, '{bad}'")
    born, users = f"{engine.schema}.born", f"{engine.schema}.users"
    capture = Capture(tmp_path, engine.database, engine.config(), tables=[born, users])
    ended = capture.run("capture", "--until-caught-up", "--json")
    assert ended.status == 1
    assert "TM-CAP-007" in ended.said and "TM-CAP-020" in ended.said
    line = f"{{table: {born}, on_bad_value: {{day: text}}}}"
    assert line in ended.said and "emptied and read again" in ended.said
    assert len(list(events(ChangeLog(capture.log), f"{engine.schema}/users"))) == 3
    status = json.loads(capture.status_file.read_text())
    assert status["tables"][born]["state"] == "set_aside" and "column day" in status["tables"][born]["error"]
    capture.tables = [{"table": born, "on_bad_value": {"day": "text"}}, users]
    capture.write()
    capture.catch_up()
    assert sorted(_rows(capture, f"{engine.schema}/born"))[-2:] == [(1, "2024-01-15"), (2, bad)]


def test_quarantine(engine: Engine, tmp_path: Path) -> None:
    bad = "infinity" if engine.prefix == "TM-PG" else "0000-00-00"
    engine.execute("CREATE TABLE born (id int PRIMARY KEY, day date)")
    _insert(engine, "1, '2024-01-15'", f"2, '{bad}'")
    born = f"{engine.schema}.born"
    capture = Capture(tmp_path, engine.database, {**engine.config(), "on_bad_value": "quarantine"}, tables=[born])
    capture.catch_up()
    _insert(engine, f"3, '{bad}'")
    # The row of the first one is mended: what comes later has a higher offset.
    engine.execute("UPDATE born SET day = '2024-02-29' WHERE id = 2")
    capture.catch_up()
    log = ChangeLog(capture.log)
    apart = list(events(log, QUARANTINE))
    assert [(e["collection"], e["key"], e["bad"]) for e in apart] == [
        (f"{engine.schema}/born", '{"id":2}', f'{{"day":"{bad}"}}'),
        (f"{engine.schema}/born", '{"id":3}', f'{{"day":"{bad}"}}'),
    ]
    kept = list(events(log, f"{engine.schema}/born"))
    assert [(e["id"], str(e["day"])) for e in kept] == [(1, "2024-01-15"), (2, "2024-02-29")]
    assert {e["id"]: e["_offset"] for e in kept}[2] > apart[0]["_offset"]
    status = json.loads(capture.status_file.read_text())
    assert status["tables"][born]["bad_values"] == {"quarantine": 2}
    assert status["tables"][QUARANTINE]["events"] == 1  # of this run
