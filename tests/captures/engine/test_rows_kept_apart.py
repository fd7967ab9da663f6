"""Rows of which an event is kept apart: the next event may leave out a large value, and the table gets it all the same.

Replica identity DEFAULT: an update has no large value that it does not change.
"""

from __future__ import annotations

import pytest

from tests.captures.session import Json, Rows, Session, apply, bindings, replay, session
from tests.captures.source_tables import endpoint, prepare, table_rows
from tidemark.captures.scheduling.kept_apart import KEYS, KeptApart
from tidemark.testing.servers.postgres import Database

BOUND = bindings("public.notes")
TABLE = """
CREATE TABLE notes (id int PRIMARY KEY, made date, body text);
ALTER TABLE notes ALTER COLUMN body SET STORAGE EXTERNAL
"""
"""``body`` is stored out of line."""

OF_ALL = "SELECT id, made::text, body FROM notes"


def body(letter: str) -> str:
    return f"repeat('{letter}', 20000)"


def kept(capture: Session) -> Rows:
    """The table, as the runtime keeps it: without the events that are marked."""
    return replay((doc for _, doc in capture.documents if "bad" not in doc["_meta"]), ("id",))


def apart(capture: Session) -> list[int]:
    """Ids of the events that are marked."""
    return [doc["id"] for _, doc in capture.documents if "bad" in doc["_meta"]]


def configured(database: Database) -> Json:
    return endpoint(database, on_bad_value="quarantine")


@pytest.fixture(autouse=True)
def runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_RUNTIME", "test")


INSERTED = f"INSERT INTO notes VALUES (1, 'infinity', {body('b')})"
UPDATED = f"UPDATE notes SET made = 'infinity', body = {body('b')} WHERE id = 1"
MOVED = f"UPDATE notes SET id = 2, made = 'infinity', body = {body('b')} WHERE id = 1"
FIRST = f"INSERT INTO notes VALUES (1, '2024-01-01', {body('a')})"
MENDED = "UPDATE notes SET made = '2024-02-02' WHERE made = 'infinity'"


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped between"])
@pytest.mark.parametrize(
    ("before", "bad"),
    [("", INSERTED), (FIRST, UPDATED), (FIRST, MOVED), (INSERTED, "")],
    ids=["insert", "update", "another key", "backfill"],
)
def test_a_large_value_of_an_event_that_is_kept_apart(database: Database, before: str, bad: str, stopped: bool) -> None:
    prepare(database, TABLE, *filter(None, [before]))
    config = configured(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(database, *filter(None, [bad]))
        capture.until(apart)
        if not stopped:
            prepare(database, MENDED)
            capture.until(lambda c: kept(c) == table_rows(database, OF_ALL))
            return
    with session(config, BOUND, capture.state) as again:
        again.documents = list(capture.documents)
        prepare(database, MENDED)
        again.until(lambda c: kept(c) == table_rows(database, OF_ALL))


def test_both_events_in_one_transaction(database: Database) -> None:
    prepare(database, TABLE, FIRST)
    config = configured(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        with database.connect(autocommit=False) as connection:
            connection.execute(UPDATED)
            connection.execute(MENDED)
            connection.commit()
        capture.until(lambda c: kept(c) == table_rows(database, OF_ALL))


def test_a_row_that_stays_bad_is_kept_apart_again(database: Database) -> None:
    """The bad value itself is the large one: each update of another column brings a row that is kept apart."""
    prepare(database, "CREATE TABLE notes (id int PRIMARY KEY, made date, body json)")
    prepare(database, "ALTER TABLE notes ALTER COLUMN body SET STORAGE EXTERNAL")
    config = configured(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(database, f"""INSERT INTO notes VALUES (1, '2024-01-01', ('["\\ud800' || {body("b")} || '"]')::json)""")
        for day in (2, 3):
            prepare(database, f"UPDATE notes SET made = '2024-01-0{day}'")
            capture.until(lambda c: len(apart(c)) == day)  # noqa: B023 - asked in this round only
        prepare(database, "UPDATE notes SET body = '1'")
        capture.until(lambda c: kept(c) == table_rows(database, OF_ALL))


def test_a_row_that_no_line_can_hold_becomes_smaller(database: Database) -> None:
    """Two values of 8 MB that JSON writes with 48 each: one is shortened, and the event leaves out the other."""
    large = "repeat(E'\\x01', 8 * 1024 * 1024)"
    prepare(database, "CREATE TABLE notes (id int PRIMARY KEY, made text, body text)")
    config = configured(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        prepare(database, f"INSERT INTO notes VALUES (1, {large}, {large})")
        capture.until(apart)
        prepare(database, "UPDATE notes SET made = 'short'")
        capture.until(lambda c: kept(c) == table_rows(database, OF_ALL))


def test_rows_of_which_nothing_was_kept_apart_are_not_read_again(database: Database) -> None:
    prepare(database, TABLE, FIRST)
    config = configured(database)
    apply(config, BOUND)
    with session(config, BOUND) as capture:
        capture.until(Session.done)
        read = capture.read()
        prepare(database, "INSERT INTO notes VALUES (3, 'infinity', NULL)", "UPDATE notes SET made = '2024-02-02'")
        capture.until(lambda c: kept(c) == table_rows(database, OF_ALL) and c.done())
        assert capture.read() == read


def test_of_too_many_rows_none_is_known() -> None:
    few, many = KeptApart(), KeptApart()
    few.add([b"1\x00one", b"", b"2\x00two"])
    assert few.to_state() == [["1", "one"], ["2", "two"]]
    again = KeptApart()
    again.restore(few.to_state())
    assert again.lacks(b"1\x00one") and not again.lacks(b"1\x00one") and not again.lacks(b"3\x00three")
    many.add(str(number).encode() for number in range(KEYS + 1))
    assert many.to_state() is True
    again.restore(many.to_state())
    assert again.lacks(b"never seen") and again.lacks(b"never seen")
    again.clear()
    assert again.to_state() is False and not again.lacks(b"0")
