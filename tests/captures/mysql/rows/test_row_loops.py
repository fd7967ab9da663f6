"""The generated loops write what the readers of single images read."""

from __future__ import annotations

import struct
import tracemalloc

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.backfill.keys import TouchedKeys
from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.log_decoder import INSERT, UPDATE, RowDecoder
from tidemark.captures.mysql.rows.row_images import DecodedTable, Image
from tidemark.captures.mysql.rows.row_loops import Sink, updates_loop
from tidemark.captures.mysql.rows.table_map import LoggedColumn
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.terms.event_bytes import LARGE_BYTES, byte_text

Case = tuple[LoggedColumn, Column, list[bytes]]


def short_text(*texts: str | bytes) -> list[bytes]:
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    return [bytes([len(text)]) + text for text in encoded]


def long_text(*texts: str) -> list[bytes]:
    return [struct.pack("<I", len(text.encode())) + text.encode() for text in texts]


CASES: list[Case] = [
    (
        LoggedColumn(table_map.INT24),
        Column("id", "mediumint", nullable=False),
        [b"\x01\0\0", b"\x02\0\x01", b"\0\0\xff"],
    ),
    (
        LoggedColumn(table_map.NEWDECIMAL, 12, 2),
        Column("price", "decimal", precision=12, scale=2),
        [b"\x80\0\0\0\x05\x07", b"\x89\x3b\x9a\xc9\xff\x63", b"\x7f\xff\xff\xff\xfa\xf8"],
    ),
    (
        LoggedColumn(table_map.NEWDECIMAL, 10, 5),
        Column("rate", "decimal", precision=10, scale=5),
        [b"\x80\0\x01\0\0\x07", b"\x7e\x79\x60\xfe\x79\x60", b"\x81\x86\x9f\x01\x86\x9f"],
    ),
    (
        LoggedColumn(table_map.DATETIME2, 0, 0),
        Column("at", "datetime", on_bad_value="text"),
        [b"\x80\0\0\0\0", b"\x99\xb2\x9e\xe7\x9e"],
    ),
    (
        LoggedColumn(table_map.DATETIME2, 0, 3),
        Column("moment", "datetime", fraction=3, on_bad_value="text"),
        [b"\x99\xb2\x9e\xe7\x9e\x04\xd2", b"\x99\xb2\x9f\x7e\xfb\0\0"],
    ),
    (
        LoggedColumn(table_map.TIMESTAMP2, 0, 6),
        Column("updated", "timestamp", fraction=6, on_bad_value="text"),
        [b"\0\0\0\0\0\0\0", b"\0\0\0\0\0\0\x01", b"\x65\x92\0\x80\x0f\x42\x3f"],
    ),
    (
        LoggedColumn(table_map.DOUBLE),
        Column("weight", "double"),
        [struct.pack("<d", v) for v in (0.0, -0.0, 1 / 3, 1e22)],
    ),
    (LoggedColumn(table_map.FLOAT), Column("part", "float"), [struct.pack("<f", v) for v in (0.0, -0.0, 0.1)]),
    (
        LoggedColumn(table_map.VARCHAR, 40),
        Column("note", "varchar", charset="latin1"),
        short_text("é", b"\xe9", "", 'a "quoted" one'),
    ),
    (
        LoggedColumn(table_map.BLOB, 4),
        Column("data", "longtext", json=True),
        long_text('{"a": 1}', "[1,\n2]", "", '"é"'),
    ),
    (LoggedColumn(table_map.SET, 1), Column("tags", "set", labels=("a", "b")), [b"\x01", b"\x03", b"\0"]),
]

TABLE = DecodedTable(
    tuple(logged for logged, _, _ in CASES),
    tuple(column for _, column, _ in CASES),
    (0, 8),
    (CASES[0][1], CASES[8][1]),
)

Values = list[bytes | None]
ROWS = st.tuples(
    *(
        st.sampled_from([*values, *([None] if place not in TABLE.key else [])])
        for place, (_, _, values) in enumerate(CASES)
    )
)


def image_of(values: tuple[bytes | None, ...]) -> bytes:
    nulls = sum(1 << place for place, value in enumerate(values) if value is None) | 0xF800
    return nulls.to_bytes(2, "little") + b"".join(value for value in values if value is not None)


def decode(kind: str, images: list[tuple[bytes | None, ...]]) -> tuple[list[str], dict[bytes, bool]]:
    """Lines without what is the same in all, and the keys that were touched."""
    bitmaps = b"\xff\xff" * (2 if kind == UPDATE else 1)
    body = bytes([len(CASES)]) + bitmaps + b"".join(map(image_of, images))
    sink = Sink([], TouchedKeys(), [])
    rows = RowDecoder(0, TABLE, "shop.t").decode(
        kind, body, body.decode("latin-1"), 0, len(body), ('{"cursor":"f:4:', '"}'), 7, sink
    )
    lines = b"".join(sink.lines).decode("latin-1").split("\n")[:-1]
    assert rows == 7 + len(lines)
    for line in lines:
        orjson.loads(line.encode("latin-1"))
    assert sink.touched is not None
    return lines, dict.fromkeys(sink.touched._keys, True)


def read(values: tuple[bytes | None, ...]) -> tuple[str, bytes]:
    """Members and key of one image, read column by column."""
    data = image_of(values)
    members, key, end = Image(TABLE, range(len(CASES))).read(data, data.decode("latin-1"), 0)
    assert end == len(data)
    return members, key.encode("latin-1")


@given(st.lists(ROWS, min_size=1, max_size=3))
def test_inserts(rows: list[tuple[bytes | None, ...]]) -> None:
    lines, keys = decode(INSERT, rows)
    expected = [read(row) for row in rows]
    assert [line.partition('"source":')[2] for line in lines] == [
        f'{{"cursor":"f:4:{7 + number}"}}}}{members}}}}}}}' for number, (members, _) in enumerate(expected)
    ]
    assert set(keys) == {key for _, key in expected}


@given(st.lists(st.tuples(ROWS, ROWS, st.booleans()), min_size=1, max_size=3))
def test_updates(pairs: list[tuple[tuple[bytes | None, ...], tuple[bytes | None, ...], bool]]) -> None:
    images: list[tuple[bytes | None, ...]] = []
    expected: list[str] = []
    touched: set[bytes] = set()
    for before, after, same_key in pairs:
        number = 7 + len(expected)
        if same_key:
            after = tuple(before[place] if place in TABLE.key else value for place, value in enumerate(after))
        images += [before, after]
        (old, old_key), (new, key) = read(before), read(after)
        touched |= {old_key, key}
        if key == old_key:
            expected.append(f'u{{"cursor":"f:4:{number}"}},"before":{{{old[1:]}}}}}{new}')
        else:
            expected += [f'd{{"cursor":"f:4:{number}"}}}}{old}', f'c{{"cursor":"f:4:{number + 1}"}}}}{new}']
    lines, keys = decode(UPDATE, images)
    found = [line.partition('"op":"')[2].replace('","source":', "", 1).removesuffix("}}}") for line in lines]
    assert found == expected
    assert set(keys) == touched


def test_large_values_are_in_memory_twice() -> None:
    """Besides the event: the values and their line, or the line and its bytes."""
    note = Column("note", "longtext", charset="latin1")
    table = DecodedTable((TABLE.logged[0], LoggedColumn(table_map.BLOB, 4)), (CASES[0][1], note), (0,), (CASES[0][1],))
    old, new = "a" * (LARGE_BYTES // 2), "b" * (LARGE_BYTES // 2)
    images = (b"\0\x01\0\0" + long_text(text)[0] for text in (old, new))
    body = b"\2\xff\xff" + b"".join(images)
    sink, decoder = Sink([], TouchedKeys(), []), RowDecoder(0, table, "shop.t")
    tracemalloc.start()
    try:
        decoder.decode(UPDATE, body, byte_text(body), 0, len(body), ('{"cursor":"f:4:', '"}'), 7, sink)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    document = orjson.loads(b"".join(sink.lines))["captured"]["doc"]
    assert document == {**document, "id": 1, "note": new}
    assert document["_meta"]["before"] == {"id": 1, "note": old}
    assert peak < 2.1 * len(body)


def test_a_key_of_floats_has_no_loop() -> None:
    table = DecodedTable(TABLE.logged, TABLE.columns, (6,), (CASES[6][1],))
    image = Image(table, range(len(CASES)))

    def other(*_: object) -> int:
        pytest.fail("nothing is read here")

    assert updates_loop(image, "", other) is None
    assert updates_loop(Image(TABLE, range(len(CASES))), "", other) is not None
