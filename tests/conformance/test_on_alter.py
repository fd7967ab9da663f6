"""``on_alter: ask``: a reread because of an altered table waits for a command, and changes are captured meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.captures.impatient import aside_of, impatient, status_of
from tests.captures.session import Json, Session, session
from tests.conformance.engine import Engine
from tests.conformance.test_rereads import causes, kept, said
from tests.conformance.test_schema_changes import wide_users

SECONDS = 60


def asking(
    engine: Engine, bound: list[Json], state: Json | None = None, *, on_alter: str = "ask", **more: Any
) -> AbstractContextManager[Session]:
    if not state:
        engine.apply(bound)
    config = engine.config(on_alter=on_alter)
    return session(config, bound, state, command=impatient(engine.module), **more)


def order(capture: Session, sequence: int, action: str = "resume", **more: Any) -> None:
    """Sends a command, and waits until the state says that it was handled."""
    capture.send({"control": {"sequence": sequence, "action": action, **more}})
    capture.until(lambda c: c.state.get("control") == sequence, SECONDS)


def refused(capture: Session, *codes: str) -> None:
    """Waits until so many commands were refused, and checks the codes."""

    def found() -> list[str]:
        return [line["fields"]["code"] for line in capture.logs if "was refused" in line["message"]]

    capture.until(lambda _: len(found()) >= len(codes), SECONDS)
    assert found() == list(codes)


def waits(capture: Session) -> bool:
    """Whether the state and the status line both say that a reread is put off."""
    return bool(kept(capture).get("put_off") and said(capture).get("put_off"))


def retype(engine: Engine) -> None:
    engine.execute(engine.statements["retype extra to text"], "UPDATE users SET extra = 'new' WHERE id = 1")


@contextmanager
def waiting(engine: Engine, bound: list[Json]) -> Iterator[Session]:
    """A capture in which the reread of a retyped table has just been put off."""
    with asking(engine, bound) as capture:
        capture.until(Session.done)
        retype(engine)
        capture.until(waits, SECONDS)
        yield capture


def replace_table(engine: Engine, bound: list[Json]) -> None:
    engine.execute("DROP TABLE users")
    wide_users(engine, 3)
    engine.publish(bound)


def _old_and_new(engine: Engine, capture: Session) -> None:
    """The row that changed has its new value, and no other was read."""
    capture.until(lambda c: c.rows()[(1,)]["extra"] == "new", SECONDS)
    assert {key: row["extra"] for key, row in capture.rows().items() if key != (1,)} == {(n,): n for n in range(2, 51)}


@pytest.mark.parametrize("killed", [False, True], ids=["at once", "after a kill"])
def test_changes_are_captured_and_rows_are_read_on_command(engine: Engine, killed: bool) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with waiting(engine, bound) as first:
        _old_and_new(engine, first)
        assert engine.retyped in causes(kept(first)) and not said(first)["begun"]
        assert status_of(first, "users")["state"] == "done"
        (warning,) = [line for line in first.logs if (line.get("fields") or {}).get("code") == "TM-CAP-008"][:1]
        assert "tidemark resume FILE --table" in warning["fields"]["remedy"]
        if not killed:
            order(first, 1)
            engine.until_equal(first, "users")
            assert kept(first)["ended"] and "put_off" not in kept(first)
            return
    with asking(engine, bound, first.state) as second:
        second.documents[:0] = first.documents
        second.until(waits, SECONDS)
        _old_and_new(engine, second)
        order(second, 1)
        engine.until_equal(second, "users")


def test_a_backfill_that_runs_goes_on(engine: Engine) -> None:
    """Rows that were read before the change stay as they were, and those after it are read as they are."""
    wide_users(engine, 600)
    bound = engine.bindings("users")
    with engine.capture(bound, on_alter="ask", backfill={"chunk_rows": 20, "max_rate": "200 rows"}) as first:
        first.until(lambda c: len(c.documents) >= 100)
        retype(engine)
        first.until(lambda c: bool(kept(c).get("put_off")), SECONDS)
        assert not first.done()
    with asking(engine, bound, first.state) as second:
        second.documents[:0] = first.documents
        second.until(lambda c: c.done() and waits(c), SECONDS)
        rows = second.rows()
        assert rows[(600,)]["extra"] == "600" and rows[(2,)]["extra"] == 2 and len(rows) == 600
        order(second, 1)
        engine.until_equal(second, "users")


def test_a_command_that_was_carried_out_survives_a_kill(engine: Engine) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with waiting(engine, bound) as first:
        order(first, 1)
    with asking(engine, bound, first.state) as second:
        second.documents[:0] = first.documents
        engine.until_equal(second, "users")
        assert "put_off" not in kept(second)


def test_a_reread_is_dropped_on_the_word_of_a_person(engine: Engine) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with asking(engine, bound) as capture:
        capture.until(Session.done)
        order(capture, 1, keep=True)
        refused(capture, "TM-CAP-004")
        retype(engine)
        capture.until(waits, SECONDS)
        order(capture, 2, keep=True)
        assert kept(capture) == {}
        capture.until(lambda c: said(c) == {}, SECONDS)
        engine.execute("UPDATE users SET extra = 'last' WHERE id = 2")
        capture.until(lambda c: c.rows()[(2,)]["extra"] == "last", SECONDS)
        assert capture.rows()[(3,)]["extra"] == 3
        order(capture, 3)
        refused(capture, "TM-CAP-004", "TM-CAP-004")  # Nothing is put off any more.


def test_it_begins_by_itself_once_on_alter_is_follow(engine: Engine) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with waiting(engine, bound) as first:
        assert not said(first)["begun"]
    with asking(engine, bound, first.state, on_alter="follow") as second:
        second.documents[:0] = first.documents
        engine.until_equal(second, "users")
        assert kept(second)["ended"] and "put_off" not in kept(second)


def test_a_second_change_is_added_and_the_greatest_consequence_counts(engine: Engine) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with waiting(engine, bound) as first:
        assert not said(first)["begun"]
    replace_table(engine, bound)
    with asking(engine, bound, first.state) as second:
        second.documents[:0] = first.documents
        second.until(lambda c: waits(c) and aside_of(c, "users") is not None, SECONDS)
        assert len(causes(kept(second))) > 1 and engine.retyped in causes(kept(second))
        order(second, 1, keep=True)
        refused(second, "TM-CAP-009")
        assert waits(second)
        engine.execute("UPDATE users SET name = 'meanwhile' WHERE id = 1")
        order(second, 2)
        engine.until_equal(second, "users")
        assert aside_of(second, "users") is None


ALTERED = {
    "another key": ("drop key", "ALTER TABLE users ADD PRIMARY KEY (name, id)"),
    "another table": (),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("alteration", ALTERED)
@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_a_table_whose_changes_meet_other_rows_is_set_aside(engine: Engine, alteration: str, stopped: bool) -> None:
    """Nothing is lost: it is emptied and read on command, also if its rows change meanwhile, and over a kill."""
    wide_users(engine, 50)
    engine.execute("ALTER TABLE users ALTER COLUMN name SET NOT NULL" if engine.prefix == "TM-PG" else "DO 0")
    engine.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)", "INSERT INTO orders VALUES (1, 10)")
    bound = engine.bindings("users", "orders")

    def alter() -> None:
        if alteration == "another table":
            replace_table(engine, bound)
        else:
            drop, add = ALTERED[alteration]
            engine.execute(engine.statements[drop], add)
        engine.execute("UPDATE users SET name = 'changed' WHERE id = 1")

    with asking(engine, bound) as first:
        first.until(Session.done)
        if not stopped:
            alter()
            first.until(lambda c: waits(c) and status_of(c, "users")["state"] == "set_aside", SECONDS)
    if stopped:
        alter()
    with asking(engine, bound, first.state) as second:
        second.documents[:0] = first.documents
        second.until(lambda c: waits(c) and status_of(c, "users")["state"] == "set_aside", SECONDS)
        found = aside_of(second, "users")
        assert found is not None and found["code"] == "TM-CAP-008" and found["put_off"]
        engine.execute("UPDATE users SET name = 'again' WHERE id = 2", "INSERT INTO orders VALUES (2, 20)")
        second.until(lambda c: (2,) in c.rows(1), SECONDS)
        order(second, 1, keep=True)
        refused(second, "TM-CAP-009")
        assert aside_of(second, "users") is not None
    with asking(engine, bound, second.state) as third:
        third.documents[:0] = second.documents
        third.until(waits, SECONDS)
        order(third, 2, tables=[status_name(third)])
        key = ("name", "id") if alteration == "another key" else ("id",)
        engine.until_equal(third, "users", key=key)
        assert aside_of(third, "users") is None and kept(third)["ended"]


def status_name(capture: Session) -> str:
    """The name of users in status lines."""
    lines = [line for line in capture.logs if line.get("eventType") == "connectorStatus"]
    names: list[str] = list(lines[-1]["fields"]["tables"])
    return next(name for name in names if name.endswith(".users"))


def test_what_the_runtime_asks_for_waits_too(engine: Engine) -> None:
    """The runtime has a table read whose events do not fit those before; a person's own command does not wait."""
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with asking(engine, bound) as first:
        first.until(Session.done)
        first.until(lambda c: bool(status_of(c, "users")), SECONDS)
        order(first, 1, "backfill", tables=[status_name(first)], truncate=True, deferrable=True)
        first.until(lambda c: waits(c) and aside_of(c, "users") is not None, SECONDS)
        assert causes(kept(first)) == {"unlike_before": []}
        engine.execute("UPDATE users SET name = 'meanwhile' WHERE id = 1")
        order(first, 2, "backfill", tables=[status_name(first)], truncate=True, deferrable=True)
        assert waits(first)
        order(first, 3, "backfill", tables=[status_name(first)], truncate=True)
        engine.until_equal(first, "users")
        assert kept(first)["ended"]


def test_a_reread_begins_when_a_table_returns_that_was_away_at_the_command(engine: Engine) -> None:
    """It is the same table, and none of its changes was missed; its rows are read all the same."""
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with asking(engine, bound) as capture:
        capture.until(Session.done)
        retype(engine)
        capture.until(waits, SECONDS)
        engine.execute("ALTER TABLE users RENAME TO elsewhere")
        capture.until(lambda c: status_of(c, "users").get("state") == "set_aside", SECONDS)
        order(capture, 1)
        engine.execute("ALTER TABLE elsewhere RENAME TO users")
        order(capture, 2)  # It may have been looked at, and found missing, for the first one.
        capture.until(lambda c: aside_of(c, "users") is None, SECONDS)
        engine.until_equal(capture, "users")


def test_a_table_that_was_never_captured_does_not_wait(engine: Engine) -> None:
    engine.users(5)
    bound = engine.bindings("users", "late")
    with asking(engine, bound) as capture:
        capture.until(lambda c: status_of(c, "late").get("state") == "set_aside", SECONDS)
        engine.execute("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late VALUES (1), (2)")
        engine.publish(bound)
        capture.until(lambda c: aside_of(c, "late") is None and len(c.rows(1)) == 2, SECONDS)
        assert kept(capture, "late") == {}


def test_a_table_that_was_away_and_missed_changes_waits(engine: Engine) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with asking(engine, bound) as capture:
        capture.until(Session.done)
        engine.execute("DROP TABLE users")
        capture.until(lambda c: status_of(c, "users").get("state") == "set_aside", SECONDS)
        wide_users(engine, 3)
        engine.publish(bound)
        capture.until(waits, SECONDS)
        found = aside_of(capture, "users")
        assert found is not None and found["code"] == "TM-CAP-008"
        order(capture, 1)
        engine.until_equal(capture, "users")
