"""Tables that are not captured, and commands that failed, are told for as long as that is so, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import DATABASES
from tests.conformance.engine import Engine
from tests.end_to_end.capture import Capture
from tests.operations.status import is_caught_up, report, status
from tests.warm_command import warm_command
from tidemark.testing.deadline import wait_until


@pytest.fixture(params=["postgres", "mariadb"])
def engine(request: pytest.FixtureRequest) -> Engine:
    kind, database = DATABASES[request.param]
    made: Engine = kind(request.getfixturevalue(database))
    return made


def capture_of(engine: Engine, folder: Path, grace: int) -> Capture:
    """A capture that waits for a missing table for ``grace`` seconds."""
    command = warm_command("tests.captures.impatient", str(grace), "0.2", engine.module)
    return Capture(folder, engine.database, engine.config(), {"command": command}, [f"{engine.schema}.*"])


def table(capture: Capture, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ((report(capture).get("progress") or {}).get("tables") or {}).get(name, {})
    return found


@pytest.mark.drawn(1)
def test_a_table_that_is_renamed(engine: Engine, tmp_path: Path) -> None:
    engine.users(20)
    engine.execute("CREATE TABLE orders (id int PRIMARY KEY, note text)", "INSERT INTO orders VALUES (1, 'a')")
    orders = f"{engine.schema}.orders"
    capture = capture_of(engine, tmp_path, 6)
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        engine.execute("ALTER TABLE orders RENAME TO orders_old")
        wait_until(lambda: table(capture, orders).get("state") in ("away", "set_aside"), 30, "it is away")
        away = status(capture)
        assert "done: TM-" not in away.text
        assert away.exit_status == (1, 1)
        wait_until(lambda: table(capture, orders)["state"] == "set_aside", 30, "it is set aside")
        engine.execute("INSERT INTO users VALUES (1000, 'meanwhile')")
        wait_until(lambda: report(capture)["events"] >= 22, 30, "the others go on")
        told = status(capture)
        code = told.report["set_aside"][orders].partition(":")[0]
        assert (told.report["error"]["code"], told.report["error"]["passed"]) == (code, None)
        assert "now resolved" not in told.text
        remedy = told.report["halted"][orders]["remedy"]
        assert remedy and f"what to do: {remedy}" in told.text
        assert told.report["needs"] and f"needs you: {orders} is set aside" in told.text
        assert told.exit_status == (1, 1)
        engine.execute("ALTER TABLE orders_old RENAME TO orders")
        wait_until(lambda: status(capture).exit_status == (0, 0), 60, "it is back")
        assert report(capture)["error"]["passed"]


def test_a_condition_that_is_none(engine: Engine, tmp_path: Path) -> None:
    engine.users(20)
    users = f"{engine.schema}.users"
    capture = capture_of(engine, tmp_path, 6)
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        refused = capture.run("backfill", "-t", users, "--where", "nonsense ===")
        assert (refused.status, "TM-CAP-004" in refused.said) == (2, True), refused.said
        told = status(capture)
        assert list(told.report["refused"].values())
        assert "failed: command 1 (backfill) was refused" in told.text and "now resolved" not in told.text
        assert told.exit_status == (0, 0)


@pytest.mark.drawn(1)
def test_rows_that_a_command_asked_for_and_that_cannot_be_read(engine: Engine, tmp_path: Path) -> None:
    if engine.module.endswith("mysql"):
        pytest.skip("MySQL reads every condition that it takes")
    engine.users(20)
    users = f"{engine.schema}.users"
    capture = capture_of(engine, tmp_path, 6)
    with capture.start():
        wait_until(lambda: is_caught_up(capture), 60, "it is caught up")
        assert capture.run("backfill", "-t", users, "--where", "1 / (id - 3) > 0").status == 0
        wait_until(lambda: table(capture, users).get("dropped"), 60, "it has failed")
    with capture.start():  # It is in the state.
        wait_until(lambda: report(capture)["running"] and table(capture, users).get("dropped"), 60, "it runs again")
        told = status(capture)
        assert "TM-PG-019" in told.report["dropped"][users]
        assert "done; a command failed" in told.text
        assert "what to do: correct the command and send it again; or forget it: tidemark resume" in told.text
        assert told.exit_status == (1, 1)
        assert capture.run("resume", "-t", users).status == 0
        wait_until(lambda: status(capture).exit_status == (0, 0), 60, "it is forgotten")
