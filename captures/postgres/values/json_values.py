"""How one value's text, as PostgreSQL's output functions print it, becomes JSON.

Texts are *byte texts*: ``str`` with one character per byte of the UTF-8 (decoded as Latin-1). JSON's syntax is ASCII,
so nothing here has to look at other characters; they pass through and are encoded back as the bytes they were.

Sessions print with ``datestyle`` ISO, ``intervalstyle`` iso_8601, ``timezone`` UTC, ``extra_float_digits`` 3 and
``bytea_output`` hex. A text that is not as these settings promise raises: it must never become another value.
"""

from __future__ import annotations

import re
from binascii import b2a_base64, unhexlify
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring

import orjson

from captures.tables.bad_values import BadValue

Convert = Callable[[str], str]
"""A byte text to JSON. Raises ValueError or LookupError, which may hold the value: never show it."""


TRUTH = {"t": "true", "f": "false"}

string: Convert = encode_basestring
"""A JSON string. The C implementation, measured faster than a search for what needs escaping; escapes ``"``, the
backslash and U+0000 to U+001F, and passes every other byte through."""

_NONFINITE = {text: f'"{text}"' for text in ("NaN", "Infinity", "-Infinity")}
_ENDLESS = ("infinity", "-infinity")
# In an array or a composite, other values stand before it and after it.
_BEYOND = r"infinity| BC\M|\m[0-9]{5,}-"
_LEAST = "0001-01-01"
_GREATEST = "9999-12-31"

_DATE = re.compile(r"(\d{4,})(-\d\d-\d\d)( BC)?")
_TIMESTAMP = re.compile(r"(\d{4,})(-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)( BC)?")
_TIMESTAMPTZ = re.compile(r"(\d{4,})(-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)\+00( BC)?")

# Line breaks stand only between a json value's tokens: inside its strings they are escaped.
_LINE_BREAKS = str.maketrans("\n\r", "  ")


def verbatim(text: str) -> str:
    """What PostgreSQL prints as JSON does: integers, jsonb."""
    return text


def quoted(text: str) -> str:
    """A string without anything to escape: numeric, uuid, time, inet and the like."""
    return f'"{text}"'


def boolean(text: str) -> str:
    """``t`` and ``f`` as JSON has them."""
    return TRUTH[text]


def floating(text: str) -> str:
    """A number; what JSON has no number for is a string."""
    return text if text[-1] <= "9" else _NONFINITE[text]


def finite(text: str) -> str:
    """A string: a numeric of a declared precision, whose only value that is no number is NaN.

    Raises:
        BadValue: It is NaN, which no decimal type has.
    """
    if text == "NaN":
        raise BadValue("NaN, which decimals in the change log and in Spark cannot hold")
    return f'"{text}"'


def date(text: str) -> str:
    """A string in ISO 8601. Raises BadValue for an infinity, and outside the years 1 to 9999."""
    match = _DATE.fullmatch(text)
    if match is None or len(match[1]) > 4 or match[3]:
        raise _beyond(text, match, "", "")
    return f'"{text}"'


def timestamp(text: str) -> str:
    """A string in ISO 8601 without a zone. Raises BadValue as ``date``."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None or len(match[1]) > 4 or match[4]:
        raise _beyond(text, match, " 00:00:00", " 23:59:59.999999")
    return f'"{text[:10]}T{text[11:]}"'


def timestamptz(text: str) -> str:
    """A string in ISO 8601 that ends in ``Z``. Raises BadValue as ``date``."""
    match = _TIMESTAMPTZ.fullmatch(text)
    if match is None or len(match[1]) > 4 or match[4]:
        raise _beyond(text, match, " 00:00:00+00", " 23:59:59.999999+00")
    return f'"{text[:10]}T{text[11:-3]}Z"'


def _beyond(text: str, match: re.Match[str] | None, first: str, last: str) -> ValueError:
    """The error for a text that is no date or timestamp of the years 1 to 9999."""
    if match is None and text not in _ENDLESS:
        return ValueError("not the text of a date or timestamp")
    what = "infinity" if match is None else "a year before 1" if text.endswith(" BC") else "a year above 9999"
    early = text.endswith(" BC") or text == "-infinity"
    nearest = f"{_LEAST}{first}" if early else f"{_GREATEST}{last}"
    return BadValue(what, nearest=nearest, pattern=_BEYOND)


def date_text(text: str) -> str:
    """Any date: a string in ISO 8601, its expanded form where need be; the infinities as PostgreSQL writes them."""
    match = _DATE.fullmatch(text)
    if match is None:
        return _endless(text)
    year, day, era = match.groups()
    return f'"{_year(year, era)}{day}"'


def timestamp_text(text: str) -> str:
    """Any timestamp, as ``date_text``."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return _endless(text)
    year, day, time, era = match.groups()
    return f'"{_year(year, era)}{day}T{time}"'


def timestamptz_text(text: str) -> str:
    """Any timestamp with time zone, as ``date_text``."""
    match = _TIMESTAMPTZ.fullmatch(text)
    if match is None:
        return _endless(text)
    year, day, time, era = match.groups()
    return f'"{_year(year, era)}{day}T{time}Z"'


def _endless(text: str) -> str:
    if text not in _ENDLESS:
        raise ValueError("not the text of a date or timestamp")
    return f'"{text}"'


def _year(digits: str, era: str | None) -> str:
    """The year of ISO 8601, in the expanded form (a sign, six digits) outside 1 to 9999. 1 BC is the year 0."""
    year = int(digits) if era is None else 1 - int(digits)
    return f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}" if year < 0 else f"{year:+07d}"


def bytea(text: str) -> str:
    """A string in base64."""
    if text[:2] != "\\x":
        raise ValueError("not the hex form of bytea")
    return f'"{b2a_base64(unhexlify(text[2:]), newline=False).decode("ascii")}"'


JSON_NESTING = 500
"""Arrays and objects of a json value that may stand in one another. PostgreSQL takes thousands; parsers of JSON end at
1,000 (Jackson, and with it Spark), at 1,024 (orjson), or where their stack does."""

SHORT_JSON = 2 * JSON_NESTING
"""What is shorter cannot be nested as deep."""

_JSON_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_PAIRED = re.compile(r"(?:[^\\]+|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+")
# Where json stands in an array or a composite, each backslash is several.
_HALF_PAIR = r"\\u[dD][89abAB]..(?!\\+u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\*)\\u[dD][c-fC-F]"


def json(text: str) -> str:
    """The json itself, on one line. It is what was stored, to the letter: only line breaks become spaces.

    Raises:
        BadValue: It is nested deeper than parsers go, or a string in it holds half of a surrogate pair, which
            stands for no character: PostgreSQL's json takes such an escape unread, and no parser does.
    """
    if "\\u" in text and _SURROGATE.search(text) and not _PAIRED.fullmatch(text):
        raise BadValue("a text in a value holds half of a surrogate pair, such as \\ud800", pattern=_HALF_PAIR)
    return jsonb(text.translate(_LINE_BREAKS) if "\n" in text or "\r" in text else text)


def jsonb(text: str) -> str:
    """The jsonb itself. Raises BadValue when it is nested deeper than parsers go."""
    if len(text) >= SHORT_JSON and text.count("[") + text.count("{") > JSON_NESTING and _nesting(text) > JSON_NESTING:
        raise BadValue(f"a value is nested deeper than {JSON_NESTING} levels")
    return text


def _nesting(text: str) -> int:
    deepest = depth = 0
    for match in _JSON_STRUCTURE.finditer(text):
        if match[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif match[2]:
            depth -= 1
    return deepest


_BACKSLASHED = re.compile(r"\\(.)", re.DOTALL)


def array(element: Convert, delimiter: str, dimensions: int | None) -> Convert:
    """Nested JSON arrays, by the text form of arrays (PostgreSQL docs, 8.15.6). Lower bounds have no place in JSON.

    Args:
        element: Converts an element.
        delimiter: Between elements: the element type's typdelim.
        dimensions: Those that the announced schema has. The server holds no value to those of its column; one with
            others is a ``BadValue``. None where any are right.
    """
    braces = "{" * (dimensions or 0)
    structure = {"{": "[", "}": "]", delimiter: ","}
    mark = re.escape(delimiter)
    token = re.compile(rf'"((?:[^"\\]+|\\.)*)"|([{{}}{mark}])|([^{{}}"{mark}]+)', re.DOTALL)

    def replace(match: re.Match[str]) -> str:
        inside, sign, bare = match.groups()
        if sign is not None:
            return structure[sign]
        if bare is not None:
            return "null" if bare == "NULL" else element(bare)
        return element(_BACKSLASHED.sub(r"\1", inside) if "\\" in inside else inside)

    def convert(text: str) -> str:
        if text[0] == "[":
            text = text[text.index("=") + 1 :]
        if braces and text != "{}" and (not text.startswith(braces) or text[len(braces)] == "{"):
            raise BadValue(
                f"an array does not have the {dimensions} dimensions of its column's type",
                pattern=rf"^(\[[^=]*\]=)?(?!\{{\}}$)(?!\{{{{{dimensions}}}[^{{])\{{",
            )
        return token.sub(replace, text)

    return convert


def with_first_bounds(convert: Convert) -> Convert:
    """Of arrays: one with other lower bounds than 1, which ``convert`` leaves out, is a ``BadValue``."""

    def checked(text: str) -> str:
        if text[0] == "[":
            raise BadValue("an array in the key does not begin with index 1", pattern=r"^\[")
        return convert(text)

    return checked


_FIELD = re.compile(r'(?:"((?:[^"\\]+|""|\\\\)*)"|([^,()"\\]*))[,)]')


def composite(fields: Sequence[tuple[str, Convert]]) -> Convert:
    """An object by field name, by the text form of rows (PostgreSQL docs, 8.16.6).

    The log has values with the attributes that their type had when they were written, and does not tell when those are
    others. One that has fewer was written before the last ones were added, which are null in it. Of one that has more,
    the last ones are not known yet: its rows are read again once they are.

    Args:
        fields: The names, as JSON strings, and how to convert each field.
    """
    names = [f"{name}:" for name, _ in fields]
    converts = [convert for _, convert in fields]

    def convert(text: str) -> str:
        members = []
        place = 1
        for name, field in zip(names, converts, strict=True):
            if place == len(text):
                members.append(f"{name}null")
                continue
            match = _FIELD.match(text, place)
            if match is None:
                raise ValueError("not the text of a row")
            place = match.end()
            inside, bare = match.groups()
            if inside is not None:
                members.append(name + field(inside.replace('""', '"').replace("\\\\", "\\")))
            else:
                members.append(name + (field(bare) if bare else "null"))
        made = "{" + ",".join(members) + "}"
        orjson.loads(made.encode("latin-1"))  # What stands in an attribute's place may be another one's value.
        return made

    return convert


_BOUND = re.compile(r'"([^"]*)"|([^\[\](){},"]+)')


def temporal_range(bound: Convert) -> Convert:
    """A string: a range or multirange with its bounds written as ``bound`` writes them, without need for quotes."""

    def replace(match: re.Match[str]) -> str:
        return bound(match[1] or match[2])[1:-1]

    def convert(text: str) -> str:
        return quoted(text if text == "empty" else _BOUND.sub(replace, text))

    return convert


_PAIR = re.compile(r'"((?:[^"\\]+|\\.)*)"=>(?:NULL|"((?:[^"\\]+|\\.)*)")(?:, |$)', re.DOTALL)


def hstore(text: str) -> str:
    """An object of strings and nulls, by the output format of the hstore extension."""
    members = []
    place = 0
    while place < len(text):
        match = _PAIR.match(text, place)
        if match is None:
            raise ValueError("not the text of an hstore")
        place = match.end()
        key, value = (part if part is None else string(_BACKSLASHED.sub(r"\1", part)) for part in match.groups())
        members.append(f"{key}:{value or 'null'}")
    return "{" + ",".join(members) + "}"
