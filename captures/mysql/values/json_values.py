"""How one value becomes JSON. Chunks and log share these functions, so that a value reads the same from both.

Texts are *byte texts*: ``str`` with one character per byte of the UTF-8 (decoded as Latin-1). JSON's syntax is ASCII,
so nothing here has to look at other characters; they pass through and are encoded back as the bytes they were.

Numbers, dates and times come as the text that the server prints, with ``time_zone`` ``+00:00``: a chunk has that text
already, the log's decoder writes it from the binary form. Binary types come as their bytes, each a character.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from calendar import monthrange
from collections.abc import Callable
from json import loads
from json.encoder import encode_basestring
from typing import TypeVar

import msgspec

from tidemark.captures.tables.bad_values import BadValue, check_nesting

Convert = Callable[[str], str]
"""A byte text to JSON. Raises ValueError, LookupError or struct.error, which may hold the value: never show it."""

string: Convert = encode_basestring
"""A JSON string. The C implementation; escapes ``"``, the backslash and U+0000 to U+001F, passes others through."""

_FLOAT32 = struct.Struct("<f")
_LEAST_NORMAL = 2.0**-126

# Line breaks stand only between a JSON text's tokens: inside its strings they are escaped.
LINE_BREAKS = str.maketrans("\n\r", "  ")
walk_json: Callable[[str], object] = msgspec.json.Decoder(msgspec.Raw).decode
"""Raises msgspec.DecodeError for what is no JSON."""

_double: Callable[[float], bytes] = msgspec.json.Encoder().encode


def verbatim(text: str) -> str:
    """What the server prints as JSON does: integers."""
    return text


def quoted(text: str) -> str:
    """A string without anything to escape: decimals, dates, times."""
    return f'"{text}"'


def source_text(value: str) -> str:
    """A value's JSON as the text that the source has: JSON escapes some characters of a string."""
    text: str = loads(value) if value.startswith('"') else value
    return text


def boolean(text: str) -> str:
    """A number as a truth value: whatever is not 0 is true, as in the server's own conditions."""
    return "false" if text == "0" else "true"


def moment(day: str, clock: str, *, utc: bool) -> str:
    """How a datetime or a timestamp is written, without quotes: ISO 8601. Also of source that makes the two parts."""
    return f"{day}T{clock}Z" if utc else f"{day}T{clock}"


def date(text: str) -> str:
    """A string. Raises BadValue for a day that is none of the years 1 to 9999, as zero dates are."""
    return f'"{CALENDAR[text]}"'


def _day(text: str) -> str:
    bad: BadDay
    try:
        return CALENDAR[text[:10]]
    except BadDay as error:
        bad = error
    raise bad.with_clock(len(text[20:]))


def _moments(day: Convert, *, utc: bool) -> Convert:
    return lambda text: quoted(moment(day(text), text[11:], utc=utc))


datetime, timestamp = _moments(_day, utc=False), _moments(_day, utc=True)
"""Strings in ISO 8601 from ``2024-01-15 14:30:00.123456``, without a zone, or from UTC. Raise BadValue as ``date``."""
datetime_text, timestamp_text = (_moments(lambda text: text[:10], utc=utc) for utc in (False, True))
"""The same of any: zero parts stay as they are."""


def double(text: str) -> str:
    """The shortest number that is the same double. The server has neither NaN nor infinities."""
    return _double(float(text)).decode()


def double_of(value: float) -> str:
    """The same of a double: msgspec finds the digits several times faster than ``repr``."""
    return _double(value).decode()


def single(text: str) -> str:
    """The shortest number that is the same float of 32 bits, from any text of it as a double."""
    return single_of(float(text))


def single_of(value: float) -> str:
    """The shortest number that is the same float of 32 bits as ``value``, which is one."""
    wanted = _FLOAT32.pack(value)
    # Any six digits come back from a float, but for those that are so small that they have fewer bits.
    for digits in (6, 7, 8) if not 0 < abs(value) < _LEAST_NORMAL else range(1, 9):
        text = f"{value:.{digits}g}"
        if _FLOAT32.pack(float(text)) == wanted:
            return repr(float(text))
    return repr(float(f"{value:.9g}"))


def binary(text: str) -> str:
    """A string in base64."""
    return f'"{b2a_base64(text.encode("latin-1"), newline=False).decode("ascii")}"'


def json(text: str) -> str:
    """The JSON itself, on one line, as it was stored but for line breaks. Raises BadValue for what is no JSON to
    parsers.

    Walks over it: MariaDB's JSON is a text, and its check on it can be switched off. MySQL prints what a column that
    was added NOT NULL gave to the rows before as nothing or as ``null``, which is the same.
    """
    if not text:
        return "null"
    check_nesting(text)
    if "\n" in text or "\r" in text:
        text = text.translate(LINE_BREAKS)
    try:
        walk_json(text)
    except msgspec.DecodeError:
        raise BadValue("a text that is not JSON") from None
    return text


def vector(text: str) -> str:
    """An array of numbers, from floats of 32 bits, little-endian."""
    data = text.encode("latin-1")
    return f"[{','.join(map(single_of, struct.unpack(f'<{len(data) // 4}f', data)))}]"


# Geometries: four bytes of SRID and then well-known binary, to well-known text (OGC 06-103r4, 8.2 and 7).
_SRID_BYTES = 4
_NAMES = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}
_POINT, _LINESTRING, _POLYGON, _COLLECTION = 1, 2, 3, 7


def geometry(text: str) -> str:
    """A string in well-known text. Coordinates stay as they are stored, x before y; MySQL's own ``ST_AsText`` swaps
    them for some reference systems.
    """
    data = text.encode("latin-1")
    reader = _Geometry(data, _SRID_BYTES)
    written = reader.tagged()
    if reader.place != len(data):
        raise ValueError("bytes after the geometry")
    return f'"{written}"'


class _Geometry:
    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self.place = place

    def tagged(self) -> str:
        """A geometry with its name."""
        order, kind = self._header()
        return f"{_NAMES[kind]}{self._body(order, kind)}"

    def _header(self) -> tuple[str, int]:
        order = "<" if self._data[self.place] else ">"
        (kind,) = struct.unpack_from(f"{order}I", self._data, self.place + 1)
        if kind not in _NAMES:
            raise ValueError("an unknown kind of geometry")
        self.place += 5
        return order, kind

    def _body(self, order: str, kind: int) -> str:
        if kind == _POINT:
            return f"({self._points(order, 1)})"
        (count,) = struct.unpack_from(f"{order}I", self._data, self.place)
        self.place += 4
        if kind == _LINESTRING:
            return f"({self._points(order, count)})" if count else " EMPTY"
        if kind == _POLYGON:
            parts = [self._ring(order) for _ in range(count)]
        elif kind == _COLLECTION:
            parts = [self.tagged() for _ in range(count)]
        else:
            parts = [self._body(*self._header()) for _ in range(count)]
        return f"({','.join(parts)})" if parts else " EMPTY"

    def _ring(self, order: str) -> str:
        (count,) = struct.unpack_from(f"{order}I", self._data, self.place)
        self.place += 4
        return f"({self._points(order, count)})"

    def _points(self, order: str, count: int) -> str:
        values = struct.unpack_from(f"{order}{2 * count}d", self._data, self.place)
        self.place += 16 * count
        numbers = [repr(value + 0.0).removesuffix(".0") for value in values]
        return ",".join(f"{x} {y}" for x, y in zip(numbers[::2], numbers[1::2], strict=True))


K = TypeVar("K")
V = TypeVar("V")

_REMEMBERED = 100_000
"""Results that are remembered before all are forgotten."""

_MIDNIGHT = "00:00:00.000000"
_END_OF_DAY = "23:59:59.999999"


class BadDay(BadValue):
    """A day that is none of the years 1 to 9999; ``later``: it is after the nearest one that is."""

    def __init__(self, reason: str, nearest: str, *, later: bool) -> None:
        super().__init__(reason, nearest=nearest)
        self.later = later

    def with_clock(self, digits: int) -> BadValue:
        """The same of a moment on that day; ``digits`` of a second."""
        clock = _END_OF_DAY if self.later else _MIDNIGHT
        return BadValue(str(self), nearest=f"{self.nearest} {clock[: 9 + digits if digits else 8]}")


def check_day(year: int, month: int, day: int) -> None:
    """Raises BadDay unless it is a day."""
    if 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]:
        return
    if not (year or month or day):
        raise BadDay("a zero date", "0001-01-01", later=False)
    if year == 0:
        raise BadDay("a date of the year 0", "0001-01-01", later=False)
    if not 1 <= month <= 12:
        raise BadDay("a date with a month of zero", f"{year:04d}-01-01", later=False)
    if day == 0:
        raise BadDay("a date with a day of zero", f"{year:04d}-{month:02d}-01", later=False)
    raise BadDay(
        "a day that its month does not have", f"{year:04d}-{month:02d}-{monthrange(year, month)[1]}", later=True
    )


class Remembered(dict[K, V]):
    """Remembers a function's results: most days of a table or a log occur more than once."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, argument: K) -> V:
        if len(self) >= _REMEMBERED:
            self.clear()
        made = self[argument] = self._make(argument)
        return made


def _checked(text: str) -> str:
    if len(text) != 10:
        raise ValueError("not the text of a day")
    check_day(int(text[:4]), int(text[5:7]), int(text[8:]))
    return text


CALENDAR = Remembered(_checked)
"""Days by themselves, ``2024-01-15``. Raises BadDay, ValueError."""
