"""TABLE_MAP events: which table's rows follow, and the types of their columns as the log has them.

Format: MySQL's ``Table_map_event``, with the optional metadata of ``binlog_row_metadata`` (MySQL 8.0, MariaDB 10.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidemark.captures.mysql.terms.event_bytes import lenenc

TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = range(1, 14)
NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2, TYPED_ARRAY = range(14, 21)
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR = 242
JSON, NEWDECIMAL, ENUM, SET, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = range(245, 256)

_NUMERIC = frozenset((TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, NEWDECIMAL, YEAR))
_STRINGS = frozenset((VARCHAR, VAR_STRING, STRING, BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB))
_TEXTS = _STRINGS | {VECTOR}
_MARIADB_TEXTS = _STRINGS | {BLOB_COMPRESSED, VARCHAR_COMPRESSED, GEOMETRY}
"""Types of which the event tells the character set, also where it is binary: those of each product."""

_LABELLED = frozenset((ENUM, SET))
_ONE_BYTE = frozenset(
    (FLOAT, DOUBLE, BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, JSON, GEOMETRY, VECTOR, BLOB_COMPRESSED)
) | {TIMESTAMP2, DATETIME2, TIME2}
_TWO_BYTES = frozenset((VARCHAR, VAR_STRING, VARCHAR_COMPRESSED))

_NAMES_AT = 8
"""Where the names begin: after the table's number and the flags."""

# Optional metadata, by its type.
_SIGNEDNESS, _DEFAULT_CHARSET, _COLUMN_CHARSET, _NAMES, _SET_LABELS, _ENUM_LABELS = range(1, 7)
_LABELS_DEFAULT_CHARSET, _LABELS_CHARSET, _VISIBILITY = 10, 11, 12


@dataclass(frozen=True, slots=True)
class LoggedColumn:
    """A column as the log's rows have it.

    Attributes:
        type: The real type (a STRING that is an enum is ``ENUM``).
        size: Bytes at most of a text or binary, bytes of an enum or set, bytes of the length of a blob, digits of a
            decimal, bits of a ``BIT``.
        scale: Digits after a decimal's point, or of a second.
        name, unsigned, charset, labels: From ``binlog_row_metadata``; None if the event lacks it. Labels
            are in the character set.
        nullable: It may hold NULL.
    """

    type: int
    size: int = 0
    scale: int = 0
    name: str | None = None
    unsigned: bool | None = None
    charset: str | None = None
    labels: tuple[bytes, ...] | None = None
    invisible: bool = False
    nullable: bool = True


CharsetOf = Callable[[int], str]
"""The character set of a collation, by the number that the server has for it."""


def read_table_name(body: bytes) -> tuple[str, str]:
    """Schema and table of the event's body. Raises ValueError or IndexError when it is not one."""
    schema, at = _name(body, _NAMES_AT)
    return schema, _name(body, at)[0]


def read_table_map(body: bytes, charset_of: CharsetOf, *, mariadb: bool) -> tuple[LoggedColumn, ...]:
    """The columns by the event's body. Raises ValueError or IndexError when it is not one, and as ``charset_of``."""
    _, at = _name(body, _NAMES_AT)
    _, at = _name(body, at)
    count, at = lenenc(body, at)
    types = body[at : at + count]
    size, at = lenenc(body, at + count)
    columns = list(_columns(types, body[at : at + size]))
    nulls = body[at + size : at + size + (count + 7) // 8]
    found = dict(_options(body, at + size + len(nulls)))
    described = _details(columns, found, charset_of, mariadb=mariadb)
    return tuple(replace(c, nullable=bool(nulls[i >> 3] >> (i & 7) & 1)) for i, c in enumerate(described))


def are_named(columns: Sequence[LoggedColumn]) -> bool:
    """Whether the event has the columns' names: ``binlog_row_metadata`` is FULL."""
    return bool(columns) and all(column.name is not None for column in columns)


def _name(body: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + body[at]
    return body[at + 1 : end].decode(), end + 1


def _columns(types: bytes, metadata: bytes) -> Iterator[tuple[int, int, int]]:
    """Real type, size and scale of each column."""
    at = 0
    for kind in types:
        if kind == NEWDECIMAL:
            yield kind, metadata[at], metadata[at + 1]
            at += 2
        elif kind == BIT:
            yield kind, metadata[at] + 8 * metadata[at + 1], 0
            at += 2
        elif kind == STRING:
            yield _string(metadata[at], metadata[at + 1])
            at += 2
        elif kind in _TWO_BYTES:
            yield kind, metadata[at] | metadata[at + 1] << 8, 0
            at += 2
        elif kind in (TIMESTAMP2, DATETIME2, TIME2):
            yield kind, 0, metadata[at]
            at += 1
        elif kind in _ONE_BYTE:
            yield kind, metadata[at], 0
            at += 1
        elif kind in _LABELLED:
            yield kind, metadata[at + 1], 0
            at += 2
        elif kind == TYPED_ARRAY:
            element = metadata[at]
            at += 1 + (3 if element in _TWO_BYTES else 2 if element in (NEWDECIMAL, STRING) else element in _ONE_BYTE)
            yield kind, 4, 0
        else:
            yield kind, 0, 0


def _string(first: int, second: int) -> tuple[int, int, int]:
    """A CHAR's metadata: the real type, whose bits 4 and 5 hold, inverted, the upper bits of a length over 255."""
    if first & 0x30 != 0x30:
        return first | 0x30, second | ((first & 0x30) ^ 0x30) << 4, 0
    return first, second, 0


def _options(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(body):
        kind = body[at]
        option, at = _sized(body, at + 1)
        yield kind, option


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Bytes after their length, and where they end."""
    size, start = lenenc(data, at)
    return data[start : start + size], start + size


def _details(
    columns: list[tuple[int, int, int]], options: dict[int, bytes], charset_of: CharsetOf, *, mariadb: bool
) -> Iterator[LoggedColumn]:
    texts = _MARIADB_TEXTS if mariadb else _TEXTS
    unsigned = _bits(options.get(_SIGNEDNESS))
    collations = _collations(
        options.get(_COLUMN_CHARSET), options.get(_DEFAULT_CHARSET), sum(kind in texts for kind, _, _ in columns)
    )
    label_collations = _collations(
        options.get(_LABELS_CHARSET),
        options.get(_LABELS_DEFAULT_CHARSET),
        sum(kind in _LABELLED for kind, _, _ in columns),
    )
    charsets, label_charsets = map(charset_of, collations), map(charset_of, label_collations)
    names = _strings(options.get(_NAMES))
    labels = {SET: _label_lists(options.get(_SET_LABELS)), ENUM: _label_lists(options.get(_ENUM_LABELS))}
    visible = _bits(options.get(_VISIBILITY))
    for kind, size, scale in columns:
        yield LoggedColumn(
            kind,
            size,
            scale,
            next(names, None),
            next(unsigned, None) if kind in _NUMERIC else None,
            next(charsets, None) if kind in texts else next(label_charsets, None) if kind in _LABELLED else None,
            next(labels[kind], None) if kind in _LABELLED else None,
            not next(visible, True),
        )


def _bits(data: bytes | None) -> Iterator[bool]:
    """The bits of a bitmap, the highest of each byte first."""
    for byte in data or b"":
        for shift in range(7, -1, -1):
            yield bool(byte >> shift & 1)


def _numbers(data: bytes | None) -> Iterator[int]:
    at = 0
    while data is not None and at < len(data):
        number, at = lenenc(data, at)
        yield number


def _strings(data: bytes | None) -> Iterator[str]:
    at = 0
    while data is not None and at < len(data):
        text, at = _sized(data, at)
        yield text.decode()


def _label_lists(data: bytes | None) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while data is not None and at < len(data):
        count, at = lenenc(data, at)
        labels = []
        for _ in range(count):
            label, at = _sized(data, at)
            labels.append(label)
        yield tuple(labels)


def _collations(each: bytes | None, default: bytes | None, count: int) -> Iterator[int]:
    """The collation of each of ``count`` columns, by number: listed, or a default and its exceptions."""
    if each is not None:
        yield from _numbers(each)
    elif default is not None:
        numbers = list(_numbers(default))
        others = dict(zip(numbers[1::2], numbers[2::2], strict=True))
        for place in range(count):
            yield others.get(place, numbers[0])
