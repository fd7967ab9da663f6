"""Tables that are altered, renamed, and made again, in the log and in the middle of their backfill."""

from __future__ import annotations

import pytest

from tests.captures.session import Json, Session
from tests.conformance.engine import Engine

ALTERATIONS = {
    "added": ["ALTER TABLE users ADD COLUMN age int", "UPDATE users SET age = id"],
    "dropped": ["ALTER TABLE users DROP COLUMN extra", "UPDATE users SET name = name || '.'"],
    "renamed": ["ALTER TABLE users RENAME COLUMN extra TO other", "UPDATE users SET other = id + 1"],
    "retyped": ["{retype extra to text}", "UPDATE users SET extra = extra || '%'"],
    "dropped and added": [
        "ALTER TABLE users DROP COLUMN extra",
        "ALTER TABLE users ADD COLUMN extra varchar(20)",
        "UPDATE users SET extra = 'new'",
    ],
}


def properties(schema: Json) -> list[str]:
    return [name for name in schema["properties"] if name != "_meta"]


def alter(engine: Engine, alteration: str) -> None:
    engine.execute(*(engine.statements.get(text.strip("{}"), text) for text in ALTERATIONS[alteration]))


def wide_users(engine: Engine, rows: int) -> None:
    engine.users(0)
    engine.execute("ALTER TABLE users ADD COLUMN extra int")
    engine.insert("users", [(n, f"name {n}", n) for n in range(1, rows + 1)])


@pytest.mark.drawn(10)
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_a_column_that_changes_in_the_log(engine: Engine, alteration: str) -> None:
    wide_users(engine, 10)
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        alter(engine, alteration)
        engine.until_equal(capture, "users")
        # The schema stands before the first document of its kind, and after the last one of the old kind.
        current: list[str] = []
        for kind, _, body in capture.events:
            if kind == "schema":
                current = properties(body)
            elif (
                kind == "doc" and body["_meta"]["op"] != "t"
            ):  # It has no columns. Without names in the log a table may be read anew.
                assert [name for name in body if name != "_meta"] == current
        assert len(capture.schemas) >= 2
        assert current == list(next(iter(engine.rows("users").values())))


@pytest.mark.drawn(5)
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_a_column_that_changes_while_the_table_is_read(engine: Engine, alteration: str) -> None:
    wide_users(engine, 600)
    with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 20}) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        alter(engine, alteration)
        engine.until_equal(capture, "users")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("alteration", ["added", "dropped"])
def test_a_column_that_changes_and_nothing_is_written_after_it(engine: Engine, alteration: str) -> None:
    """The log may show no row of the table for long: the backfill goes on all the same."""
    wide_users(engine, 600)
    with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 20}) as capture:
        capture.until(lambda c: len(c.documents) >= 100)
        engine.execute(ALTERATIONS[alteration][0])
        engine.until_equal(capture, "users")


def test_a_column_that_changed_while_nobody_listened(engine: Engine) -> None:
    wide_users(engine, 20)
    bound = engine.bindings("users")
    with engine.capture(bound, stop=True) as first:
        assert first.finish() == 0
    engine.execute("UPDATE users SET extra = 0 WHERE id = 1")
    alter(engine, "added")
    engine.execute("ALTER TABLE users DROP COLUMN extra", "UPDATE users SET name = 'after' WHERE id = 2")
    with engine.capture(bound, first.state) as second:
        second.documents += first.documents
        engine.until_equal(second, "users")


def test_a_table_that_is_made_again(engine: Engine) -> None:
    engine.users(200)
    bound = engine.bindings("users")
    with engine.capture(bound) as capture:
        capture.until(Session.done)
        engine.execute("UPDATE users SET name = 'old'", "DROP TABLE users")
        engine.users(3)
        engine.publish(bound)
        engine.execute("UPDATE users SET name = 'new' WHERE id = 1")
        engine.until_equal_at_last(capture, bound, "users")
        assert len(capture.rows()) == 3


def test_a_table_that_is_renamed_and_renamed_back(engine: Engine) -> None:
    engine.users(50)
    bound = engine.bindings("users")
    with engine.capture(bound) as capture:
        capture.until(Session.done)
        engine.execute(
            "ALTER TABLE users RENAME TO people",
            "UPDATE people SET name = 'renamed' WHERE id < 10",
            "ALTER TABLE people RENAME TO users",
            "UPDATE users SET name = 'back' WHERE id = 10",
        )
        engine.until_equal_at_last(capture, bound, "users")
        assert {doc["_meta"]["source"]["table"] for _, doc in capture.documents if doc["_meta"]["op"] != "t"} == {
            "users"
        }


def test_a_table_that_takes_the_name_of_another(engine: Engine) -> None:
    """As tools for altering large tables do: a copy with other columns is filled, and takes over."""
    engine.users(50)
    bound = engine.bindings("users")
    with engine.capture(bound) as capture:
        capture.until(Session.done)
        engine.execute(
            f"CREATE TABLE users_new (id int PRIMARY KEY, name {engine.types['text']}, age int)",
            "INSERT INTO users_new SELECT id, name, 30 FROM users",
            "ALTER TABLE users RENAME TO users_old",
            "ALTER TABLE users_new RENAME TO users",
        )
        engine.publish(bound)
        engine.execute("UPDATE users SET age = 31 WHERE id = 1")
        engine.until_equal_at_last(capture, bound, "users")
        assert len(capture.rows()) == 50


def test_a_table_with_another_key_is_read_anew(engine: Engine) -> None:
    """The cursor of the scan, which is a place in the order of the old key, says nothing about the new one."""
    engine.execute("CREATE TABLE users (id int, name varchar(50) NOT NULL, PRIMARY KEY (id))")
    engine.insert("users", [(n, f"name {n}") for n in range(500)])
    bound = engine.bindings("users")
    with engine.capture(bound, backfill={"chunk_rows": 20}) as first:
        first.until(lambda c: len(c.documents) >= 100)
    engine.execute(engine.statements["drop key"], "ALTER TABLE users ADD PRIMARY KEY (name, id)")
    with engine.capture(bound, first.state, stop=True) as second:
        assert second.finish() == 0
        assert second.documents[0][1]["_meta"]["op"] == "t"
        assert second.rows(key=("name", "id")) == engine.rows("users", ("name", "id"))
