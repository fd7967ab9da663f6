"""Why a table is read again: the state has it, also after a kill, and the status line says it."""

from __future__ import annotations

import pytest

from tests.captures.impatient import status_of
from tests.captures.session import Json, Session
from tests.conformance.engine import Engine
from tests.conformance.test_schema_changes import wide_users

SLOWLY: Json = {"backfill": {"chunk_rows": 10, "max_rate": "100 rows"}}


def causes(reread: Json) -> dict[str, list[str]]:
    """The columns of each cause, by its name."""
    return {cause["name"]: cause.get("columns", []) for cause in reread["causes"]}


def kept(capture: Session, table: str = "users") -> Json:
    """What the state has of a table's reread; empty if it has none."""
    bindings: Json = capture.state.get("bindings", {})
    return next((one.get("reread") or {} for key, one in bindings.items() if key.endswith(f"%2F{table}")), {})


def said(capture: Session, table: str = "users") -> Json:
    """What the last status line says of it; empty if it says nothing."""
    reread: Json = status_of(capture, table).get("reread") or {}
    return reread


def _retype(engine: Engine) -> None:
    engine.execute(engine.statements["retype extra to text"], "UPDATE users SET extra = 'new' WHERE id = 1")


def test_the_change_its_size_and_how_to_avoid_it(engine: Engine) -> None:
    wide_users(engine, 50)
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        assert kept(capture) == {}
        _retype(engine)
        capture.until(lambda c: bool(said(c).get("ended")) and bool(kept(c).get("ended")))
        reread = said(capture)
        assert causes(reread)[engine.retyped] == ["extra"]
        cause = next(cause for cause in reread["causes"] if cause["name"] == engine.retyped)
        assert "UPDATE" in cause["avoid"] and "on_alter: ask" in cause["avoid"] and not cause["emptied"]
        assert cause["at"] and cause["time"] <= reread["begun"] <= reread["ended"]
        assert reread["bytes_done"] > 0 and status_of(capture, "users")["rows_done"] == 50
        assert causes(kept(capture)) == causes(reread)
        engine.until_equal(capture, "users")


def test_a_kill_does_not_lose_it(engine: Engine) -> None:
    wide_users(engine, 300)
    bound = engine.bindings("users")
    with engine.capture(bound) as first:
        first.until(Session.done)
    with engine.capture(bound, first.state, **SLOWLY) as second:
        _retype(engine)
        second.until(lambda c: bool(kept(c)) and kept(c).get("bytes_done", 0) > 0)
        assert not kept(second).get("ended")
    with engine.capture(bound, second.state) as third:
        third.documents[:0] = [*first.documents, *second.documents]
        third.until(lambda c: bool(said(c).get("ended")))
        assert causes(said(third)) == causes(kept(second)) and engine.retyped in causes(said(third))
        assert said(third)["begun"] == kept(second)["begun"]
        engine.until_equal(third, "users")


def test_a_table_that_was_made_again_while_nobody_listened(engine: Engine) -> None:
    wide_users(engine, 20)
    bound = engine.bindings("users")
    with engine.capture(bound, stop=True) as first:
        assert first.finish() == 0
    engine.execute("DROP TABLE users")
    wide_users(engine, 3)
    engine.publish(bound)
    with engine.capture(bound, first.state) as second:
        second.until(lambda c: bool(said(c).get("ended")))
        (cause,) = said(second)["causes"]
        assert cause["name"].startswith("made_again") and cause["emptied"]
        engine.until_equal(second, "users")


def test_further_changes_are_added_until_the_rows_are_read(engine: Engine) -> None:
    wide_users(engine, 300)
    bound = engine.bindings("users")
    with engine.capture(bound) as first:
        first.until(Session.done)
    with engine.capture(bound, first.state, **SLOWLY) as second:
        second.documents[:0] = first.documents
        _retype(engine)
        second.until(lambda c: bool(kept(c)))
        engine.execute("DROP TABLE users")
        wide_users(engine, 3)
        engine.publish(bound)
        second.until(lambda c: "made_again" in causes(kept(c)))
        assert engine.retyped in causes(kept(second))
        engine.until_equal(second, "users")
    with engine.capture(bound, second.state) as third:
        _retype(engine)
        third.until(lambda c: kept(c)["begun"] > kept(second)["ended"])
        assert engine.retyped in causes(kept(third)) and "made_again" not in causes(kept(third))


@pytest.mark.parametrize("where", [None, "id % 2 = 1"], ids=["removed", "changed"])
def test_another_condition(engine: Engine, where: str | None) -> None:
    wide_users(engine, 40)
    with engine.capture(engine.bindings("users", where="id % 2 = 0")) as first:
        first.until(Session.done)
    with engine.capture(engine.bindings("users", where=where), first.state) as second:
        second.documents[:0] = first.documents
        engine.until_equal(second, "users")
        second.until(lambda c: bool(kept(c).get("ended")))
        assert causes(kept(second)) == {"condition": []}
    with engine.capture(engine.bindings("users", where=where), second.state) as third:
        third.until(Session.done)
        assert third.documents == []


def test_a_condition_from_now_on_has_nothing_read_again(engine: Engine) -> None:
    wide_users(engine, 40)
    with engine.capture(engine.bindings("users")) as first:
        first.until(Session.done)
    with engine.capture(engine.bindings("users", where="id % 2 = 0"), first.state) as second:
        second.until(Session.done)
        assert second.documents == [] and kept(second) == {}
