"""Values that have no place in a document: what ``on_bad_value`` makes of them, from chunks and from the log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.captures.session import Json, Session
from tests.conformance.engine import Code, Engine
from tidemark.protocol.environment import RUNTIME

BAD: dict[str, dict[str, list[tuple[str, str]]]] = {
    # SQL of a date and of a timestamp, by the engine; each row is bad in both, or in one of them.
    "TM-PG": {
        "rows": [
            ("'infinity'", "'-infinity'"),
            ("'0044-03-15 BC'", "'20000-01-01 00:00:00Z'"),
            ("'2024-02-29'", "'0044-03-15 01:02:03Z BC'"),
        ],
        "text": [
            ("infinity", "-infinity"),
            ("-0043-03-15", "+020000-01-01T00:00:00Z"),
            ("2024-02-29", "-0043-03-15T01:02:03Z"),
        ],
        "clamp": [
            ("9999-12-31", "0001-01-01T00:00:00Z"),
            ("0001-01-01", "9999-12-31T23:59:59.999999Z"),
            ("2024-02-29", "0001-01-01T00:00:00Z"),
        ],
        "raw": [
            ("infinity", "-infinity"),
            ("0044-03-15 BC", "20000-01-01 00:00:00+00"),
            ("", "0044-03-15 01:02:03+00 BC"),
        ],
    },
    "TM-MY": {
        "rows": [
            ("'0000-00-00'", "'0000-00-00 00:00:00'"),
            ("'2024-02-31'", "'2024-02-31 10:00:00.5'"),
            ("'2024-02-29'", "'2024-00-01 00:00:00'"),
        ],
        "text": [
            ("0000-00-00", "0000-00-00T00:00:00.000000"),
            ("2024-02-31", "2024-02-31T10:00:00.500000"),
            ("2024-02-29", "2024-00-01T00:00:00.000000"),
        ],
        "clamp": [
            ("0001-01-01", "0001-01-01T00:00:00.000000"),
            ("2024-02-29", "2024-02-29T23:59:59.999999"),
            ("2024-02-29", "2024-01-01T00:00:00.000000"),
        ],
        "raw": [
            ("0000-00-00", "0000-00-00 00:00:00.000000"),
            ("2024-02-31", "2024-02-31 10:00:00.500000"),
            ("", "2024-00-01 00:00:00.000000"),
        ],
    },
}  # fmt: skip


def make(engine: Engine) -> None:
    moment = engine.types["instant" if engine.prefix == "TM-PG" else "datetime"]
    engine.execute(f"CREATE TABLE odd (id int PRIMARY KEY, d date, at {moment} NULL, note {engine.types['text']})")
    engine.users(3)


def insert(engine: Engine, first: int) -> None:
    """The bad rows, and one in order."""
    values = [f"({first + n}, {d}, {at}, 'bad')" for n, (d, at) in enumerate(BAD[engine.prefix]["rows"])]
    loosely = ["SET sql_mode = 'ALLOW_INVALID_DATES'"] if engine.prefix == "TM-MY" else []
    good = f"({first + 9}, '2024-01-15', '2024-01-15 14:30:00', 'good')"
    engine.execute(*loosely, f"INSERT INTO odd VALUES {', '.join([*values, good])}")


def expected(engine: Engine, policy: str, first: int) -> dict[int, tuple[Any, Any]]:
    if policy in ("null", "quarantine"):
        rows: list[tuple[Any, Any]] = [(None, None), (None, None), ("2024-02-29", None)]
    else:
        rows = list(BAD[engine.prefix][policy])
    return {first + n: row for n, row in enumerate(rows)}


def aside(capture: Session) -> Json | None:
    for key, state in capture.state.get("bindings", {}).items():
        if key.endswith("%2Fodd"):
            found: Json | None = state.get("aside")
            return found
    return None


def counts(capture: Session) -> dict[str, int]:
    (state,) = (state for key, state in capture.state["bindings"].items() if key.endswith("%2Fodd"))
    found: dict[str, int] = state.get("bad", {})
    return found


@pytest.mark.parametrize("policy", ["text", "clamp", "null", "quarantine"])
def test_policies_from_chunks_and_log(engine: Engine, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUNTIME, "test")
    make(engine)
    insert(engine, 1)
    bound = engine.bindings("odd", "users")
    with engine.capture(bound, on_bad_value=policy) as capture:
        capture.until(lambda c: c.done())
        insert(engine, 101)
        engine.execute("UPDATE odd SET note = 'changed' WHERE id < 100")
        capture.until(lambda c: {d["note"] for i, d in c.documents if i == 0 and d["id"] == 10} == {"good", "changed"})
        capture.until(lambda c: any(d["id"] == 110 for i, d in c.documents if i == 0))
        documents = [document for index, document in capture.documents if index == 0]
        (schema,) = {str(schema["properties"]["d"]): schema for index, schema in capture.schemas if index == 0}.values()
        numbers = counts(capture)
    assert aside(capture) is None
    want = {**expected(engine, policy, 1), **expected(engine, policy, 101)}
    moment = "2024-01-15T14:30:00" + ("Z" if engine.prefix == "TM-PG" else ".000000")
    want |= {10: ("2024-01-15", moment), 110: ("2024-01-15", moment)}
    assert len(documents) == 12
    assert all((document["d"], document["at"]) == want[document["id"]] for document in documents)
    assert ("format" in schema["properties"]["d"]) == (policy != "text")
    marked = {document["id"]: document["_meta"].get("bad") for document in documents}
    raw = BAD[engine.prefix]["raw"]
    for at, mark in marked.items():
        place = at % 100 - 1
        shown = {name: text for name, text in zip(("d", "at"), raw[place], strict=True) if text} if place < 3 else None
        assert mark == (shown if policy == "quarantine" else None)
    if policy == "quarantine":
        assert numbers == {"quarantine": 9}
    elif policy != "text":
        assert numbers[policy] >= 15  # old images count, too, where the log has them
    else:
        assert numbers == {}


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_table_is_set_aside_and_read_again_with_another_policy(engine: Engine, when: str) -> None:
    make(engine)
    bound = engine.bindings("odd", "users")
    if when == "before":
        insert(engine, 1)
    with engine.capture(bound) as capture:
        if when == "meanwhile":
            capture.until(lambda c: c.done())
            insert(engine, 1)
        capture.until(aside)
        engine.insert("users", [(1000, "goes on")])
        capture.until(lambda c: (1000,) in c.rows(1))
        told = [line for line in capture.logs if line.get("fields", {}).get("code") == "TM-CAP-020"]
        state = capture.state
    found = aside(capture)
    assert found is not None and found["code"] == "TM-CAP-020"
    # Both columns at once, the key of one row, no value, and the line to add.
    assert "column at: " in found["text"] and "column d: " in found["text"] and "row with key" in found["text"]
    for d, at in BAD[engine.prefix]["rows"]:
        assert d.strip("'") not in str(told) or d.strip("'") in ("infinity",)
        assert at.strip("'") not in str(told) or at.strip("'") in ("-infinity",)
    assert "on_bad_value: {at: text, d: text}" in found["remedy"] and "emptied and read again" in found["remedy"]
    assert told
    engine.execute("DELETE FROM odd WHERE id = 2")
    again = engine.bindings("odd", on_bad_value={"at": "text", "d": "text"}) + bound[1:]
    with engine.capture(again, state) as capture:
        capture.until(lambda c: aside(c) is None and c.done())
        assert {at for (at,) in capture.rows()} == {1, 3, 10}
        assert any(document["_meta"]["op"] == "t" for index, document in capture.documents if index == 0)


def test_with_the_same_policy_it_stays_aside(engine: Engine) -> None:
    make(engine)
    insert(engine, 1)
    bound = engine.bindings("odd", "users")
    with engine.capture(bound) as capture:
        capture.until(lambda c: aside(c) and c.rows(1))
    with engine.capture(bound, capture.state, stop=True) as capture:
        assert capture.finish() == 1
    assert capture.logs[-1]["fields"]["code"] == "TM-CAP-007"
    assert aside(capture) is not None and not capture.rows()


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ({"id": "null"}, "on_bad_value of the key column id cannot be clamp or null"),
        ({"id": "clamp"}, "on_bad_value of the key column id cannot be clamp or null"),
        ({"note": "clamp"}, "clamp is only for dates and timestamps, not for note"),
        ({"notes": "text"}, "on_bad_value names unknown columns: notes"),
        ("quarantine", "quarantine needs a runtime"),
        ({"d": "quarantine"}, "quarantine needs a runtime"),
    ],
)
def test_what_cannot_be_asked_for(engine: Engine, policies: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUNTIME, raising=False)
    make(engine)
    bound = engine.bindings("odd", on_bad_value=policies)
    status, _, logs = engine.unary({"validate": {"name": "acme/odd", "config": engine.config(), "bindings": bound}})
    assert status == 1
    code = f"{engine.prefix}-022" if "column" in words or "clamp" in words else engine.code(Code.CONFIG)
    assert logs[-1]["fields"]["code"] == code, logs[-1]
    assert words in logs[-1]["message"]


def test_null_is_the_name_of_a_policy(engine: Engine) -> None:
    """YAML and JSON have it as null, unless it is quoted."""
    make(engine)
    insert(engine, 1)
    with engine.capture(engine.bindings("odd", on_bad_value=None), stop=True) as capture:
        assert capture.finish() == 0
    assert [capture.rows()[(n,)]["d"] for n in (1, 2)] == [None, None]


def test_unknown_policies(engine: Engine) -> None:
    make(engine)
    bound = engine.bindings("odd", on_bad_value="ignore")
    status, _, logs = engine.unary({"validate": {"name": "acme/odd", "config": engine.config(), "bindings": bound}})
    assert status == 1 and logs[-1]["fields"]["code"] == engine.code(Code.CONFIG)
