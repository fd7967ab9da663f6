"""Row images built byte by byte: what no server here writes, and what must not pass for a row."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.captures.mysql.binary_json import stored
from tidemark.backfill.keys import TouchedKeys
from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.log_decoder import DELETE, INSERT, PARTIAL_UPDATE, UPDATE, RowDecoder
from tidemark.captures.mysql.rows.row_images import DecodedTable
from tidemark.captures.mysql.rows.row_loops import Sink
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values.binary_values import decimal_bytes, decimal_reader, time_text
from tidemark.captures.mysql.values.json_values import single_of
from tidemark.protocol.errors import SourceError

ID = (LoggedColumn(table_map.LONG), Column("id", "int", nullable=False))
JSON = (LoggedColumn(table_map.JSON, 4), Column("j", "json", json=True))

Described = tuple[LoggedColumn, Column]


class Decoded:
    """The documents and keys of one event."""

    def __init__(self, columns: list[Described], kind: str, body: bytes) -> None:
        described = [column for _, column in columns]
        table = DecodedTable(tuple(logged for logged, _ in columns), tuple(described), (0,), (described[0],))
        sink = Sink([], TouchedKeys(), [])
        data = b"before" + body + b"after"
        self.next_row = RowDecoder(0, table, "shop.t").decode(
            kind, data, data.decode("latin-1"), 6, 6 + len(body), ('{"cursor":"', '"}'), 0, sink
        )
        lines = b"".join(sink.lines).splitlines()
        self.documents: list[dict[str, Any]] = [orjson.loads(line)["captured"]["doc"] for line in lines]
        self.metas = [document.pop("_meta") for document in self.documents]
        assert sink.touched is not None
        self.touched = sink.touched


def bitmap(count: int, bits: int, *, fill: bool = True) -> bytes:
    """``bits`` of ``count``; the bits that are not used are set, as servers set them."""
    size = (count + 7) // 8
    unused = ((1 << 8 * size) - 1) & ~((1 << count) - 1) if fill else 0
    return (bits | unused).to_bytes(size, "little")


def insert_of(columns: list[Described], *images: bytes) -> bytes:
    count = len(columns)
    counted = bytes([count]) if count < 251 else b"\xfc" + struct.pack("<H", count)
    return counted + bitmap(count, (1 << count) - 1) + b"".join(images)


def row(columns: list[Described], *values: bytes | None) -> bytes:
    nulls = sum(1 << place for place, value in enumerate(values) if value is None)
    return bitmap(len(columns), nulls) + b"".join(value for value in values if value is not None)


def number(value: int) -> bytes:
    return struct.pack("<i", value)


def long_value(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def test_4096_columns_and_unused_bits() -> None:
    columns = [(LoggedColumn(table_map.TINY), Column(f"c{n}", "tinyint")) for n in range(4095)]
    values: list[bytes | None] = [bytes([n % 100]) if n % 3 == 0 else None for n in range(4095)]
    body = insert_of(columns, row(columns, *values), row(columns, *([b"\x01"] * 4095)))
    found = Decoded(columns, INSERT, body)
    assert found.documents[0] == {f"c{n}": n % 100 if n % 3 == 0 else None for n in range(4095)}
    assert set(found.documents[1].values()) == {1}
    assert found.next_row == 2


def test_types_that_only_mysql_or_old_tables_have() -> None:
    columns = [
        ID,
        JSON,
        (LoggedColumn(table_map.VECTOR, 4), Column("v", "vector")),
        (LoggedColumn(table_map.TIMESTAMP), Column("ts", "timestamp")),
        (LoggedColumn(table_map.DATETIME), Column("dt", "datetime")),
        (LoggedColumn(table_map.TIME), Column("ti", "time")),
        (LoggedColumn(table_map.BLOB, 3), Column("m", "mediumtext", charset="utf8mb4")),
    ]
    values = [
        number(7),
        long_value(stored({"a": [1.0, "ü"]})),
        long_value(struct.pack("<3f", 0.1, -2, 1e10)),
        struct.pack("<I", 1_700_000_000),
        struct.pack("<Q", 20240229235958),
        (-8385959).to_bytes(3, "little", signed=True),
        (70_000).to_bytes(3, "little") + b"x" * 70_000,
    ]
    found = Decoded(columns, INSERT, insert_of(columns, row(columns, *values)))
    assert found.documents == [
        {
            "id": 7,
            "j": {"a": [1.0, "ü"]},
            "v": [0.1, -2.0, 1e10],
            "ts": "2023-11-14T22:13:20Z",
            "dt": "2024-02-29T23:59:58",
            "ti": "-838:59:59",
            "m": "x" * 70_000,
        }
    ]


def json_change(operation: int, path: str, value: Any = None) -> bytes:
    out = bytes([operation, len(path)]) + path.encode()
    if value is not None:
        data = stored(value)
        out += bytes([len(data)]) + data
    return out


def test_partial_updates_of_json() -> None:
    other = (LoggedColumn(table_map.JSON, 4), Column("k", "json", json=True))
    columns = [ID, JSON, other]
    before = row(columns, number(1), long_value(stored({"a": 1, "b": [1, 2]})), long_value(stored([0])))
    # Value options: 1, some columns have changes; then a bit for each JSON column.
    changes = json_change(0, "$.a", "new") + json_change(2, "$.b[0]")
    after = b"\x01\x01" + row(columns, number(1), long_value(changes), long_value(stored([1])))
    plain = b"\x00" + row(columns, number(1), long_value(stored(None)), None)
    body = b"\x03" + bitmap(3, 7) * 2 + before + after + before + plain
    found = Decoded(columns, PARTIAL_UPDATE, body)
    assert found.documents == [{"id": 1, "j": {"a": "new", "b": [2]}, "k": [1]}, {"id": 1, "j": None, "k": None}]
    assert found.metas[0]["before"] == {"id": 1, "j": {"a": 1, "b": [1, 2]}, "k": [0]}
    assert [meta["op"] for meta in found.metas] == ["u", "u"]
    assert not found.touched.partial(b"1")


def test_columns_of_json_that_are_not_in_the_log_have_a_bit_too() -> None:
    columns = [ID, *[(JSON[0], Column(f"j{place}", "json", json=True)) for place in range(9)]]
    before = row([columns[0], columns[9]], number(1), long_value(stored({"a": 1})))
    after = b"\x01\x00\x01" + row(columns[9:], long_value(json_change(0, "$.a", "new")))
    head = b"\x0a" + bitmap(10, 1 | 1 << 9) + bitmap(10, 1 << 9)
    found = Decoded(columns, PARTIAL_UPDATE, head + before + after)
    assert found.documents == [{"id": 1, "j8": {"a": "new"}}]
    assert found.metas[0]["unchanged"] == [f"j{place}" for place in range(8)]


def test_a_row_whose_value_changed_and_is_not_in_the_log_is_read_again() -> None:
    columns = [ID, JSON]
    before = row(columns[:1], number(1))
    after = b"\x01\x01" + row(columns[1:], long_value(json_change(0, "$.a", "new")))
    found = Decoded(columns, PARTIAL_UPDATE, b"\x02" + bitmap(2, 1) + bitmap(2, 2) + before + after)
    assert found.documents == [{"id": 1}]
    assert found.metas[0]["unchanged"] == ["j"] and found.touched.incomplete() == [b"1"]
    unchanged = row(columns[:1], number(1)) + b"\x00" + row([])
    found = Decoded(columns, PARTIAL_UPDATE, b"\x02" + bitmap(2, 1) + bitmap(2, 0) + unchanged)
    assert found.metas[0]["unchanged"] == ["j"] and found.touched.partials() == [b"1"]
    assert not found.touched.incomplete()


def test_a_change_of_the_key_is_a_delete_and_a_create() -> None:
    columns = [ID, (LoggedColumn(table_map.TINY), Column("v", "tinyint"))]
    body = b"\x02" + bitmap(2, 3) * 2 + row(columns, number(1), b"\x05") + row(columns, number(2), None)
    found = Decoded(columns, UPDATE, body)
    assert [meta["op"] for meta in found.metas] == ["d", "c"]
    assert found.documents == [{"id": 1, "v": 5}, {"id": 2, "v": None}]
    assert b"1" in found.touched and b"2" in found.touched


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\x03\x07\x00", "TM-MY-058"),  # three columns where there are two
        (b"\x02\x03\x00\x01\x00\x00", "TM-MY-058"),  # a row that ends in the middle
        (b"\x02\x03\x01\x05\x05ab", "TM-MY-047"),  # no key
        (b"\x02\x03\x00" + number(1) + b"\x02\xff\xff", "TM-CAP-020"),  # not text of its character set
    ],
)
def test_what_is_not_a_row_is_an_error_without_values(body: bytes, code: str) -> None:
    columns = [ID, (LoggedColumn(table_map.VARCHAR, 40), Column("secret", "varchar", charset="gb18030", length=10))]
    with pytest.raises(SourceError) as caught:
        Decoded(columns, INSERT, body)
    assert caught.value.code == code
    assert "shop.t" in caught.value.message and "\xff" not in caught.value.message
    if code == "TM-CAP-020":
        assert "column secret" in caught.value.message


def test_a_row_without_its_key_is_an_error() -> None:
    columns = [ID, (LoggedColumn(table_map.TINY), Column("v", "tinyint"))]
    with pytest.raises(SourceError) as caught:
        Decoded(columns, DELETE, b"\x02" + bitmap(2, 2) + bitmap(1, 0) + b"\x01")
    assert caught.value.code == "TM-MY-047"


def encoded_decimal(digits: str, negative: bool, precision: int, scale: int) -> bytes:
    """By ``decimal2bin``: groups of nine digits, what is left over in as few bytes as it needs."""
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    whole, part = digits[: precision - scale], digits[precision - scale :]
    groups = [whole[: len(whole) % 9]] if len(whole) % 9 else []
    groups += [whole[at : at + 9] for at in range(len(whole) % 9, len(whole), 9)]
    groups += [part[at : at + 9] for at in range(0, len(part), 9)]
    data = bytearray(b"".join(int(group).to_bytes(sizes[len(group)], "big") for group in groups))
    if negative:
        data = bytearray(byte ^ 0xFF for byte in data)
    data[0] ^= 0x80
    return bytes(data)


@given(st.data())
def test_decimals_of_every_size(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(30, precision)))
    digits = "".join(data.draw(st.lists(st.sampled_from("0123456789"), min_size=precision, max_size=precision)))
    negative = data.draw(st.booleans()) and digits.strip("0") != ""
    encoded = encoded_decimal(digits, negative, precision, scale)
    assert len(encoded) == decimal_bytes(precision, scale)
    whole = digits[: precision - scale].lstrip("0") or "0"
    expected = f"{'-' if negative else ''}{whole}" + (f".{digits[precision - scale :]}" if scale else "")
    assert decimal_reader(precision, scale)(encoded) == expected
    column = (
        LoggedColumn(table_map.NEWDECIMAL, precision, scale),
        Column("d", "decimal", precision=precision, scale=scale),
    )
    found = Decoded([column], INSERT, insert_of([column], row([column], encoded)))
    assert found.documents == [{"d": expected}] and Decimal(expected) == Decimal(found.documents[0]["d"])
    assert expected.encode() in found.touched


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_floats_have_the_fewest_digits(value: float) -> None:
    text = single_of(value)
    assert struct.pack("<f", float(text)) == struct.pack("<f", value)
    digits = len(Decimal(text).normalize().as_tuple().digits)
    shorter = float(f"{value:.{digits - 1}g}") if digits > 1 else 0.0
    largest = 2.0**128 - 2.0**104
    assert value == 0 or abs(shorter) > largest or struct.pack("<f", shorter) != struct.pack("<f", value)


@given(st.integers(-838 * 3600, 838 * 3600), st.integers(0, 999_999), st.integers(0, 6))
def test_times_of_every_precision(seconds: int, micro: int, digits: int) -> None:
    size = (digits + 1) // 2
    micro -= micro % 10 ** (6 - digits)
    negative, seconds = seconds < 0, abs(seconds)
    packed = seconds // 3600 << 12 | seconds // 60 % 60 << 6 | seconds % 60
    packed = packed << 8 * size | micro // 100 ** (3 - size)
    packed = (1 << 23 + 8 * size) + (-packed if negative else packed)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    text += f".{micro:06d}"[: digits + 1] if digits else ""
    sign = "-" if negative and (seconds or micro) else ""
    assert time_text(packed.to_bytes(3 + size, "big"), digits) == sign + text


@given(st.datetimes(), st.integers(0, 6))
def test_datetimes_of_every_precision(moment: Any, digits: int) -> None:
    size = (digits + 1) // 2
    micro = moment.microsecond - moment.microsecond % 10 ** (6 - digits)
    date = (moment.year * 13 + moment.month) << 5 | moment.day
    packed = date << 17 | moment.hour << 12 | moment.minute << 6 | moment.second
    packed = (packed | 1 << 39) << 8 * size | micro // 100 ** (3 - size)
    column = (LoggedColumn(table_map.DATETIME2, 0, digits), Column("d", "datetime", fraction=digits))
    found = Decoded([column], INSERT, insert_of([column], row([column], packed.to_bytes(5 + size, "big"))))
    text = moment.replace(microsecond=0).isoformat() + (f".{micro:06d}"[: digits + 1] if digits else "")
    assert found.documents == [{"d": text}]
    assert text.replace("T", " ").encode() in found.touched
