"""Keys of every kind: rows are found once, in the server's order, and changes find the row they are of."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.captures.session import Session
from tests.conformance.engine import Engine

ROWS = 60

KEYS: dict[str, tuple[str, str, Any]] = {
    "composite": (
        "a {text}, b int, PRIMARY KEY (b, a)",
        "b % 3 = 1",
        lambda n: (f"it's \\ é \"{n % 7}\"", n // 7),
    ),
    "text": ("a {ci} PRIMARY KEY", "a LIKE '%1%'", lambda n: (f"{'aBé'[n % 3]} {'x' * (n % 4)}{n}",)),
    "negative": ("a bigint PRIMARY KEY", "a % 3 = 0", lambda n: ((n - 30) * 10**17,)),
    "decimal": ("a decimal(20,4) PRIMARY KEY", "a > 1", lambda n: (f"{n - 30}.{n * 7:04}",)),
    "datetime": (
        "a {datetime} PRIMARY KEY",
        "a > '2024-02-29 00:00:30'",
        lambda n: (f"2024-02-29 00:00:{n:02}.{n * 10 + 1:06}",),
    ),
    "date": ("a date PRIMARY KEY", "a > '2000-02-01'", lambda n: (f"2000-{n // 28 + 1:02}-{n % 28 + 1:02}",)),
    "bytes": ("a {key bytes} PRIMARY KEY", "b % 3 = 0", lambda n: (bytes([255 - n, 0, n, 39, 92]),)),
    "uuid": ("a {uuid} PRIMARY KEY", "b % 3 = 0", lambda n: (str(UUID(int=n * 0x9E3779B97F4A7C15 % 61 << 64)),)),
}  # fmt: skip
"""By name: key columns, a condition that some rows meet, and the key of row n."""


@pytest.mark.drawn(12)
@pytest.mark.parametrize("kind", KEYS)
def test_rows_of_any_key(engine: Engine, kind: str) -> None:
    columns, condition, value = KEYS[kind]
    types = {**engine.types, "key bytes": engine.types.get("key bytes", engine.types["bytes"])}
    for name, sql_type in types.items():
        columns = columns.replace("{" + name + "}", sql_type)
    number = "" if "b int" in columns else ", b int"
    if number:
        column, _, rest = columns.partition(" PRIMARY KEY")
        columns = f"{column}{number}, PRIMARY KEY (a){rest}"
    key = ("b", "a") if kind == "composite" else ("a",)
    engine.execute(f'CREATE TABLE "odd one" ({columns}, v int)')
    rows = [(*value(n), *([n] if number else []), n) for n in range(ROWS)]
    engine.insert("odd one", rows[: ROWS // 2])
    with engine.capture(engine.bindings("odd one"), backfill={"chunk_rows": 7}) as capture:
        engine.insert("odd one", rows[ROWS // 2 :])
        engine.until_equal(capture, "odd one", key=key)
        engine.execute(
            f'UPDATE "odd one" SET v = v + 1000 WHERE {condition}', 'DELETE FROM "odd one" WHERE v > 0 AND v % 5 = 0'
        )
        engine.until_equal(capture, "odd one", key=key)
        assert any(doc["_meta"]["op"] == "u" for _, doc in capture.documents)
        # By the values of their keys the same rows are found.
        before, replayed = len(capture.documents), capture.rows(key=key)
        keys = [[row[name] for name in key] for row in replayed.values()]
        table = f"{engine.schema}.odd one"
        capture.send({"control": {"sequence": 1, "action": "repair", "tables": [table], "keys": keys}})
        capture.until(lambda c: c.state.get("control") == 1)
        again = [doc for _, doc in capture.documents[before:]]
        assert {doc["_meta"]["op"] for doc in again} == {"c"} and len(again) == len(replayed)
        assert capture.rows(key=key) == replayed


def test_a_key_of_our_own_choice(engine: Engine) -> None:
    engine.execute(
        "CREATE TABLE users (id int PRIMARY KEY, code int NOT NULL UNIQUE)", engine.statements["log old rows"]
    )
    engine.insert("users", [(n, 100 - n) for n in range(1, 51)])
    with engine.capture(engine.bindings("users", key=["code"]), backfill={"chunk_rows": 7}) as capture:
        capture.until(Session.done)
        # A scan that is cut while a chunk is in flight reads the rest of that chunk again, in another range.
        assert sorted({doc["code"] for _, doc in capture.documents}) == list(range(50, 100))
        engine.execute("DELETE FROM users WHERE code % 2 = 0")
        engine.until_equal(capture, "users", key=["code"])


def test_a_key_that_changes_is_a_delete_and_a_create(engine: Engine) -> None:
    engine.users(3)
    with engine.capture(engine.bindings("users")) as capture:
        capture.until(Session.done)
        with engine.transaction() as run:
            run("UPDATE users SET id = id + 10, name = 'moved' WHERE id > 1")
            run("UPDATE users SET id = 2 WHERE id = 1")
        capture.until(lambda c: len(c.documents) >= 9)
        changes = [doc for _, doc in capture.documents[3:]]
        moves = [(doc["_meta"]["op"], doc["id"]) for doc in changes]
        assert sorted(moves[:4]) == sorted([("d", 2), ("c", 12), ("d", 3), ("c", 13)])
        assert moves[4:] == [("d", 1), ("c", 2)]
        assert len({doc["_meta"]["source"]["txid"] for doc in changes}) == 1
        assert capture.rows() == engine.rows("users")


def test_a_table_without_a_key_is_followed_in_the_log(engine: Engine) -> None:
    engine.execute("CREATE TABLE notes (note varchar(50))", "INSERT INTO notes VALUES ('before')")
    engine.execute(engine.statements["log old rows"].replace("users", "notes"))
    with engine.capture(engine.bindings("notes", scan="none")) as capture:
        capture.until(lambda c: c.checkpoints >= 1)
        engine.execute("INSERT INTO notes VALUES ('twice'), ('twice')", "INSERT INTO notes VALUES (NULL)")
        capture.until(lambda c: len(c.documents) >= 3)
        assert [(doc["_meta"]["op"], doc["note"]) for _, doc in capture.documents] == [
            ("c", "twice"),
            ("c", "twice"),
            ("c", None),
        ]
