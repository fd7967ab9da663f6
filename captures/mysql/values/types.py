"""Which form each type of a column takes in documents and in keys: the one decision, for chunks, log and schemas."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Sequence
from enum import StrEnum

from tidemark.backfill.keys import Key, known_key
from tidemark.captures.mysql.terms.columns import Column
from tidemark.captures.mysql.values import json_values
from tidemark.captures.mysql.values.charsets import HALVES, joined_halves
from tidemark.captures.mysql.values.json_values import Convert, geometry
from tidemark.captures.rows.hashes import hashed
from tidemark.protocol.messages import Json


class Form(StrEnum):
    """The form of a type's values: in JSON, and as the text that ``CONVERSIONS`` takes."""

    INTEGER = "integer"
    """Digits: of integers, ``year`` and ``bit``."""
    BOOLEAN = "boolean"
    """Digits, 0 for false: ``bit(1)``, and ``tinyint(1)`` where the configuration wants it."""
    DECIMAL = "decimal"
    """Digits with all of the scale."""
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    """The text in UTF-8: also the label of an enum, the labels of a set, ``uuid``, ``inet4`` and ``inet6``."""
    BINARY = "binary"
    """The bytes, of ``binary(n)`` with all its padding."""
    DATE = "date"
    """``2024-01-15``."""
    DATETIME = "datetime"
    """``2024-01-15 14:30:00.123456`` with as many digits as the column has."""
    TIMESTAMP = "timestamp"
    """The same, in UTC."""
    TIME = "time"
    """``-838:59:59.000000``."""
    JSON = "json"
    GEOMETRY = "geometry"
    """The bytes: SRID and well-known binary."""
    VECTOR = "vector"
    """The bytes: floats of 32 bits."""


CONVERSIONS: dict[Form, Convert] = {
    Form.INTEGER: json_values.verbatim,
    Form.BOOLEAN: json_values.boolean,
    Form.DECIMAL: json_values.quoted,
    Form.FLOAT: json_values.single,
    Form.DOUBLE: json_values.double,
    Form.STRING: json_values.string,
    Form.BINARY: json_values.binary,
    Form.DATE: json_values.date,
    Form.DATETIME: json_values.datetime,
    Form.TIMESTAMP: json_values.timestamp,
    Form.TIME: json_values.quoted,
    Form.JSON: json_values.json,
    Form.GEOMETRY: geometry,
    Form.VECTOR: json_values.vector,
}

ANY: dict[Form, Convert] = {
    Form.DATE: json_values.quoted,
    Form.DATETIME: json_values.datetime_text,
    Form.TIMESTAMP: json_values.timestamp_text,
    Form.JSON: json_values.string,
}
"""The same where the column is text: any value of the type has its place."""

TEMPORAL = frozenset((Form.DATE, Form.DATETIME, Form.TIMESTAMP))


_PRINTED = frozenset((Form.FLOAT, Form.DOUBLE))
"""Forms of which a chunk's text is not the log's: only their JSON is the same."""


def column_conversion(column: Column, of: Form) -> Convert:
    """How texts of a column of this form become JSON."""
    convert = CONVERSIONS[of]
    if column.charset in HALVES:
        join = joined_halves(column.charset)
        made = hashed(column.salt) if column.salt else convert
        return lambda text: made(join(text))
    if not column.salt:
        return ANY.get(of, convert) if column.on_bad_value == "text" else convert
    of_text = hashed(column.salt)
    return (lambda text: of_text(convert(text))) if of in _PRINTED else of_text


_FORMS: dict[str, Form] = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"), Form.INTEGER),
    "decimal": Form.DECIMAL,
    "float": Form.FLOAT,
    "double": Form.DOUBLE,
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), Form.BINARY),
    "date": Form.DATE,
    "datetime": Form.DATETIME,
    "timestamp": Form.TIMESTAMP,
    "time": Form.TIME,
    "json": Form.JSON,
    **dict.fromkeys(("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"), Form.GEOMETRY),
    **dict.fromkeys(("multipolygon", "geometrycollection", "geomcollection"), Form.GEOMETRY),
    "vector": Form.VECTOR,
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), Form.STRING),
    **dict.fromkeys(("enum", "set", "uuid", "inet4", "inet6"), Form.STRING),
}


def form(column: Column, *, tinyint1_as_bool: bool = False) -> Form | None:
    """The form of a column's values; None for a type that is not known, and for labels that are no texts."""
    if column.charset is None and any("\ufffd" in label for label in column.labels):
        return None
    if column.json:
        return Form.JSON
    if column.data_type == "bit" and column.length == 1:
        return Form.BOOLEAN
    if tinyint1_as_bool and column.data_type == "tinyint" and column.length == 1:
        return Form.BOOLEAN
    return _FORMS.get(column.data_type)


def clampable(column: Column) -> bool:
    """Whether the column's values are dates or timestamps, of which one is nearest to any other."""
    return form(column) in TEMPORAL


class KeyForm(StrEnum):
    """How a key column's value is written in a key: such that equal values are equal texts, without NUL, and the server
    can compare the text with the column again."""

    PLAIN = "plain"
    """The text that ``CONVERSIONS`` takes: numbers, dates, times, addresses."""
    TEXT = "text"
    """The same, by ``key_text``."""
    NUMBER = "number"
    """An enum's index, a set's bits: the server orders them by these."""
    HEX = "hex"
    """The bytes in hexadecimal, lower case."""
    CODED = "coded"
    """The same of a text, in a character set of which not every byte has a place in Unicode and a way back."""
    REAL = "real"
    """``repr`` of the value as a double: the server compares a float with more digits than it prints."""


_REVERSIBLE = frozenset(("utf8mb4", "utf8mb3", "utf8", "latin1", "ucs2", "utf16", "utf16le", "utf32"))


def hashable(column: Column) -> bool:
    """Whether there is a hash of the column's values.

    MySQL's own JSON may be in the log as changes to a value, of which a hash cannot be made.
    """
    return column.data_type != "json"


def key_form(column: Column) -> KeyForm | None:
    """How the values of a column are written in keys; None where the type cannot be part of a key."""
    if column.data_type in ("enum", "set"):
        return KeyForm.NUMBER
    if column.data_type in ("uuid", "inet4", "inet6"):
        return KeyForm.PLAIN
    match form(column):
        case None | Form.JSON | Form.GEOMETRY | Form.VECTOR:
            return None
        case Form.STRING:
            return KeyForm.TEXT if (column.charset or "utf8mb4") in _REVERSIBLE else KeyForm.CODED
        case Form.BINARY:
            return KeyForm.HEX
        case Form.FLOAT | Form.DOUBLE:
            return KeyForm.REAL
        case _:
            return KeyForm.PLAIN


def key_text(text: str) -> str:
    """A text as part of a key, where it may not hold a NUL."""
    if "\\" in text or "\0" in text:
        return text.replace("\\", "\\\\").replace("\0", "\\0")
    return text


_ESCAPED = re.compile(r"\\([\\0])")


def text_of_key(part: str) -> str:
    """The inverse of ``key_text``."""
    return _ESCAPED.sub(lambda escaped: "\0" if escaped[1] == "0" else "\\", part) if "\\" in part else part


def set_text(labels: Sequence[str], bits: int) -> str:
    """The labels of a set's value as the server prints them."""
    return ",".join([label for place, label in enumerate(labels) if bits >> place & 1])


def set_values(labels: Sequence[str], of_text: Convert) -> Callable[[int], str]:
    """Converts the text of a set's bits, and remembers what comes of it: few of the combinations occur.

    Raises ValueError for no set.
    """
    known: dict[int, str] = {}

    def convert(bits: int) -> str:
        text = known.get(bits)
        if text is None:
            if bits >> len(labels):
                raise ValueError("a set with more labels than the column has")
            if len(known) >= 10_000:
                known.clear()
            text = known[bits] = of_text(set_text(labels, bits))
        return text

    return convert


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z?)")
_VERBATIM = frozenset((Form.DECIMAL, Form.TIME, Form.STRING))


def key_of(columns: Sequence[Column], values: Sequence[Json]) -> Key | None:
    """The key with these values, as documents have them; None if a value is not one of its column, or its text unknown.

    Two values that are equal to the server may have different texts, and a key is the text of one of them. So only
    types count of which a document's value has one text.
    """
    if len(values) != len(columns):
        return None
    return known_key(map(_text_in_key, columns, values))


def _text_in_key(column: Column, value: Json) -> str | None:
    of = form(column)
    if of is Form.BOOLEAN and isinstance(value, bool):
        return str(int(value))
    if of is Form.INTEGER and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or column.salt:
        return None
    match key_form(column):
        case KeyForm.TEXT:
            return key_text(value)
        case KeyForm.HEX:
            return _hex(value)
        case KeyForm.NUMBER:
            return _number(column, value)
        case KeyForm.PLAIN if of is Form.DATE:
            return value if _DATE.fullmatch(value) else None
        case KeyForm.PLAIN if of in (Form.DATETIME, Form.TIMESTAMP):
            return _moment(column, value, utc=of is Form.TIMESTAMP)
        case KeyForm.PLAIN if of in _VERBATIM and not column.zerofill:
            return value
    return None


def _hex(value: str) -> str | None:
    try:
        return b64decode(value, validate=True).hex()
    except Error:
        return None


def _number(column: Column, value: str) -> str | None:
    """An enum's index, or a set's bits. Labels that the catalog may not show are not known."""
    chosen = value.split(",") if column.data_type == "set" and value else [value] if value else []
    if any(label not in column.labels or column.may_hide(label) for label in chosen):
        return None
    places = [column.labels.index(label) for label in chosen]
    return str(sum(1 << place for place in places) if column.data_type == "set" else sum(place + 1 for place in places))


def _moment(column: Column, value: str, *, utc: bool) -> str | None:
    """The text as the server prints it: with as many digits of a second as the column holds."""
    found = _MOMENT.fullmatch(value)
    if found is None or bool(found[4]) != utc:
        return None
    fraction = (found[3] or "").ljust(6, "0")[: column.fraction]
    return f"{found[1]} {found[2]}" + (f".{fraction}" if fraction else "")
