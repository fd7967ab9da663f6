"""The rows of a verification: all of them, as they are, beside the events and no events."""

from __future__ import annotations

import copy
from typing import Any

from tests.captures.impatient import status_of
from tests.captures.session import Json, Session
from tests.conformance.engine import Engine
from tests.conformance.test_schema_changes import wide_users

SLOWLY: Json = {"backfill": {"chunk_rows": 10, "max_rate": "100 rows"}}


def verify(sequence: int, *tables: str) -> Json:
    return {"control": {"sequence": sequence, "action": "verify", "tables": list(tables)}}


def of_kind(capture: Session, kind: str) -> list[Json]:
    return [body for found, _, body in capture.events if found == kind]


def ended(capture: Session) -> bool:
    return bool(of_kind(capture, "verifyEnd"))


def verified(capture: Session) -> dict[int, Any]:
    """The rows by their ids; each may come once."""
    documents = [body["doc"] for body in of_kind(capture, "verified")]
    found = {doc["id"]: {name: value for name, value in doc.items() if name != "_meta"} for doc in documents}
    assert len(found) == len(documents)
    return found


def test_all_rows_come_once_more_and_are_no_events(engine: Engine) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with engine.capture(bound, backfill={"chunk_rows": 20}) as capture:
        capture.until(Session.done)
        engine.execute("UPDATE users SET extra = '7' WHERE id = 3", "DELETE FROM users WHERE id = 4")
        engine.until_equal(capture, "users")
        events = len(capture.documents)
        capture.send(verify(1, f"{engine.schema}.users"))
        capture.until(ended)
        assert len(capture.documents) == events
        replayed = capture.rows()
        assert sorted(verified(capture)) == sorted(set(range(1, 51)) - {4})
        assert {id: row["extra"] for id, row in verified(capture).items()} == {
            key[0]: row["extra"] for key, row in replayed.items()
        }
        kinds = [kind for kind, _, _ in capture.events if kind.startswith("verif")]
        assert kinds[0] == "verifyBegin" and kinds[-2:] == ["verifyChunk", "verifyEnd"]
        chunks = of_kind(capture, "verifyChunk")
        assert [chunk["number"] for chunk in chunks] == list(range(1, len(chunks) + 1)) and len(chunks) >= 3
        (end,) = of_kind(capture, "verifyEnd")
        assert (end["run"], end["chunks"], end["rows"]) == (1, len(chunks), 49) and end.get("why") is None


def test_it_continues_in_the_next_session(engine: Engine) -> None:
    wide_users(engine, 100)
    bound = engine.bindings("users")
    with engine.capture(bound) as first:
        first.until(Session.done)
    with engine.capture(bound, first.state, **SLOWLY) as second:
        second.send(verify(1))
        second.until(lambda c: len(of_kind(c, "verifyChunk")) >= 2)
    with engine.capture(bound, second.state) as third:
        third.until(ended)
    chunks = [*of_kind(second, "verifyChunk"), *of_kind(third, "verifyChunk")]
    assert [chunk["number"] for chunk in chunks] == list(range(1, len(chunks) + 1))
    assert of_kind(third, "verifyBegin") == []
    assert sorted([*verified(second), *verified(third)]) == list(range(1, 101))
    assert of_kind(third, "verifyEnd")[0]["rows"] == 100


def test_a_table_that_is_read_again_ends_it(engine: Engine) -> None:
    wide_users(engine, 100)
    bound = engine.bindings("users")
    with engine.capture(bound, **SLOWLY) as capture:
        capture.until(Session.done)
        capture.send(verify(1))
        capture.until(lambda c: len(of_kind(c, "verifyChunk")) >= 2)
        capture.send({"control": {"sequence": 2, "action": "backfill", "tables": [f"{engine.schema}.users"]}})
        capture.until(ended)
        (end,) = of_kind(capture, "verifyEnd")
        assert "read again" in end["why"] and end["covered"]
        capture.send(verify(3))
        capture.until(lambda c: len(of_kind(c, "verifyEnd")) == 2)
        assert of_kind(capture, "verifyEnd")[1]["why"] == "its backfill is not done"


def test_it_waits_for_rows_that_are_read_again_by_their_keys(engine: Engine) -> None:
    """The log gave them in part, which any update may do at any time: nobody has to ask once more."""
    wide_users(engine, 5)
    bound = engine.bindings("users")
    with engine.capture(bound) as first:
        first.until(Session.done)
    state = copy.deepcopy(first.state)
    (kept,) = state["bindings"].values()
    kept |= {"scan": {**kept["scan"], "rereads": [["2"], ["3"], ["4"]]}}
    with engine.capture(bound, state, backfill={"chunk_rows": 1, "max_rate": "2 rows"}) as second:
        second.send(verify(1))
        second.until(lambda c: status_of(c, "users").get("waits_for") == "rows that are read again by their keys")
        assert of_kind(second, "verifyBegin") == []
        second.until(ended)
        (end,) = of_kind(second, "verifyEnd")
        assert end["rows"] == 5 and end.get("why") is None
        assert [document["id"] for _, document in second.documents] == [2, 3, 4]


def control(sequence: int, action: str) -> Json:
    return {"control": {"sequence": sequence, "action": action}}


def test_a_table_that_is_paused_ends_it_before_it_begins_and_holds_it_after(engine: Engine) -> None:
    wide_users(engine, 50)
    bound = engine.bindings("users")
    with engine.capture(bound, **SLOWLY) as capture:
        capture.until(Session.done)
        capture.send(control(1, "pause"))
        capture.until(lambda c: status_of(c, "users").get("paused"))
        assert status_of(capture, "users")["state"] == "done"
        capture.send(verify(2))
        capture.until(ended)
        (end,) = of_kind(capture, "verifyEnd")
        assert end["why"] == "it is paused: see tidemark resume"
        capture.send(control(3, "resume"))
        capture.send(verify(4))
        capture.until(lambda c: of_kind(c, "verifyChunk"))
        capture.send(control(5, "pause"))
        capture.until(lambda c: status_of(c, "users").get("waits_for") == "tidemark resume, since it is paused")
        read = len(of_kind(capture, "verifyChunk"))
        engine.execute("UPDATE users SET extra = '7' WHERE id = 50")
        engine.until_equal(capture, "users")
        assert len(of_kind(capture, "verifyChunk")) == read < 5 and len(of_kind(capture, "verifyEnd")) == 1
        capture.send(control(6, "resume"))
        capture.until(lambda c: len(of_kind(c, "verifyEnd")) == 2)
        assert of_kind(capture, "verifyEnd")[1].get("why") is None
        assert (len(verified(capture)), verified(capture)[50]["extra"]) == (50, 7)
