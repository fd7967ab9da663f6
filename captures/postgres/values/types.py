"""Which conversion each PostgreSQL type takes: the one path from the server's text to JSON, for the log and for chunks.

A conversion is a function that is right for every text, and, for types that are common in tables, a piece of source
that is right for usual texts, to be built into a generated row decoder where calling a function would cost more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from captures.postgres.tables.columns import Column, ColumnType
from captures.postgres.values import datetimes, json_values
from captures.postgres.values.encodings import MARK
from captures.postgres.values.enum_labels import EnumLabels
from captures.postgres.values.json_values import Convert
from captures.tables.bad_values import UNDECODABLE, BadValue
from captures.tables.hashes import hashed

SourceOf = Callable[[str, int], str]
"""Writes Python source about the text in a variable, beginning at an index."""


@dataclass(frozen=True, slots=True)
class Inline:
    """Source that does what a ``Convert`` does. It may use the names of ``INLINE_NAMES``, and only single quotes.

    Attributes:
        value: The inside of an f-string that makes the JSON.
        unusual: An expression, true for texts that ``value`` is not right for; None when there are none.
        quoted: ``value`` goes between double quotes, which it leaves out.
    """

    value: SourceOf
    unusual: SourceOf | None = None
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """How texts of a type become JSON.

    Attributes:
        convert: Right for every text of the type; raises BadValue for one that has no place in a document.
        inline: Where it gains something, for the usual ones.
        usual: Does for usual texts what ``convert`` does, and is known to ``captures.postgres.values.column_values``.
    """

    convert: Convert
    inline: Inline | None = None
    usual: Convert | None = None


INLINE_NAMES: dict[str, object] = {"string": json_values.string, "TRUTH": json_values.TRUTH, "jsonb": json_values.jsonb}


def _rest(text: str, at: int) -> str:
    return f"{text}[{at}:]" if at else text


def _as_it_is(text: str, at: int) -> str:
    return f"{{{_rest(text, at)}}}"


def _json_source(text: str, at: int) -> str:
    rest = _rest(text, at)
    return f"{{{rest} if len({text}) < {json_values.SHORT_JSON} else jsonb({rest})}}"


_VERBATIM = Conversion(json_values.verbatim, Inline(_as_it_is))
_QUOTED = Conversion(json_values.quoted, Inline(_as_it_is, quoted=True))
_STRING = Conversion(json_values.string, Inline(lambda text, at: f"{{string({_rest(text, at)})}}"))
_JSONB = Conversion(json_values.jsonb, Inline(_json_source))
_BOOLEAN = Conversion(json_values.boolean, Inline(lambda text, at: f"{{TRUTH[{_rest(text, at)}]}}"))
_FLOATING = Conversion(json_values.floating, Inline(_as_it_is, lambda text, at: f"{text}[-1] > '9'"))
_DATE = Conversion(datetimes.date, Inline(datetimes.date_source, datetimes.date_unusual, quoted=True))
_TIMESTAMP = Conversion(
    datetimes.timestamp, Inline(datetimes.timestamp_source, datetimes.timestamp_unusual, quoted=True)
)
_TIMESTAMPTZ = Conversion(
    datetimes.timestamptz, Inline(datetimes.timestamptz_source, datetimes.timestamptz_unusual, quoted=True)
)

# Of a numeric with a declared precision, which the change log has as a decimal.
_FINITE = Conversion(json_values.finite, Inline(_as_it_is, lambda text, at: f"{text}[-1] > '9'", quoted=True))

# Oids of built-in types (pg_type.dat). Whatever is not here is a string.
BOOL, BYTEA, INT8, INT2, INT4, OID, JSON, JSONB = 16, 17, 20, 21, 23, 26, 114, 3802
FLOAT4, FLOAT8, NUMERIC, DATE, TIMESTAMP, TIMESTAMPTZ = 700, 701, 1700, 1082, 1114, 1184
TIME, TIMETZ, INTERVAL, UUID, INET, CIDR, MACADDR, MACADDR8 = 1083, 1266, 1186, 2950, 869, 650, 829, 774
BIT, VARBIT, POINT, LSEG, PATH, BOX, POLYGON, LINE, CIRCLE = 1560, 1562, 600, 601, 602, 603, 604, 628, 718

_BUILT_IN: dict[int, Conversion] = {
    BOOL: _BOOLEAN,
    BYTEA: Conversion(json_values.bytea),
    JSON: Conversion(json_values.json),
    JSONB: _JSONB,
    DATE: _DATE,
    TIMESTAMP: _TIMESTAMP,
    TIMESTAMPTZ: _TIMESTAMPTZ,
    **dict.fromkeys((INT2, INT4, INT8, OID), _VERBATIM),
    **dict.fromkeys((FLOAT4, FLOAT8), _FLOATING),
    **dict.fromkeys((NUMERIC, TIME, TIMETZ, INTERVAL, UUID, INET, CIDR, MACADDR, MACADDR8, BIT, VARBIT), _QUOTED),
    **dict.fromkeys((POINT, LSEG, PATH, BOX, POLYGON, LINE, CIRCLE), _QUOTED),
}

_OF_EXTENSIONS = {"hstore": Conversion(json_values.hstore), "vector": _VERBATIM}


# Where the column is text: any value of the type has its place.
ANY: dict[int, Conversion] = {
    JSON: _STRING,
    JSONB: _STRING,
    NUMERIC: _QUOTED,
    DATE: Conversion(datetimes.date_text, _DATE.inline, datetimes.date),
    TIMESTAMP: Conversion(datetimes.timestamp_text, _TIMESTAMP.inline, datetimes.timestamp),
    TIMESTAMPTZ: Conversion(datetimes.timestamptz_text, _TIMESTAMPTZ.inline, datetimes.timestamptz),
}

TEMPORAL = frozenset((DATE, TIMESTAMP, TIMESTAMPTZ))


def column_conversion(column: Column, *, in_key: bool = False, labels: EnumLabels | None = None) -> Conversion:
    """How texts of a column become JSON.

    Args:
        labels: Sees the labels of all enum values, except those in the bounds of ranges.
    """
    if column.salt:
        return _hashed(column, labels)
    as_text = column.on_bad_value == "text"
    if not (in_key and is_array(column.type)):
        found = conversion(column.type, as_text=as_text, labels=labels)
    elif as_text:  # Without their lower bounds two keys would become one.
        found = _STRING
    else:
        found = Conversion(json_values.with_first_bounds(conversion(column.type, labels=labels).convert))
    return _of_characters(found) if column.transcoded and not _is_ascii(column.type) else found


def _hashed(column: Column, labels: EnumLabels | None) -> Conversion:
    of_text = hashed(column.salt)
    base = column.type
    while base.base is not None:
        base = base.base
    if labels is None or base.kind != "enum":
        return Conversion(of_text)
    see = labels.conversion(base.oid)

    def convert(text: str) -> str:
        see(text)
        return of_text(text)

    return Conversion(convert)


def _of_characters(of: Conversion) -> Conversion:
    """The same, for texts that may have bytes which stand for no character."""
    inline = of.inline
    if inline is not None:
        unusual = inline.unusual

        def marked(text: str, at: int) -> str:
            found = f"{MARK!r} in {text}"
            return found if unusual is None else f"{found} or {unusual(text, at)}"

        inline = Inline(inline.value, marked, inline.quoted)

    def convert(text: str) -> str:
        if MARK in text:
            raise BadValue(UNDECODABLE)
        return of.convert(text)

    return Conversion(convert, inline)


def _is_ascii(column_type: ColumnType) -> bool:
    """Whether all its texts are."""
    while column_type.base is not None:
        column_type = column_type.base
    return column_type.oid in _BUILT_IN and column_type.oid not in (JSON, JSONB)


def is_array(column_type: ColumnType) -> bool:
    """Whether it is an array, or a domain over one."""
    while column_type.base is not None:
        column_type = column_type.base
    return column_type.kind == "array"


def clampable(column: Column) -> bool:
    """Whether the column's values are dates or timestamps, of which one is nearest to any other."""
    base = column.type
    while base.base is not None:
        base = base.base
    return base.oid in TEMPORAL and not column.salt


def conversion(column_type: ColumnType, *, as_text: bool = False, labels: EnumLabels | None = None) -> Conversion:
    """How texts of a type become JSON.

    Args:
        as_text: Every value of it is right.
        labels: As in ``column_conversion``.
    """
    if column_type.base is not None:
        return conversion(column_type.base, as_text=as_text, labels=labels)
    if column_type.kind == "enum" and labels is not None:
        return Conversion(labels.conversion(column_type.oid))
    if column_type.kind == "array" and column_type.element is not None:
        element = column_type.element
        dimensions = None if as_text else column_type.dimensions
        return Conversion(
            json_values.array(
                conversion(element, as_text=as_text, labels=labels).convert, element.delimiter, dimensions
            )
        )
    if column_type.kind == "range" and column_type.element is not None:
        bound = column_type.element
        while bound.base is not None:
            bound = bound.base
        if bound.oid in TEMPORAL:
            return Conversion(datetimes.temporal_range(ANY[bound.oid].convert))
        return _STRING
    if column_type.kind == "composite":
        return Conversion(
            json_values.composite(
                [
                    (
                        json_values.string(byte_text(f.name)),
                        conversion(f.type, as_text=as_text, labels=labels).convert,
                    )
                    for f in column_type.fields
                ]
            )
        )
    if as_text and column_type.oid in ANY:
        return ANY[column_type.oid]
    if column_type.oid == NUMERIC and decimal_digits(column_type.typmod) is not None:
        return _FINITE
    return _OF_EXTENSIONS.get(extension_type(column_type)) or _BUILT_IN.get(column_type.oid, _STRING)


_NUMERIC_HEADER = 4  # VARHDRSZ, which numeric's typmod has added.
_MOST_DIGITS = 38


def numeric_digits(typmod: int) -> tuple[int, int] | None:
    """Precision and scale of numeric(p,s), None of a bare numeric.

    By numeric.c: the scale has eleven bits and, from version 15 on, a sign.
    """
    if typmod < _NUMERIC_HEADER:
        return None
    packed = typmod - _NUMERIC_HEADER
    return packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400


def decimal_digits(typmod: int) -> tuple[int, int] | None:
    """The same where the change log has the values as decimals; there is no NaN among these."""
    digits = numeric_digits(typmod)
    return digits if digits is not None and 0 <= digits[1] <= digits[0] <= _MOST_DIGITS else None


def extension_type(column_type: ColumnType) -> Literal["hstore", "vector", ""]:
    """Which of the extensions' types that have a JSON of their own this is. They have no fixed oids.

    ``vector`` stands for pgvector's ``halfvec`` too: their texts are JSON arrays.
    """
    # The name is format_type's: perhaps qualified, perhaps with a modifier.
    name = column_type.name.rpartition(".")[2].partition("(")[0]
    if column_type.extension == "hstore" and name == "hstore":
        return "hstore"
    if column_type.extension == "vector" and name in ("vector", "halfvec"):
        return "vector"
    return ""


def to_json(column_type: ColumnType, text: bytes) -> bytes:
    """One value's JSON. Raises ValueError or LookupError when ``text`` is not a text of the type."""
    return conversion(column_type).convert(text.decode("latin-1")).encode("latin-1")


def byte_text(name: str) -> str:
    """A name as the byte text that conversions and decoders work with."""
    return name.encode().decode("latin-1")
