"""MySQL's binary JSON and its partial updates, from bytes built by the documentation."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.mysql.binary_json import Opaque, stored
from tidemark.captures.mysql.values.json_binary import apply_changes, double_text, json_text, print_tree, read_tree

REPLACE, INSERT, REMOVE = range(3)

integers = st.integers(-(1 << 63), (1 << 64) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
scalars = st.none() | st.booleans() | integers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5), max_leaves=20
)


def ordered(value: Any) -> Any:
    """With members as the server keeps them."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value, key=lambda name: (len(name.encode()), name.encode()))}
    return [ordered(item) for item in value] if isinstance(value, list) else value


def printed(value: Any) -> str:
    """As the server prints it: a blank after commas and colons, only what must be escaped is."""
    return json.dumps(ordered(value), ensure_ascii=False)


@given(values, st.booleans())
def test_every_value_is_printed_as_the_server_does(value: Any, large: bool) -> None:
    assert json_text(stored(value, large=large)).encode("latin-1").decode() == printed(value)


def test_containers_of_more_than_64_kilobytes() -> None:
    value = {"long": ["x" * 70_000, 1 << 20, -5, None], "b": {"c": [True] * 300}}
    assert json_text(stored(value)) == printed(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-2.5e-7, "-0.00000025"),
        (1e15, "1e15"),
        (123456789012345.0, "123456789012345.0"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
        (5e-324, "5e-324"),
        (-0.0, "-0.0"),
    ],
)
def test_doubles(value: float, text: str) -> None:
    assert json_text(stored([value])) == f"[{text}]"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_the_same_after_it_was_printed(value: float) -> None:
    assert float(double_text(value)) == value


def packed(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micro: int = 0) -> bytes:
    date = (year * 13 + month) << 5 | day
    return struct.pack("<q", (date << 17 | hour << 12 | minute << 6 | second) << 24 | micro)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Opaque(246, b"\x0a\x02\x80\x00\x00\x64\x05"), "100.05"),
        (Opaque(246, b"\x04\x02\x7f\xfe"[:4] + b""), "-0.01"),
        (Opaque(10, packed(2024, 2, 29)), '"2024-02-29"'),
        (Opaque(12, packed(2024, 2, 29, 23, 59, 58, 120)), '"2024-02-29 23:59:58.000120"'),
        (Opaque(7, packed(1970, 1, 1)), '"1970-01-01 00:00:00.000000"'),
        (Opaque(11, struct.pack("<q", -(((838 << 12 | 59 << 6 | 59) << 24) | 5))), '"-838:59:59.000005"'),
        (Opaque(252, b"\x00\xff"), '"base64:type252:AP8="'),
        (Opaque(16, b"\x05"), '"base64:type16:BQ=="'),
    ],
)
def test_values_of_sql_types(value: Opaque, text: str) -> None:
    assert json_text(stored({"v": value})) == f'{{"v": {text}}}'


def test_nothing_is_null() -> None:
    assert json_text(b"") == "null"


@pytest.mark.parametrize("data", [b"\x0e", b"\x00\x05\x00", b"\x05\x01", b"\x0c\x80"])
def test_damaged_values_are_errors(data: bytes) -> None:
    with pytest.raises((ValueError, LookupError, struct.error)):
        json_text(data)


@pytest.mark.parametrize("large", [False, True])
def test_a_value_that_ends_too_early_is_an_error(large: bool) -> None:
    whole = stored({"key": [1, "text", {"a": None}], "other": {}, "opaque": Opaque(252, b"bytes")}, large=large)
    assert json_text(whole)
    for size in range(1, len(whole)):
        with pytest.raises((ValueError, LookupError, struct.error)):
            json_text(whole[:size])


def test_objects_with_the_same_bytes_of_keys_and_other_keys() -> None:
    for value in ({"a": 1, "bc": 2}, {"ab": 1, "c": 2}, {"a": {"bc": 1}}, {"k" * 300: 1, "l" * 300: 2}):
        assert json_text(stored(value)) == json_text(stored(value, large=True)) == printed(value)


def test_keys_between_which_one_was_removed() -> None:
    """The server moves the entries behind it, and leaves the bytes of key and value where they are."""
    whole = stored({"a": 1, "bb": 2, "ccc": 3})
    heads, values = 5, 17
    less = bytearray(whole)
    less[1:3] = struct.pack("<H", 2)
    entries = whole[heads : heads + 4] + whole[heads + 8 : heads + 12] + whole[values : values + 3]
    entries += whole[values + 6 : values + 9]
    less[heads : heads + len(entries)] = entries
    assert json_text(bytes(less)) == '{"a": 1, "ccc": 3}'


def lenenc(data: bytes) -> bytes:
    return (bytes([len(data)]) if len(data) < 251 else b"\xfc" + struct.pack("<H", len(data))) + data


def change(operation: int, path: str, value: Any = None) -> bytes:
    out = bytes([operation]) + lenenc(path.encode())
    return out if operation == REMOVE else out + lenenc(stored(value))


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ({"a": 1, "b": 2}, [change(REPLACE, "$.a", "x")], {"a": "x", "b": 2}),
        ({"bb": 1}, [change(INSERT, "$.a", [1]), change(INSERT, "$.ccc", None)], {"a": [1], "bb": 1, "ccc": None}),
        ({"a": 1, "b": 2}, [change(REMOVE, "$.a")], {"b": 2}),
        ([1, 2, 3], [change(REMOVE, "$[1]"), change(INSERT, "$[0]", 0), change(INSERT, "$[9]", 9)], [0, 1, 3, 9]),
        ({"a": [{"b": [1, 2]}]}, [change(REPLACE, "$.a[0].b[1]", {"c": 1.5})], {"a": [{"b": [1, {"c": 1.5}]}]}),
        ({'k"\\ .[': {"ü": 1}}, [change(REPLACE, '$."k\\"\\\\ .["."ü"', 2)], {'k"\\ .[': {"ü": 2}}),
        ({"ü": 1}, [change(REPLACE, "$.ü", "x" * 300)], {"ü": "x" * 300}),
        ([1], [change(REPLACE, "$", {"whole": True})], {"whole": True}),
    ],
)
def test_partial_updates(before: Any, changes: list[bytes], after: Any) -> None:
    tree = apply_changes(read_tree(stored(before)), b"".join(changes))
    assert print_tree(tree).encode("latin-1").decode() == printed(after)


@pytest.mark.parametrize(
    "wrong",
    [change(REPLACE, "$.b", 1), change(REMOVE, "$[0]"), change(INSERT, "$", 1), change(REPLACE, "x", 1), b"\x07\x01$"],
)
def test_changes_that_do_not_fit_are_errors(wrong: bytes) -> None:
    with pytest.raises((ValueError, LookupError, struct.error)):
        apply_changes(read_tree(stored({"a": 1})), wrong)
