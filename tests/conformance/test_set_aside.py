"""Tables that go away, in a session and between two: they are set aside, the others go on, and they come back."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from tests.captures import session as connector
from tests.captures.impatient import aside_of, impatient, is_set_aside
from tests.captures.session import Json, Session, session
from tests.conformance.engine import Code, Engine
from tidemark.protocol.answers.plan import BACKFILL_PLAN
from tidemark.protocol.environment import PLAN

pytestmark = pytest.mark.heavy

SECONDS = 60

TABLES = ("users", "orders")


def _tables(engine: Engine) -> list[Json]:
    """Two tables, and their bindings."""
    engine.users(50)
    engine.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)")
    engine.insert("orders", [(n, n * 10) for n in range(1, 51)])
    return engine.bindings(*TABLES)


def _capture(
    engine: Engine, bound: list[Json], state: Json | None = None, *, stop: bool = False
) -> AbstractContextManager[Session]:
    if not state:
        engine.apply(bound)
    return session(engine.config(), bound, state, stop=stop, command=impatient(engine.module))


def aside(capture: Session) -> Json | None:
    return aside_of(capture, "orders")


def _set_aside(capture: Session) -> bool:
    return is_set_aside(capture, "orders")


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


@pytest.mark.drawn(2)
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


@pytest.mark.drawn(2)
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


def test_a_first_start_with_one_that_cannot_be_captured(engine: Engine) -> None:
    """Validated with a warning, captured without it; only where it is all of them, there is nothing to capture."""
    engine.users(50)
    engine.execute('CREATE TABLE orders (id int PRIMARY KEY, "_meta" int)', "INSERT INTO orders VALUES (1, 1)")
    bound = engine.bindings("users", "orders", "nowhere")
    status, messages, logs = engine.unary({"validate": {"config": engine.config(), "bindings": bound}})
    assert status == 0 and len(messages[0]["validated"]["bindings"]) == 3
    warned = {line["fields"]["code"]: line for line in logs if line["level"] == "warning" and line.get("fields")}
    assert warned.keys() >= {engine.code(Code.NO_TABLE), engine.code(Code.RESERVED_COLUMN)}
    assert all(line["fields"]["remedy"] for line in warned.values())
    with _capture(engine, bound) as capture:
        capture.until(lambda c: _set_aside(c) and len(c.rows()) == 50, SECONDS)
        _others_go_on(engine, capture)
        engine.execute('ALTER TABLE orders DROP COLUMN "_meta"')
        capture.until(lambda c: aside(c) is None and c.rows(1) == engine.rows("orders"), SECONDS)
        assert aside_of(capture, "nowhere") is not None


def test_a_plan_with_one_that_cannot_be_captured(engine: Engine) -> None:
    engine.users(50)
    request = {"validate": {"config": engine.config(), "bindings": engine.bindings("users", "nowhere")}}
    status, _, logs = connector.unary(request, {PLAN: "1"}, command=engine.command)
    (found,) = [line["fields"] for line in logs if line.get("eventType") == BACKFILL_PLAN]
    assert (status, list(found["tables"])) == (0, [f"{engine.schema}.users"])


def test_a_first_start_with_none_that_can_be_captured(engine: Engine) -> None:
    bound = engine.bindings("nowhere", "neither")
    status, _, logs = engine.unary({"validate": {"config": engine.config(), "bindings": bound}})
    assert (status, logs[-1]["fields"]["code"]) == (1, engine.code(Code.PREREQUISITES))
    with session(engine.config(), bound, command=engine.command) as capture:
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == engine.code(Code.NO_TABLE)


def test_a_moment_away_is_nothing(engine: Engine) -> None:
    """In the middle of a backfill, as tools for altering large tables swap names: it goes on where it stood."""
    bound = _tables(engine)
    engine.insert("orders", [(n, 1) for n in range(100, 2000)])
    config = engine.config(backfill={"chunk_rows": 20, "max_rate": "2000 rows/s"})
    engine.apply(bound)
    with session(config, bound, command=engine.command) as capture:
        capture.until(lambda c: len(c.rows(1)) >= 100)
        engine.execute("ALTER TABLE orders RENAME TO elsewhere")
        read = len(capture.documents)
        _others_go_on(engine, capture)
        capture.until(lambda c: any("unless this is fixed" in line["message"] for line in c.logs), SECONDS)
        engine.execute("ALTER TABLE elsewhere RENAME TO orders")
        capture.until(lambda c: c.done() and c.rows(1) == engine.rows("orders"), SECONDS)
        assert aside(capture) is None and not _set_aside(capture)
        assert read < len(capture.documents)


def test_a_command_takes_it_back_at_once(engine: Engine) -> None:
    bound = _tables(engine)
    with _capture(engine, bound) as capture:
        capture.until(Session.done)
        engine.execute("DROP TABLE orders")
        capture.until(_set_aside, SECONDS)
        engine.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)", "INSERT INTO orders VALUES (1, 2)")
        capture.send({"control": {"sequence": 1, "action": "resume", "tables": [f"{engine.schema}.orders"]}})
        # Also published, where that is needed: the connector may, and it was asked.
        capture.until(lambda c: aside(c) is None and c.done() and c.rows(1) == engine.rows("orders"), SECONDS)


def test_a_capture_that_is_killed_keeps_what_is_set_aside(engine: Engine) -> None:
    bound = _tables(engine)
    with _capture(engine, bound) as first:
        first.until(Session.done)
        engine.execute("DROP TABLE orders")
        first.until(_set_aside, SECONDS)
        before = aside(first)
    with _capture(engine, bound, first.state) as second:
        _others_go_on(engine, second)
        second.until(_set_aside, SECONDS)
        assert before is not None and aside(second) == {**before, "text": (aside(second) or {})["text"]}


def test_the_connection_breaks_while_one_is_set_aside(engine: Engine) -> None:
    bound = _tables(engine)
    with _capture(engine, bound) as capture:
        capture.until(Session.done)
        engine.execute("ALTER TABLE orders RENAME TO elsewhere")
        capture.until(_set_aside, SECONDS)
        assert engine.end_log_connections() == 1
        engine.execute("UPDATE elsewhere SET total = 1")
        _others_go_on(engine, capture)
        engine.execute("ALTER TABLE elsewhere RENAME TO orders")
        capture.until(lambda c: aside(c) is None and c.rows(1) == engine.rows("orders"), SECONDS)
