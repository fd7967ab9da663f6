"""Converts the text of one value, as PostgreSQL's output functions print it, to JSON.

Texts are *byte texts*: a ``str`` with one character per byte of UTF-8 (decoded as Latin-1). The syntax of JSON is
ASCII. Other characters are copied and encoded back to the same bytes.

Sessions print with ``datestyle`` ISO, ``intervalstyle`` iso_8601, ``timezone`` UTC, ``extra_float_digits`` 3 and
``bytea_output`` hex. A text of another form raises an error, so that it never becomes another value.
"""

from __future__ import annotations

import re
from binascii import b2a_base64, unhexlify
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring

import orjson

from tidemark.captures.tables.bad_values import BadValue, check_nesting

Convert = Callable[[str], str]
"""Converts a byte text to JSON. Raises ValueError or LookupError, which may contain the value: never show it."""


TRUTH = {"t": "true", "f": "false"}

string: Convert = encode_basestring
"""A JSON string. It escapes ``"``, the backslash and U+0000 to U+001F, and copies every other byte. The implementation
is in C: it was measured faster than a search for characters to escape."""

_NONFINITE = {text: f'"{text}"' for text in ("NaN", "Infinity", "-Infinity")}
# A json value has line breaks only between tokens: inside strings they are escaped.
_LINE_BREAKS = str.maketrans("\n\r", "  ")


def verbatim(text: str) -> str:
    """The same text, for types that PostgreSQL prints as JSON: integers, jsonb."""
    return text


def quoted(text: str) -> str:
    """A string without characters to escape: numeric, uuid, time, inet and similar types."""
    return f'"{text}"'


def boolean(text: str) -> str:
    """``true`` for ``t``, ``false`` for ``f``."""
    return TRUTH[text]


def floating(text: str) -> str:
    """A number. NaN and the infinities are strings, because JSON has no such numbers."""
    return text if text[-1] <= "9" else _NONFINITE[text]


def finite(text: str) -> str:
    """A string, for a numeric with a declared precision. Such a column holds NaN, but no infinity.

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


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_PAIRED = re.compile(r"(?:[^\\]+|\\[^u]|\\u(?![dD][89a-fA-F])|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+")
# In an array or a composite each backslash of a json value is doubled, perhaps more than once.
_HALF_PAIR = r"\\u[dD][89abAB]..(?!\\+u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\*)\\u[dD][c-fC-F]"


def json(text: str) -> str:
    """The json as it was stored, on one line: line breaks become spaces.

    Raises:
        BadValue: It is nested deeper than parsers accept, or a string in it contains half of a surrogate pair. Half a
            pair is no character. PostgreSQL's json stores such an escape without a check; parsers reject it.
    """
    if "\\u" in text and _SURROGATE.search(text) and not _PAIRED.fullmatch(text):
        raise BadValue("a text in a value holds half of a surrogate pair, such as \\ud800", pattern=_HALF_PAIR)
    return jsonb(text.translate(_LINE_BREAKS) if "\n" in text or "\r" in text else text)


def jsonb(text: str) -> str:
    """The jsonb, unchanged. Raises BadValue if it is nested deeper than parsers accept."""
    check_nesting(text)
    return text


_BACKSLASHED = re.compile(r"\\(.)", re.DOTALL)


def array(element: Convert, delimiter: str, dimensions: int | None) -> Convert:
    """Converts arrays to nested JSON arrays (PostgreSQL docs, 8.15.6). JSON has no lower bounds: they are left out.

    Args:
        element: Converts an element.
        delimiter: The character between elements: typdelim of their type.
        dimensions: The number of dimensions in the announced schema. The server does not check the number that a column
            declares. A value with another number is a ``BadValue``. None: any number is right.
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
    """Converts arrays. One with a lower bound other than 1, which ``convert`` leaves out, is a ``BadValue``."""

    def checked(text: str) -> str:
        if text[0] == "[":
            raise BadValue("an array in the key does not begin with index 1", pattern=r"^\[")
        return convert(text)

    return checked


_FIELD = re.compile(r'(?:"((?:[^"\\]+|""|\\\\)*)"|([^,()"\\]*))[,)]')


def composite(fields: Sequence[tuple[str, Convert]]) -> Convert:
    """Converts rows to objects by field name (PostgreSQL docs, 8.16.6).

    A value in the log has the attributes that its type had when the value was written, and the log does not say which.
    A value with fewer attributes was written before the last ones were added: these are null. A value with more has
    attributes that are not known yet: its rows are read again as soon as they are known.

    Args:
        fields: The name of each field, as a JSON string, and its conversion.
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
        orjson.loads(made.encode("latin-1"))  # The value may belong to another attribute, and then be invalid here.
        return made

    return convert


_PAIR = re.compile(r'"((?:[^"\\]+|\\.)*)"=>(?:NULL|"((?:[^"\\]+|\\.)*)")(?:, |$)', re.DOTALL)


def hstore(text: str) -> str:
    """An object of strings and nulls, from the output format of the hstore extension."""
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
