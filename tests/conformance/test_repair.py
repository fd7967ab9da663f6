"""Rows that are named by their keys are read again, and those that the source lacks are deleted."""

from __future__ import annotations

from typing import Any

from tests.captures.session import Json, Session
from tests.conformance.engine import Engine
from tests.conformance.test_schema_changes import wide_users

SLOWLY: Json = {"backfill": {"chunk_rows": 10, "max_rate": "100 rows"}}


def repair(sequence: int, table: str, *keys: list[Any]) -> Json:
    return {"control": {"sequence": sequence, "action": "repair", "tables": [table], "keys": list(keys)}}


def handled(capture: Session) -> int:
    return int(capture.state.get("control", 0))


def refusals(capture: Session) -> list[str]:
    return [line["message"] for line in capture.logs if line.get("fields", {}).get("code") == "TM-CAP-004"]


def test_exactly_these_rows_are_read_again(engine: Engine) -> None:
    wide_users(engine, 50)
    users = f"{engine.schema}.users"
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        before = len(capture.documents)
        capture.send(repair(1, users, [3], [999], [4]))
        capture.until(lambda c: handled(c) == 1)
        found = [(doc["_meta"]["op"], doc["id"], doc.get("name")) for _, doc in capture.documents[before:]]
        assert sorted(found) == [("c", 3, "name 3"), ("c", 4, "name 4"), ("d", 999, None)]
        assert all(doc["_meta"]["source"]["snapshot"] for _, doc in capture.documents[before:])
        places = [engine.place(doc) for _, doc in capture.documents]
        assert len({str(place) for place in places}) == len(places)
        assert capture.rows() == engine.rows("users")


def test_a_newer_change_counts(engine: Engine) -> None:
    wide_users(engine, 60)
    users = f"{engine.schema}.users"
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        for turn in range(1, 9):
            capture.send(repair(turn, users, *([n] for n in range(1, 91))))
            engine.execute(
                f"UPDATE users SET extra = extra + 1000 WHERE id % 8 = {turn % 8}",
                f"DELETE FROM users WHERE id = {turn}",
                f"INSERT INTO users VALUES ({60 + turn}, 'new {turn}', {turn})",
                f"UPDATE users SET id = {80 + turn} WHERE id = {50 - turn}",
            )
        capture.until(lambda c: handled(c) == 8)
        engine.until_equal(capture, "users")


def test_the_next_session_gets_it_again(engine: Engine) -> None:
    wide_users(engine, 400)
    users, bound = f"{engine.schema}.users", engine.bindings("users")
    command = repair(1, users, *([n] for n in range(1, 500)))
    with engine.capture(bound) as first:
        first.until(Session.done)
    with engine.capture(bound, first.state, **SLOWLY) as second:
        second.send(command)
        second.send({"control": {"sequence": 2, "action": "pause", "tables": [users]}})
        second.until(lambda c: len(c.documents) >= 3)
        # It is not over, and the command after it waits.
        assert handled(second) == 0
    with engine.capture(bound, second.state) as third:
        third.send(command)
        third.until(lambda c: handled(c) == 1)
        found = [(doc["_meta"]["op"], doc["id"]) for _, doc in third.documents]
        assert sorted(found) == [("c", n) for n in range(1, 401)] + [("d", n) for n in range(401, 500)]


def test_what_cannot_be_read_by_key_is_refused(engine: Engine) -> None:
    wide_users(engine, 5)
    engine.execute("CREATE TABLE measured (at double precision PRIMARY KEY)", "INSERT INTO measured VALUES (0.1)")
    users, measured = f"{engine.schema}.users", f"{engine.schema}.measured"
    with engine.capture(engine.bindings("users", "measured")) as capture:
        capture.until(Session.done)
        capture.send(repair(1, measured, [0.1]))
        capture.send(repair(2, users, ["3"]))
        capture.send(repair(3, users, [3, 4]))
        capture.send(repair(4, users))
        capture.send({"control": {"sequence": 5, "action": "pause", "tables": [users]}})
        capture.send(repair(6, users, [3]))
        capture.until(lambda c: handled(c) == 6)
        said = refusals(capture)
        assert len(said) == 5
        assert all("tidemark backfill" in text for text in said[:3])
        assert "1 to 10000 keys" in said[3] and "it is paused" in said[4]
        assert capture.rows() == engine.rows("users")


def test_a_table_that_is_read_again_meanwhile_ends_it(engine: Engine) -> None:
    wide_users(engine, 400)
    users, bound = f"{engine.schema}.users", engine.bindings("users")
    with engine.capture(bound) as first:
        first.until(Session.done)
    with engine.capture(bound, first.state, **SLOWLY) as capture:
        capture.send(repair(1, users, *([n] for n in range(1, 400))))
        capture.until(lambda c: len(c.documents) >= 3)
        engine.execute(engine.statements["retype extra to text"])
        capture.until(lambda c: handled(c) == 1)
        assert any("not all of the rows" in text and "meanwhile" in text for text in refusals(capture))
