"""Random types and values: the text that is stored, and the way back from a document to a text the server reads.

The way back is written from the documentation of documents, not from the converters: it is what a consumer would do.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st

Value = Any
"""A leaf's input text; what types that are made of others say of theirs; None for NULL."""

LiteralOf = Callable[[Value], str]


@dataclass(frozen=True, repr=False)
class RandomType:
    """A type to make columns of.

    Attributes:
        name: As SQL names it.
        values: Of the type, never NULL.
        text: The input text of a value, arrays with their lower bounds.
        plain: The same, with lower bounds of 1: the text of what a document can hold.
        back: The input text that a document's JSON stands for; None for null.
        makes: Statements that make the types it needs, in order.
        orders: It can be a key's.
        delimiter: Between elements of arrays of it.
        listed: Its documents may be JSON arrays: as the elements of an array they look like another dimension.
    """

    name: str
    values: st.SearchStrategy[Value]
    back: Callable[[bytes], str | None]
    text: LiteralOf = str
    plain: LiteralOf = str
    makes: tuple[str, ...] = ()
    orders: bool = False
    delimiter: str = ","
    listed: bool = False

    def __repr__(self) -> str:
        return self.name  # That of its strategy is long, and Hypothesis prints it often.

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        printer.text("; ".join([*self.makes, self.name]))


def string_back(raw: bytes) -> str | None:
    return msgspec.json.decode(raw, type=str | None)


def token_back(raw: bytes) -> str | None:
    """Numbers and booleans as their JSON text; what JSON has no number for is a string."""
    return None if raw == b"null" else string_back(raw) if raw[:1] == b'"' else raw.decode()


def _base64(raw: bytes) -> str | None:
    text = string_back(raw)
    return None if text is None else "\\x" + b64decode(text, validate=True).hex()


def _json(raw: bytes) -> str | None:
    return None if raw == b"null" else raw.decode()


_EXPANDED = re.compile(r"([+-]\d{4,}|\d{4})(-\d\d-\d\d)(T[0-9:.]+Z?)?")


def _moment(text: str) -> str:
    """ISO 8601 as PostgreSQL reads it: years before 1 by their era."""
    match = _EXPANDED.fullmatch(text)
    if match is None:
        assert text in ("infinity", "-infinity"), text
        return text
    year = int(match[1])
    digits, era = (f"{year:04d}", "") if year > 0 else (f"{1 - year:04d}", " BC")
    return f"{digits}{match[2]}{(match[3] or '').replace('T', ' ')}{era}"


def moments(raw: bytes) -> str | None:
    text = string_back(raw)
    return None if text is None else _moment(text)


_BOUND = re.compile(r"[^\[\](){},]+")


def moment_ranges(raw: bytes) -> str | None:
    text = string_back(raw)
    return text if text in (None, "empty") else _BOUND.sub(lambda bound: f'"{_moment(bound[0])}"', text)


# Leaves.

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20) | st.text(
    "\\\"'{}[](),;:=>ntuN \t\n\r\b\f\v%_/NUL", max_size=10
)
WORD = st.text("abcXYZ_é日", min_size=1, max_size=8)
_DIGITS = st.text("0123456789", min_size=1, max_size=12)
_SIGN = st.sampled_from(["", "-"])
_FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100).map(repr)


def _integers(bits: int) -> st.SearchStrategy[str]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).map(str)


def _joined(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    strategies = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*strategies).map("".join)


def _days(first: int, last: int) -> st.SearchStrategy[str]:
    """Days of the years ``first`` to ``last``; mostly of our own time."""
    years = st.integers(1900, 2100) | st.integers(first, last) | st.sampled_from([first, last])

    def day(year: int, month: int, day: int) -> str:
        return f"{year:04d}-{month:02d}-{day:02d}"

    return st.builds(day, years, st.integers(1, 12), st.integers(1, 28))


_CLOCK = st.builds(
    lambda h, m, s, f: f"{h:02d}:{m:02d}:{s:02d}{f}",
    st.integers(0, 23),
    st.integers(0, 59),
    st.integers(0, 59),
    st.just("") | st.integers(0, 999_999).map(lambda micro: f".{micro:06d}") | st.integers(1, 9).map(".{}".format),
)
_OFFSET = st.sampled_from(["+00", "-03:30", "+14", "+05:45", "-12"])


def _with_clock(day: str, clock: str) -> str:
    date, _, era = day.partition(" ")
    return f"{date} {clock} {era}".rstrip()


# Others have no place in a document: see tests.captures.postgres.values.test_bad_values.
_DATES = _days(1, 9999)
_TIMESTAMPS = st.builds(_with_clock, _days(1, 9999), _CLOCK)
_INSTANTS = st.builds(_with_clock, _days(2, 9998), _joined(_CLOCK, _OFFSET))
_NUMERICS = _joined(_SIGN, _DIGITS) | _joined(_SIGN, _DIGITS, ".", _DIGITS) | st.just("1e130")
_SPECIAL_NUMERICS = st.sampled_from(["NaN", "Infinity", "-Infinity", "0.000", "-0"])
_INTERVALS = st.builds(
    "{} mons {} days {}{}".format, st.integers(-20_000, 20_000), st.integers(-9_999, 9_999), _SIGN, _CLOCK
)
_BYTES = st.binary(max_size=20).map(lambda data: "\\x" + data.hex())
_BITS = st.text("01", max_size=70)
_POINT = _joined("(", _FINITE, ",", _FINITE, ")")
_WHITE = st.sampled_from(["", " ", "\n", "\t", "\r\n "])
_JSON_STRING = TEXT.map(lambda text: msgspec.json.encode(text).decode().replace("\x7f", "\\u007f"))
_JSON_NUMBER = _joined(_SIGN, st.integers(0, 10**30).map(str)) | _joined(
    _SIGN, st.integers(0, 99).map(str), ".", _DIGITS
)
_HUGE_NUMBER = _joined(_SIGN, st.integers(1, 99).map(str), "E", st.sampled_from(["400", "-400", "+9"]))


def _json_texts(leaf: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts of json, also with duplicate members; never null itself, which is the document of NULL too."""

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        any_inner = inner | st.sampled_from(["null", "true", "false"])
        array = st.lists(any_inner, max_size=3).map(lambda parts: "[" + ",".join(parts) + "]")
        member = _joined(_WHITE, _JSON_STRING, _WHITE, ":", _WHITE, any_inner)
        return array | st.lists(member, max_size=3).map(lambda parts: "{" + ",".join(parts) + "}")

    return _joined(_WHITE, st.recursive(leaf, grown, max_leaves=6), _WHITE)


def _one_line(text: str) -> str:
    """A json as a document has it. White space around a value is no part of it."""
    return text.replace("\n", " ").replace("\r", " ").strip(" \t")


def leaf(
    name: str,
    values: st.SearchStrategy[str],
    back: Callable[[bytes], str | None] = string_back,
    *,
    orders: bool = False,
    plain: LiteralOf = str,
    delimiter: str = ",",
    listed: bool = False,
) -> RandomType:
    return RandomType(name, values, back, str, plain, orders=orders, delimiter=delimiter, listed=listed)


def _ranges(bound: st.SearchStrategy[str], key: Callable[[str], Any]) -> st.SearchStrategy[str]:
    """Ranges and empty ones. ``key`` orders the bounds."""

    def made(one: str, other: str, lower: str, upper: str, lacks: int) -> str:
        low, high = sorted((one, other), key=key)
        return f"{lower}{'' if lacks & 1 else quote(low)},{'' if lacks & 2 else quote(high)}{upper}"

    return st.just("empty") | st.builds(
        made, bound, bound, st.sampled_from("[("), st.sampled_from("])"), st.integers(0, 3)
    )


def quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _many(ranges: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(ranges, max_size=3).map(lambda parts: "{" + ",".join(parts) + "}")


_YEARS = st.integers(2, 5_000).map("{:04d}-03-15".format)
_NUMBER_RANGES = _ranges(_integers(16), int)
_DATE_RANGES = _ranges(_YEARS, str) | st.sampled_from(['["0044-03-15 BC",infinity]', "[infinity,)", "(10000-01-01,)"])
_HOURS = st.integers(0, 59).map("2024-01-15 10:00:{:02d}.5".format)
_TIME_RANGES = _ranges(_HOURS, str) | st.sampled_from(['("4000-01-01 00:00 BC","12024-01-01 24:00"]', "[-infinity,]"])

BUILT_IN: tuple[RandomType, ...] = (
    leaf("bool", st.sampled_from(["true", "false"]), token_back, orders=True),
    leaf("int2", _integers(16), token_back, orders=True),
    leaf("int4", _integers(32), token_back, orders=True),
    leaf("int8", _integers(64), token_back, orders=True),
    leaf("oid", st.integers(0, 2**32 - 1).map(str), token_back, orders=True),
    leaf("numeric", _NUMERICS | _SPECIAL_NUMERICS, orders=True),
    leaf("numeric(20,4)", st.integers(-(10**15), 10**15).map("{}.5".format), orders=True),
    leaf("float4", st.floats(width=32).map(repr), token_back, orders=True),
    leaf("float8", st.floats().map(repr), token_back, orders=True),
    leaf("money", _integers(50), orders=True),
    leaf("text", TEXT, orders=True),
    leaf("varchar(30)", TEXT, orders=True),
    leaf("char(30)", TEXT.map(lambda text: text.rstrip(" ")), orders=True),
    leaf('"char"', st.sampled_from("aZ~ "), orders=True),
    leaf("name", TEXT.filter(lambda text: len(text.encode()) < 64), orders=True),
    leaf("bytea", _BYTES, _base64, orders=True),
    leaf("json", _json_texts(_JSON_STRING | _JSON_NUMBER | _HUGE_NUMBER), _json, plain=_one_line, listed=True),
    leaf("jsonb", _json_texts(_JSON_STRING | _JSON_NUMBER), _json, listed=True),
    leaf("date", _DATES, moments, orders=True),
    leaf("timestamp", _TIMESTAMPS, moments, orders=True),
    leaf("timestamp(2)", _TIMESTAMPS, moments, orders=True),
    leaf("timestamptz", _INSTANTS, moments, orders=True),
    leaf("time", _CLOCK | st.just("24:00:00"), orders=True),
    leaf("timetz", _joined(_CLOCK, _OFFSET) | st.just("24:00:00+01:02:03"), orders=True),
    leaf("interval", _INTERVALS, orders=True),
    leaf("uuid", st.uuids().map(str), orders=True),
    leaf("inet", st.ip_addresses().map(str) | st.just("10.1.2.3/8"), orders=True),
    leaf("cidr", st.sampled_from(["10.0.0.0/8", "::1/128", "2001:db8::/32"]), orders=True),
    leaf("macaddr", st.binary(min_size=6, max_size=6).map(bytes.hex), orders=True),
    leaf("macaddr8", st.binary(min_size=8, max_size=8).map(bytes.hex), orders=True),
    leaf("bit(5)", st.text("01", min_size=5, max_size=5), orders=True),
    leaf("varbit", _BITS, orders=True),
    leaf("point", _POINT | st.just("(NaN,-Infinity)")),
    leaf("line", st.sampled_from(["{1,-2,0.5}", "{0,1,3}"])),
    leaf("lseg", _joined("[", _POINT, ",", _POINT, "]")),
    leaf("box", _joined(_POINT, ",", _POINT), delimiter=";"),
    leaf("path", _joined("[", _POINT, ",", _POINT, "]") | _joined("(", _POINT, ",", _POINT, ")")),
    leaf("polygon", _joined("(", _POINT, ",", _POINT, ",", _POINT, ")")),
    leaf("circle", _joined("<", _POINT, ",", st.integers(0, 10**9).map(str), ">")),
    leaf("pg_lsn", st.builds("{:X}/{:X}".format, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), orders=True),
    leaf("xid8", st.integers(0, 2**64 - 1).map(str), orders=True),
    leaf("tsvector", st.lists(WORD, max_size=3).map(lambda words: " ".join(f"'{w}''':3A,4" for w in words))),
    leaf("tsquery", st.sampled_from(["", "'a b' & !c:*A", "a <-> 'd''e'"])),
    leaf("jsonpath", st.sampled_from(["$", 'strict $."a\\"b"[*] ? (@ > 1)', '$.** like_regex "^\\\\d"'])),
    leaf("int4range", _NUMBER_RANGES, orders=True),
    leaf("int8multirange", _many(_NUMBER_RANGES), orders=True),
    leaf("numrange", _NUMBER_RANGES, orders=True),
    leaf("daterange", _DATE_RANGES, moment_ranges, orders=True),
    leaf("datemultirange", _many(_DATE_RANGES), moment_ranges, orders=True),
    leaf("tsrange", _TIME_RANGES, moment_ranges, orders=True),
    leaf("tstzrange", _TIME_RANGES, moment_ranges, orders=True),
    leaf("tsmultirange", _many(_TIME_RANGES), moment_ranges, orders=True),
    leaf("int2vector", st.lists(_integers(16), max_size=4).map(" ".join)),
    leaf("xid", st.integers(0, 2**32 - 1).map(str)),
    leaf("regtype", st.sampled_from(["integer", "timestamp without time zone", "numeric[]"])),
)  # fmt: skip
