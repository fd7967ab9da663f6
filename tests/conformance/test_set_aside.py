"""Tables that go away, in a session and between two: they are set aside, the others go on, and they come back."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

import pytest

from tests.captures.session import Json, Session, session
from tests.conformance.engine import Code, Engine

GRACE = 1.0
SECONDS = 20

TABLES = ("users", "orders")


def _tables(engine: Engine) -> list[Json]:
    """Two tables, and their bindings."""
    engine.users(50)
    engine.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)")
    engine.insert("orders", [(n, n * 10) for n in range(1, 51)])
    return engine.bindings(*TABLES)


def _capture(
    engine: Engine, bound: list[Json], state: Json | None = None, *, stop: bool = False, grace: float = GRACE
) -> AbstractContextManager[Session]:
    if not state:
        engine.apply(bound)
    command = [sys.executable, "-m", "tests.captures.impatient", str(grace), engine.module]
    return session(engine.config(), bound, state, stop=stop, command=command)


def aside(capture: Session, table: str = "orders") -> Json | None:
    """What the state says of a table that is set aside."""
    for key, state in capture.state.get("bindings", {}).items():
        if key.endswith(f"%2F{table}"):
            found: Json | None = state.get("aside")
            return found
    return None


def _status(capture: Session, table: str = "orders") -> str:
    lines = [line for line in capture.logs if line.get("eventType") == "connectorStatus"]
    found = (
        [state for name, state in lines[-1]["fields"]["tables"].items() if name.endswith(f".{table}")] if lines else []
    )
    return str(found[0]["state"]) if found else ""


def _set_aside(capture: Session) -> bool:
    return aside(capture) is not None and _status(capture) == "set_aside"


def _others_go_on(engine: Engine, capture: Session, number: int = 1000) -> None:
    engine.insert("users", [(number, "meanwhile")])
    capture.until(lambda c: (number,) in c.rows())


GONE: dict[str, tuple[list[str], list[str]]] = {
    "dropped": (
        ["DROP TABLE orders"],
        ["CREATE TABLE orders (id int PRIMARY KEY, total int)", "INSERT INTO orders VALUES (7, 70)"],
    ),
    "renamed": (
        ["ALTER TABLE orders RENAME TO elsewhere", "INSERT INTO elsewhere VALUES (77, 770)"],
        ["DELETE FROM elsewhere WHERE id < 20", "ALTER TABLE elsewhere RENAME TO orders"],
    ),
}


@pytest.mark.parametrize("how", GONE)
def test_while_it_is_captured(engine: Engine, how: str) -> None:
    bound = _tables(engine)
    gone, back = GONE[how]
    with _capture(engine, bound) as capture:
        capture.until(Session.done)
        engine.execute(*gone)
        capture.until(_set_aside, SECONDS)
        found = aside(capture)
        assert found is not None and found["code"] == engine.code(Code.NO_TABLE) and "orders" in found["text"]
        _others_go_on(engine, capture)
        engine.execute(*back)
        engine.publish(bound)
        capture.until(lambda c: c.done() and aside(c) is None and c.rows(1) == engine.rows("orders"), SECONDS)
        engine.execute("INSERT INTO orders VALUES (500, 5)")
        capture.until(lambda c: c.rows(1) == engine.rows("orders"))
    assert capture.rows(0) == engine.rows("users")


@pytest.mark.parametrize("how", GONE)
def test_between_two_sessions(engine: Engine, how: str) -> None:
    bound = _tables(engine)
    gone, back = GONE[how]
    with _capture(engine, bound, stop=True) as first:
        assert first.finish() == 0
    engine.execute(*gone)
    with _capture(engine, bound, first.state, stop=True) as second:
        engine.insert("users", [(1000, "meanwhile")])
        assert second.finish() == 1
        assert second.logs[-1]["fields"]["code"] == "TM-CAP-007", second.last_words()
        assert "orders" in second.logs[-1]["message"] and engine.code(Code.NO_TABLE) in second.logs[-1]["message"]
        assert aside(second) is not None
        assert (1000,) in second.rows()
    engine.execute(*back)
    engine.publish(bound)
    with _capture(engine, bound, second.state, stop=True) as third:
        assert third.finish() == 0
        third.documents[:0] = [*first.documents, *second.documents]
        assert third.rows(1) == engine.rows("orders")
        assert third.rows(0) == engine.rows("users")
