"""One type path: a row gives the same document from a chunk and from the log, and it is the one of the design."""

from __future__ import annotations

from typing import Any

from tests.captures.session import Session
from tests.conformance.engine import Engine

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


def test_chunk_and_log_give_the_same_document(engine: Engine) -> None:
    types = []
    for name, (sql_type, _) in COLUMNS.items():
        for short, long in engine.types.items():
            sql_type = sql_type.replace("{" + short + "}", long)
        types.append(f"{name} {sql_type}{' NULL' if name == 'moment' else ''}")
    engine.execute(f"CREATE TABLE things (id int PRIMARY KEY, {', '.join(types)})")
    rows = [[values[n][0] for _, values in COLUMNS.values()] for n in range(3)]
    engine.insert("things", [(n, *row) for n, row in enumerate(rows)])
    with engine.capture(engine.bindings("things")) as capture:
        capture.until(Session.done)
        engine.insert("things", [(n + 3, *row) for n, row in enumerate(rows)])
        capture.until(lambda c: len(c.documents) >= 6)
        documents = {doc["id"]: doc for _, doc in capture.documents}
        engine.execute("UPDATE things SET id = id + 10 WHERE id < 3")
        capture.until(lambda c: len(c.documents) >= 12)
        moved = {doc["id"] - 10: doc for _, doc in capture.documents[6:] if doc["_meta"]["op"] == "c"}
    for n in range(3):
        chunk, log, update = (without_place(doc) for doc in (documents[n], documents[n + 3], moved[n]))
        assert chunk == log == update
        for name, (_, values) in COLUMNS.items():
            if (expected := values[n][1]) is not None or values[n][0] is None:
                assert same(chunk[name].rstrip(" ") if name == "padded" and chunk[name] else chunk[name], expected), (
                    name
                )


def without_place(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in ("_meta", "id")}


def same(found: Any, expected: Any) -> bool:
    """Equal, and of the same type: 1 is not true, and not 1.0."""
    return type(found) is type(expected) and bool(found == expected)
