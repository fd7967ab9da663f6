"""TABLE_MAP events of MySQL, built byte by byte: every type's metadata, and the optional metadata."""

from __future__ import annotations

import struct

from tidemark.captures.mysql.rows import table_map
from tidemark.captures.mysql.rows.table_map import LoggedColumn, are_named, read_table_map, read_table_name

TYPES: list[tuple[int, bytes, LoggedColumn]] = [
    (1, b"", LoggedColumn(table_map.TINY)),
    (3, b"", LoggedColumn(table_map.LONG)),
    (4, b"\x04", LoggedColumn(table_map.FLOAT, 4)),
    (5, b"\x08", LoggedColumn(table_map.DOUBLE, 8)),
    (7, b"", LoggedColumn(table_map.TIMESTAMP)),
    (8, b"", LoggedColumn(table_map.LONGLONG)),
    (10, b"", LoggedColumn(table_map.DATE)),
    (13, b"", LoggedColumn(table_map.YEAR)),
    (15, b"\x2c\x01", LoggedColumn(table_map.VARCHAR, 300)),
    (16, b"\x01\x02", LoggedColumn(table_map.BIT, 17)),
    (17, b"\x06", LoggedColumn(table_map.TIMESTAMP2, 0, 6)),
    (18, b"\x00", LoggedColumn(table_map.DATETIME2, 0, 0)),
    (19, b"\x03", LoggedColumn(table_map.TIME2, 0, 3)),
    (20, b"\x03", LoggedColumn(table_map.TYPED_ARRAY, 4)),
    (20, b"\x0f\x2c\x01\x00", LoggedColumn(table_map.TYPED_ARRAY, 4)),
    (242, b"\x04", LoggedColumn(table_map.VECTOR, 4)),
    (245, b"\x04", LoggedColumn(table_map.JSON, 4)),
    (246, b"\x0a\x02", LoggedColumn(table_map.NEWDECIMAL, 10, 2)),
    (252, b"\x03", LoggedColumn(table_map.BLOB, 3)),
    (254, b"\xf7\x01", LoggedColumn(table_map.ENUM, 1)),
    (254, b"\xf8\x08", LoggedColumn(table_map.SET, 8)),
    (254, b"\xfe\x14", LoggedColumn(table_map.STRING, 20)),
    # 1020 bytes: bits 4 and 5 of the type hold the length's upper ones, inverted.
    (254, b"\xce\xfc", LoggedColumn(table_map.STRING, 1020)),
    (255, b"\x04", LoggedColumn(table_map.GEOMETRY, 4)),
]


CHARSETS = {8: "latin1", 28: "gbk", 63: "binary", 255: "utf8mb4"}


def option(kind: int, data: bytes) -> bytes:
    size = bytes([len(data)]) if len(data) < 251 else b"\xfc" + struct.pack("<H", len(data))
    return bytes([kind]) + size + data


def table_map_body(types: list[tuple[int, bytes]], options: bytes = b"", table: bytes = b"t") -> bytes:
    metadata = b"".join(data for _, data in types)
    count = len(types)
    counted = bytes([count]) if count < 251 else b"\xfc" + struct.pack("<H", count)
    sized = bytes([len(metadata)]) if len(metadata) < 251 else b"\xfc" + struct.pack("<H", len(metadata))
    head = b"\x2a\0\0\0\0\0\x01\0" + b"\x04shop\0" + bytes([len(table)]) + table + b"\0"
    return head + counted + bytes(kind for kind, _ in types) + sized + metadata + b"\xff" * ((count + 7) // 8) + options


def strings(*texts: str) -> bytes:
    return b"".join(bytes([len(text.encode())]) + text.encode() for text in texts)


def test_every_type() -> None:
    body = table_map_body([(kind, data) for kind, data, _ in TYPES])
    found = read_table_map(body, CHARSETS.__getitem__, mariadb=False)
    assert not are_named(found)
    assert list(found) == [column for _, _, column in TYPES]


def test_optional_metadata() -> None:
    types = [
        (3, b""),  # id INT UNSIGNED
        (13, b""),  # y YEAR, which is always unsigned
        (15, b"\x28\x00"),  # v VARCHAR(10)
        (246, b"\x0a\x02"),  # d DECIMAL(10, 2)
        (254, b"\xf7\x01"),  # e ENUM
        (255, b"\x04"),  # g GEOMETRY, which has no character set on MySQL
        (254, b"\xf8\x01"),  # s SET
        (252, b"\x02"),  # b BLOB
        (254, b"\xfe\x28"),  # c CHAR(10), invisible
        (8, b""),  # n BIGINT UNSIGNED
    ]
    names = ("id", "y", "v", "d", "e", "g", "s", "b", "ü", "n")
    options = (
        option(1, b"\xd0")  # id and y unsigned, d signed, n unsigned
        + option(2, b"\xfc\xff\x00\x01\x3f")  # utf8mb4 but for the second text, which is binary
        + option(4, strings(*names))
        + option(5, b"\x02" + strings("a", "b"))
        + option(6, b"\x02" + strings("x", "it's"))
        + option(7, b"\x01")
        + option(8, b"\x00")
        + option(12, b"\xff\x40")
        + option(99, b"of a later version")
    )
    found = read_table_map(table_map_body(types, options), CHARSETS.__getitem__, mariadb=False)
    assert are_named(found) and tuple(column.name for column in found) == names
    assert [column.unsigned for column in found] == [True, True, None, False, *[None] * 5, True]
    assert [column.charset for column in found if column.charset] == ["utf8mb4", "binary", "utf8mb4"]
    assert [column.labels for column in found if column.labels] == [(b"x", b"it's"), (b"a", b"b")]
    assert [column.name for column in found if column.invisible] == ["ü"]
    single = read_table_map(table_map_body(types, option(3, b"\x08\x3f\x1c")), CHARSETS.__getitem__, mariadb=False)
    assert [column.charset for column in single if column.charset] == ["latin1", "binary", "gbk"]


def test_vectors_have_a_character_set() -> None:
    """MySQL counts them among the texts: what comes behind one has the next character set."""
    types = [(3, b""), (252, b"\x02"), (242, b"\x04"), (252, b"\x02"), (15, b"\x28\x00")]
    names = option(4, strings("id", "before", "vector", "behind", "last"))
    for charsets in (option(3, b"\x08\x3f\xfc\xff\x00\x1c"), option(2, b"\x08\x01\x3f\x02\xfc\xff\x00\x03\x1c")):
        found = read_table_map(table_map_body(types, names + charsets), CHARSETS.__getitem__, mariadb=False)
        assert [column.charset for column in found] == [None, "latin1", "binary", "utf8mb4", "gbk"]


def test_the_name_alone() -> None:
    assert read_table_name(table_map_body([(3, b"")], table="tä".encode())) == ("shop", "tä")


def test_many_columns() -> None:
    found = read_table_map(
        table_map_body([(3, b"")] * 4096, option(4, strings(*(f"c{n}" for n in range(20))))),
        CHARSETS.__getitem__,
        mariadb=False,
    )
    assert len(found) == 4096 and not are_named(found)
