"""One type path: from a chunk, from the log and after a move a row has the same bytes, which say what the client says.

Two tables: one of types that all databases have, whose documents are equal, and one of every type of each database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from tests.captures.session import Session
from tests.conformance.engine import Engine, as_json

COLUMNS: dict[str, tuple[str, list[tuple[Any, Any]]]] = {
    "tiny": ("smallint", [(-32768, -32768), (32767, 32767), (None, None)]),
    "whole": ("int", [(-(2**31), -(2**31)), (2**31 - 1, 2**31 - 1), (None, None)]),
    "large": ("bigint", [(-(2**63), -(2**63)), (2**63 - 1, 2**63 - 1), (None, None)]),
    "exact": ("decimal(38,10)", [("-0.1", "-0.1000000000"), ("9" * 28, "9" * 28 + ".0000000000"), (None, None)]),
    "plain": ("decimal(5)", [("-99999", "-99999"), ("7", "7"), (None, None)]),
    "double_": ("double precision", [(0.1, 0.1), (-1.5e300, -1.5e300), (5e-324, 5e-324)]),
    "words": ("{text}", [("", ""), ('é ☃ 😀 "\\\n\t\x01', 'é ☃ 😀 "\\\n\t\x01'), (None, None)]),
    "padded": ("char(5)", [("ab", "ab"), ("abcde", "abcde"), (None, None)]),
    "raw": ("{bytes}", [(b"", ""), (bytes(range(256)), None), (None, None)]),
    "day": ("date", [("2024-02-29",) * 2, ("1000-01-01",) * 2, ("9999-12-31",) * 2]),
    "local": ("{datetime}", [("2024-02-29 23:59:59.123456", "2024-02-29T23:59:59.123456"),
                             ("1000-01-01 00:00:00.000001", "1000-01-01T00:00:00.000001"), (None, None)]),
    "moment": ("{instant}", [("2024-02-29 23:59:59.123456", "2024-02-29T23:59:59.123456Z"),
                             ("2030-07-01 02:30:00.000001", "2030-07-01T02:30:00.000001Z"), (None, None)]),
    "data": ("{json}", [('{"a": [1, "é", null, true, {"b": {}}]}', {"a": [1, "é", None, True, {"b": {}}]}),
                        ("[]", []), (None, None)]),
}  # fmt: skip
"""By column: its type, and values with what a document has for them (None where only chunk and log are compared)."""

LOGGED, MOVED = 1000, 2000
"""What is added to the ids of rows that come from the log, and that an UPDATE of the key moves."""


@dataclass(frozen=True)
class Column:
    """A column, its type, and SQL of its values with the JSON of each."""

    name: str
    sql_type: str
    values: Sequence[tuple[str, Any]]

    def sql(self, row: int) -> str:
        return self.values[row][0] if row < len(self.values) else "NULL"

    def expected(self, row: int) -> Any:
        return self.values[row][1] if row < len(self.values) else None


def test_chunk_and_log_give_the_same_document(engine: Engine) -> None:
    own = [Column(f"c{n}", of, values) for n, (of, values) in enumerate(engine.literals().items())]
    count = 1 + max(len(column.values) for column in own)  # in the last row all are NULL
    things = [[values[n][0] for _, values in COLUMNS.values()] for n in range(3)]
    declared = [f"{name} {of}{' NULL' if name == 'moment' else ''}" for name, of in shared_types(engine).items()]
    engine.execute(f"CREATE TABLE things (id int PRIMARY KEY, {', '.join(declared)})")
    engine.execute(f"CREATE TABLE own (id int PRIMARY KEY, {', '.join(f'{c.name} {c.sql_type}' for c in own)})")
    # A row of all types is so long that some values lie outside of it, which an update would not log.
    engine.execute(engine.statements["log old rows"].replace("users", "own"))

    def insert(first: int) -> None:
        engine.insert("things", [(first + n, *row) for n, row in enumerate(things)])
        rows = (f"({first + n}, {', '.join(column.sql(n) for column in own)})" for n in range(count))
        engine.execute(*engine.loosely, *(f"INSERT INTO own VALUES {row}" for row in rows))

    text = {column.name: "text" for column in own if re.match(engine.text_for_bad_values, column.sql_type)}
    insert(0)
    with engine.capture(engine.bindings("things") + engine.bindings("own", on_bad_value=text)) as capture:
        capture.texts = []
        capture.until(Session.done)
        insert(LOGGED)
        capture.until(partial(have_come, LOGGED + count - 1))
        says = client_says(engine, own)
        engine.execute(*(f"UPDATE {table} SET id = id + {MOVED} WHERE id < {LOGGED}" for table in ("things", "own")))
        capture.until(partial(have_come, MOVED + count - 1))
    shared, of_each = (members(capture, binding) for binding in range(2))
    for n in range(3):
        assert shared[n] == shared[n + LOGGED] == shared[n + MOVED]
        document = {name: json.loads(bytes(value)) for name, value in shared[n].items()}
        for name, (_, values) in COLUMNS.items():
            if (expected := values[n][1]) is not None or values[n][0] is None:
                found = document[name].rstrip(" ") if name == "padded" and document[name] else document[name]
                assert same(found, expected), name
    for column in own:
        for n in range(count):
            chunk, log, update = (of_each[n + added][column.name] for added in (0, LOGGED, MOVED))
            assert (column.sql_type, n, chunk) == (column.sql_type, n, log) == (column.sql_type, n, update)
            found, expected = json.loads(chunk), column.expected(n)
            assert equal(found, expected), (column.sql_type, column.sql(n), found, expected)
            if (n, column.name) in says:
                client = says[n, column.name]
                assert equal(found, client), (column.sql_type, column.sql(n), found, client)


def shared_types(engine: Engine) -> dict[str, str]:
    found = {}
    for name, (sql_type, _) in COLUMNS.items():
        for short, long in engine.types.items():
            sql_type = sql_type.replace("{" + short + "}", long)
        found[name] = sql_type
    return found


def client_says(engine: Engine, own: Sequence[Column]) -> Mapping[tuple[int, str], Any]:
    """What the database's own client gives for the values of the rows that chunks read, by row and column."""
    asked = [column.name for column in own if re.match(engine.own_values, column.sql_type)]
    with closing(engine.connect(autocommit=True)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT id, {', '.join(asked)} FROM own WHERE id < {LOGGED}")
        return {
            (row[0], name): as_json(value)
            for row in cursor.fetchall()
            for name, value in zip(asked, row[1:], strict=True)
        }


def have_come(last: int, capture: Session) -> bool:
    """Whether the row with this id has, which is the last of the second table."""
    return any(binding == 1 and document["id"] == last for binding, document in capture.documents)


def members(capture: Session, binding: int) -> dict[int, dict[str, bytes]]:
    """By id, the columns of the documents that are no deletes, each as its bytes."""
    found = {}
    for index, text in capture.texts or ():
        document = msgspec.json.decode(text, type=dict[str, Raw])
        if index == binding and json.loads(bytes(document.pop("_meta")))["op"] == "c":
            identity = int(bytes(document.pop("id")))
            found[identity] = {name: bytes(value) for name, value in document.items()}
    return found


def same(found: Any, expected: Any) -> bool:
    """Equal, and of the same type: 1 is not true, and not 1.0."""
    return type(found) is type(expected) and bool(found == expected)


def equal(found: Any, expected: Any) -> bool:
    """Equal, where 1 is 1.0 and is not true."""
    return isinstance(found, bool) is isinstance(expected, bool) and bool(found == expected)
