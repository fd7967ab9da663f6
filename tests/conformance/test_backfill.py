"""Backfills beside the log: every row once, wherever a session is cut, and equal to the source at the end."""

from __future__ import annotations

import threading
from random import Random

import pytest

from tests.captures.session import Json, Session
from tests.conformance.engine import Engine
from tidemark.protocol.batches import ARROW
from tidemark.protocol.environment import BATCHES


def snapshot_ids(documents: list[tuple[int, Json]], binding: int = 0) -> list[int]:
    """Ids of the rows that backfills gave, in their order."""
    return [doc["id"] for at, doc in documents if at == binding and doc["_meta"]["source"].get("snapshot")]


def test_a_backfill_and_the_log_after_it(engine: Engine) -> None:
    engine.users()
    with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 100}) as capture:
        capture.until(Session.done)
        # Where a reader is free, what is left of a table is divided: then it does not come in the order of its keys.
        assert sorted(snapshot_ids(capture.documents)) == list(range(1, 1001))
        first = capture.documents[0][1]
        source = first["_meta"]["source"]
        assert first == {"_meta": {"op": "c", "source": source}, "id": 1, "name": "name 1"}
        assert (source["schema"], source["table"], source["snapshot"]) == (engine.schema, "users", True)
        engine.execute(
            "UPDATE users SET name = 'changed' WHERE id = 5",
            "DELETE FROM users WHERE id = 6",
            "UPDATE users SET id = 2000 WHERE id = 7",
            "INSERT INTO users VALUES (3000, NULL)",
        )
        capture.until(lambda c: len(c.documents) >= 1005)
        changes = [(doc["_meta"]["op"], doc["id"]) for _, doc in capture.documents[1000:]]
        assert changes == [("u", 5), ("d", 6), ("d", 7), ("c", 2000), ("c", 3000)]
        assert all("snapshot" not in doc["_meta"]["source"] for _, doc in capture.documents[1000:])
        assert capture.rows() == engine.rows("users")


def test_documents_have_the_members_that_their_schema_names(engine: Engine) -> None:
    engine.users(10)
    with engine.capture(engine.bindings("users"), stop=True) as capture:
        assert capture.finish() == 0
    assert capture.events[0][0] == "schema"
    (_, schema), *_ = capture.schemas
    assert schema["additionalProperties"] is False
    assert schema["properties"].keys() == capture.documents[0][1].keys() == {"_meta", "id", "name"}


@pytest.mark.heavy
@pytest.mark.drawn(2)
@pytest.mark.parametrize("form", ["lines", ARROW])
def test_rows_that_change_while_they_are_read(engine: Engine, form: str) -> None:
    engine.users()
    stop = threading.Event()

    def write() -> None:
        random = Random(1)
        with engine.transaction() as run:
            for number in range(1001, 5001):  # as long as the backfill, and no longer than a slow machine follows
                old, some = random.randint(1, number), random.randint(1, number)
                run(f"UPDATE users SET name = 'n {number}' WHERE id BETWEEN {some} AND {some + 5}")
                run(f"DELETE FROM users WHERE id = {old}")
                run(f"UPDATE users SET id = {-number} WHERE id = {some}")
                run(f"INSERT INTO users VALUES ({number}, 'new'), ({old}, 'again')")
                run("COMMIT")
                if stop.is_set():
                    return

    writer = threading.Thread(target=write)
    try:
        offered = {BATCHES: form} if form == ARROW else {}
        with engine.capture(engine.bindings("users"), backfill={"chunk_rows": 10}, env=offered) as capture:
            capture.until(lambda c: len(c.documents) > 10)
            writer.start()
            capture.until(lambda c: c.done() and len(c.documents) > 1500)
            stop.set()
            writer.join()
            engine.until_equal(capture, "users")
            read = snapshot_ids(capture.documents)
            assert len(read) == len(set(read))
            assert (capture.batches.count > 50) is (form == ARROW)
    finally:
        stop.set()
        if writer.is_alive():
            writer.join()


def test_going_on_from_any_checkpoint_repeats_nothing(engine: Engine) -> None:
    engine.users()
    bound = engine.bindings("users")
    checkpoints: list[tuple[int, Json]] = []

    def enough(capture: Session) -> bool:
        if capture.checkpoints > len(checkpoints):
            checkpoints.append((len(capture.documents), capture.state))
            if len(checkpoints) == 3:
                engine.execute("UPDATE users SET name = 'log' WHERE id % 50 = 0", "DELETE FROM users WHERE id % 77 = 0")
        return capture.done() and len(checkpoints) >= 3

    # Nothing is acknowledged, so that the server keeps the log for the earlier checkpoints too.
    with engine.capture(bound, backfill={"chunk_rows": 10}) as first:
        first.until(enough, acknowledge=False)
    assert len(checkpoints) >= 5
    for documents, state in checkpoints[:: len(checkpoints) // 4]:
        with engine.capture(bound, state, backfill={"chunk_rows": 300}) as again:
            again.documents += first.documents[:documents]
            engine.until_equal(again, "users", acknowledge=False)
            read = snapshot_ids(again.documents)
            assert len(read) == len(set(read))


def test_a_capture_that_is_caught_up_has_nothing_more_to_say(engine: Engine) -> None:
    engine.users(100)
    bound = engine.bindings("users")
    with engine.capture(bound, stop=True) as first:
        assert first.finish() == 0
        assert len(first.documents) == 100
    with engine.capture(bound, first.state, stop=True) as second:
        assert second.finish() == 0
        assert second.documents == []
    engine.execute("INSERT INTO users VALUES (101, 'while nobody listened')")
    with engine.capture(bound, second.state, stop=True) as third:
        assert third.finish() == 0
        assert [doc["id"] for _, doc in third.documents] == [101]


def test_rows_that_meet_a_condition(engine: Engine) -> None:
    """The condition limits the backfill, not the log."""
    engine.users(100)
    with engine.capture(engine.bindings("users", where="id % 2 = 0"), backfill={"chunk_rows": 7}) as capture:
        capture.until(Session.done)
        assert snapshot_ids(capture.documents) == list(range(2, 101, 2))
        engine.execute("UPDATE users SET name = 'odd' WHERE id = 1")
        capture.until(lambda c: len(c.documents) > 50)
        assert capture.documents[-1][1]["id"] == 1


def test_columns_that_are_left_out(engine: Engine) -> None:
    engine.execute("CREATE TABLE users (id int PRIMARY KEY, secret varchar(20), name varchar(20))")
    engine.insert("users", [(1, "hidden", "a")])
    with engine.capture(engine.bindings("users", exclude=["secret"])) as capture:
        capture.until(Session.done)
        engine.execute("UPDATE users SET name = 'b', secret = 'hidden too'", "DELETE FROM users")
        capture.until(lambda c: len(c.documents) >= 3)
    assert [doc.get("name") for _, doc in capture.documents[:2]] == ["a", "b"]
    assert "hidden" not in str(capture.events)
    assert capture.schemas[0][1]["properties"].keys() == {"_meta", "id", "name"}


def test_a_table_of_higher_priority_is_read_first(engine: Engine) -> None:
    engine.users(200)
    engine.execute("CREATE TABLE urgent (id int PRIMARY KEY)")
    engine.insert("urgent", [(n,) for n in range(200)])
    bound = engine.bindings("users") + engine.bindings("urgent", priority=1)
    with engine.capture(bound, backfill={"chunk_rows": 50}) as capture:
        capture.until(Session.done)
    assert [binding for binding, _ in capture.documents] == [1] * 200 + [0] * 200


def test_several_tables_by_several_readers(engine: Engine) -> None:
    tables = ["users", "b", "c"]
    engine.users(300)
    for table in tables[1:]:
        engine.execute(f"CREATE TABLE {table} AS SELECT * FROM users", f"ALTER TABLE {table} ADD PRIMARY KEY (id)")
    bound = engine.bindings(*tables)
    with engine.capture(bound, backfill={"chunk_rows": 20, "readers": 2}) as capture:
        with engine.transaction() as run:
            for table in tables:
                run(f"UPDATE {table} SET name = '{table}' WHERE id % 3 = 0")
                run(f"DELETE FROM {table} WHERE id % 7 = 0")
        for binding, table in enumerate(tables):
            engine.until_equal(capture, table, binding=binding)
        for binding in range(3):
            read = snapshot_ids(capture.documents, binding)
            # A scan that is cut while a chunk of it is in flight may read that chunk's rows once more, and no others.
            assert len(read) - len(set(read)) <= 2 * 20


def test_a_table_that_is_bound_later_is_read_beside_the_log(engine: Engine) -> None:
    engine.users(100)
    engine.execute("CREATE TABLE later (id int PRIMARY KEY)")
    engine.insert("later", [(1,), (2,)])
    with engine.capture(engine.bindings("users"), stop=True) as first:
        assert first.finish() == 0
    engine.execute("UPDATE users SET name = 'in between' WHERE id = 1", "INSERT INTO later VALUES (3)")
    both = engine.bindings("users", "later")
    engine.apply(both)
    with engine.capture(both, first.state, stop=True) as second:
        assert second.finish() == 0
    # The third may be the log's, where that has all tables: in the chunk too, or there alone.
    assert set(snapshot_ids(second.documents, 1)) >= {1, 2}
    assert second.rows(1) == engine.rows("later")
    assert [(doc["id"], doc["name"]) for binding, doc in second.documents if binding == 0] == [(1, "in between")]


def test_a_table_that_was_not_bound_for_a_while_is_read_anew(engine: Engine) -> None:
    engine.users(50)
    engine.execute("CREATE TABLE other (id int PRIMARY KEY)")
    engine.execute("INSERT INTO other VALUES (2)")
    both, users = engine.bindings("other", "users"), engine.bindings("users")
    with engine.capture(both, stop=True) as first:
        assert first.finish() == 0
    with engine.capture(users, first.state, stop=True) as without:
        assert without.finish() == 0
    engine.execute("INSERT INTO other VALUES (1)")
    engine.execute("DELETE FROM other WHERE id = 2")
    with engine.capture(both, without.state, stop=True) as again:
        assert again.finish() == 0
    # Rows that are gone by now must not stay.
    (emptied, *rows) = [(binding, doc) for binding, doc in again.documents if binding == 0]
    assert emptied[1]["_meta"]["op"] == "t"
    # By a chunk, by the log, or by both: the row came after the table was bound no more, and before it was again.
    assert again.rows(0).keys() == {(1,)}
    assert rows
    assert snapshot_ids(again.documents, 1) == []
