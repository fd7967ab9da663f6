"""Values in the log that are not what their columns' types have: the policies of columns say what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.captures.mysql.binary_json import stored
from tests.captures.mysql.rows.test_log_decoder import (
    ID,
    JSON,
    Decoded,
    Described,
    bitmap,
    insert_of,
    json_change,
    long_value,
    number,
    row,
)
from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.log_decoder import DELETE, INSERT, PARTIAL_UPDATE, UPDATE
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.tables.bad_values import BadValues, Policy

ENUM = (LoggedColumn(table_map.ENUM, 1), Column("e", "enum", charset="utf8mb4", labels=("a", "b")))
COMPRESSED = (LoggedColumn(table_map.BLOB_COMPRESSED, 2), Column("c", "text", charset="utf8mb4"))
LAST = (LoggedColumn(table_map.VARCHAR, 40), Column("last", "varchar", charset="utf8mb4", length=10))

NO_JSON = b"\xc8secret"
VALUES = {
    "a label beyond the last": (ENUM, b"\x09", b"\x02", "b"),
    "a type that JSON does not have": (JSON, long_value(NO_JSON), long_value(stored({"a": 1})), {"a": 1}),
    "JSON that ends in the middle": (JSON, long_value(stored({"key": "text"})[:9]), None, None),
    "a compression that is not known": (COMPRESSED, b"\x07\x00\xf1secret", b"\x03\x00\x00xy", "xy"),
    "a stream that does not decompress": (COMPRESSED, b"\x08\x00\x81\x06secret", b"\x03\x00\x00xy", "xy"),
}
LENGTH_BYTES = {"e": 0, "j": 4, "c": 2}
"""Before values of any length."""


def under(policy: Policy, described: Described) -> list[Described]:
    logged, column = described
    return [ID, (logged, replace(column, on_bad_value=policy)), LAST]


@pytest.mark.parametrize("case", VALUES)
def test_the_policy_of_the_column_decides(case: str) -> None:
    described, bad, fine, text = VALUES[case]
    name = described[1].name
    rows = [number(1), bad, b"\x01x"], [number(2), fine, b"\x01y"]

    def inserted(policy: Policy) -> Decoded:
        columns = under(policy, described)
        return Decoded(columns, INSERT, insert_of(columns, *(row(columns, *values) for values in rows)))

    with pytest.raises(BadValues, match=f"TM-CAP-020.*column {name}: a value is not written as type") as caught:
        inserted("stop")
    assert "secret" not in str(caught.value) and caught.value.key == b"1"
    expected = [{"id": 1, name: None, "last": "x"}, {"id": 2, name: text, "last": "y"}]
    nulled, kept = inserted("null"), inserted("quarantine")
    assert nulled.documents == kept.documents == expected
    assert "bad" not in nulled.metas[0] and kept.metas[0]["bad"] == {name: f"\\x{bad[LENGTH_BYTES[name] :].hex()}"}
    assert "bad" not in kept.metas[1]
    with pytest.raises(BadValues, match=f"column {name}"):
        inserted("text")  # It has no text either.


def test_a_hashed_column_shows_nothing_of_the_value() -> None:
    logged, column = ENUM
    columns = [ID, (logged, replace(column, salt=b"salt", on_bad_value="quarantine")), LAST]
    found = Decoded(columns, INSERT, insert_of(columns, row(columns, number(1), b"\x09", b"\x01x")))
    assert found.documents == [{"id": 1, "e": None, "last": "x"}]
    assert found.metas[0]["bad"] == {"e": "4 characters"}


def test_the_image_before_an_update_does_not_keep_it_apart() -> None:
    columns = under("quarantine", ENUM)
    bad, fine = row(columns, number(1), b"\x09", b"\x01x"), row(columns, number(1), b"\x02", b"\x01x")
    both = b"\x03" + bitmap(3, 7) * 2
    mended = Decoded(columns, UPDATE, both + bad + fine)
    assert mended.documents == [{"id": 1, "e": "b", "last": "x"}] and "bad" not in mended.metas[0]
    worse = Decoded(columns, UPDATE, both + fine + bad)
    assert worse.metas[0]["bad"] == {"e": "\\x09"}
    gone = Decoded(columns, DELETE, insert_of(columns, bad))
    assert gone.metas[0]["op"] == "d" and gone.documents[0]["id"] == 1


def test_a_key_that_cannot_be_read_sets_the_table_aside() -> None:
    logged, column = ENUM
    columns = [(logged, replace(column, nullable=False)), LAST]
    with pytest.raises(BadValues, match="column e: a value is not written as type enum"):
        Decoded(columns, INSERT, insert_of(columns, row(columns, b"\x09", b"\x01x")))


@pytest.mark.parametrize("damaged", ["the value", "the value before", "the change"])
def test_a_change_of_a_value_that_cannot_be_read_has_the_row_read_again(damaged: str) -> None:
    columns = [ID, (JSON[0], replace(JSON[1], on_bad_value="quarantine"))]
    before = NO_JSON if damaged == "the value before" else stored({"a": 1})
    change = b"\xff\xff\xff" if damaged == "the change" else json_change(0, "$.a", "new")
    value, is_changed = (NO_JSON, b"\x00") if damaged == "the value" else (change, b"\x01")
    after = b"\x01" + is_changed + row(columns[1:], long_value(value))
    head = b"\x02" + bitmap(2, 3) + bitmap(2, 2)
    found = Decoded(columns, PARTIAL_UPDATE, head + row(columns, number(1), long_value(before)) + after)
    (meta,) = found.metas
    if damaged == "the value":
        assert found.documents == [{"id": 1, "j": None}] and meta["bad"] == {"j": f"\\x{NO_JSON.hex()}"}
    else:
        assert found.documents == [{"id": 1}] and meta["unchanged"] == ["j"] and "bad" not in meta
        assert found.touched.incomplete() == [b"1"]
