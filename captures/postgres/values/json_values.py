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
