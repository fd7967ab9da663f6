"""Where a capture goes on: after a restart of the server, never from a log that is not the one it knows."""

from __future__ import annotations

import pytest

from tests.captures.session import Json
from tests.conformance.engine import Code, Engine
from tidemark.testing.deadline import wait_until


def left_off(engine: Engine, bound: list[Json]) -> Json:
    """The state of a capture that is caught up."""
    with engine.capture(bound, stop=True) as capture:
        assert capture.finish() == 0
    return capture.state


def test_a_log_that_is_gone_is_found_before_anything_is_emitted(engine: Engine) -> None:
    engine.users(10)
    bound = engine.bindings("users")
    state = left_off(engine, bound)
    engine.execute("INSERT INTO users VALUES (11, 'lost')")
    engine.lose_log()
    with engine.capture(bound, state) as capture:
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == engine.code(Code.LOST_POSITION)
        assert capture.documents == []
        assert capture.checkpoints == 0


def test_another_server_is_found_before_anything_is_emitted(engine: Engine) -> None:
    engine.users(10)
    bound = engine.bindings("users")
    state = engine.other_server(left_off(engine, bound))
    with engine.capture(bound, state) as capture:
        assert capture.finish() == 1
        assert capture.logs[-1]["fields"]["code"] == engine.code(Code.OTHER_SERVER)
        assert capture.documents == []
        assert capture.checkpoints == 0


def test_a_lost_position_can_be_answered_by_a_backfill(engine: Engine) -> None:
    engine.users(10)
    bound = engine.bindings("users")
    state = left_off(engine, bound)
    engine.execute("DELETE FROM users WHERE id = 5", "INSERT INTO users VALUES (11, 'in no log')")
    engine.lose_log()
    with engine.capture(bound, state, on_lost_position="backfill") as capture:
        engine.until_equal(capture, "users")
        assert capture.documents[0][1]["_meta"]["op"] == "t"
        assert engine.code(Code.LOST_POSITION) in str(capture.logs)
        engine.execute("UPDATE users SET name = 'in the new log' WHERE id = 1")
        engine.until_equal(capture, "users")


def test_a_log_connection_that_breaks_is_made_again(engine: Engine) -> None:
    engine.users(2000)
    with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 50}) as capture:
        capture.until(lambda c: len(c.documents) >= 200)
        for number in range(3):
            wait_until(engine.end_log_connections, 20, "a log connection to end")
            engine.execute(f"UPDATE users SET name = '{number}' WHERE id % 7 = {number}")
            engine.until_equal(capture, "users")
        engine.until_equal(capture, "users")
        read = [doc["id"] for _, doc in capture.documents if doc["_meta"]["source"].get("snapshot")]
        assert len(read) == len(set(read))
        places = [engine.place(doc) for _, doc in capture.documents if "snapshot" not in doc["_meta"]["source"]]
        assert len(places) == len(set(map(str, places))), "a document came twice"


@pytest.mark.drawn(1)
def test_a_server_that_restarts(engine: Engine) -> None:
    engine.users(2000)
    with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 50}) as capture:
        capture.until(lambda c: len(c.documents) >= 200)
        engine.restart_server()
        engine.execute("UPDATE users SET name = 'after' WHERE id % 10 = 0", "DELETE FROM users WHERE id % 99 = 0")
        engine.until_equal(capture, "users")
        read = [doc["id"] for _, doc in capture.documents if doc["_meta"]["source"].get("snapshot")]
        assert len(read) == len(set(read))
