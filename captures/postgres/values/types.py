"""The conversion of each PostgreSQL type from the server's text to JSON, the same for the log and for chunks.

A conversion is a function that is right for every text. Common types also have a piece of source that is right for
usual texts. Generated row decoders contain it, because a call of the function would cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.catalog.encodings import MARK
from tidemark.captures.postgres.values import datetimes, json_values
from tidemark.captures.postgres.values.json_values import Convert
from tidemark.captures.rows.hashes import hashed
from tidemark.captures.tables.bad_values import SHORT_JSON, UNDECODABLE, BadValue

SourceOf = Callable[[str, int], str]
"""Returns Python source for the text in a variable, from an index on."""


@dataclass(frozen=True, slots=True)
class Inline:
    """The source of a ``Convert``. It may use the names in ``INLINE_NAMES``, and single quotes only.

    Attributes:
        value: The inside of an f-string that makes the JSON.
        unusual: An expression that is true for each text which ``value`` converts wrongly. None: there is no such text.
        quoted: The decoder adds double quotes around ``value``.
    """

    value: SourceOf
    unusual: SourceOf | None = None
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of one type.

    Attributes:
        convert: Right for every text of the type. Raises BadValue for a value that a document cannot hold.
        inline: Source for usual texts, for types where it is faster.
        usual: Same as ``convert`` for usual texts. ``tidemark.captures.postgres.values.column_values`` knows how to
            convert many texts at once with it.
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
    return f"{{{rest} if len({text}) < {SHORT_JSON} else jsonb({rest})}}"


_VERBATIM = Conversion(json_values.verbatim, Inline(_as_it_is))
_QUOTED = Conversion(json_values.quoted, Inline(_as_it_is, quoted=True))
_STRING = Conversion(json_values.string, Inline(lambda text, at: f"{{string({_rest(text, at)})}}"))
_JSONB = Conversion(json_values.jsonb, Inline(_json_source))
_BOOLEAN = Conversion(json_values.boolean, Inline(lambda text, at: f"{{TRUTH[{_rest(text, at)}]}}"))
_FLOATING = Conversion(json_values.floating, Inline(_as_it_is, lambda text, at: f"{text}[-1] > '9'"))
_DATE = Conversion(datetimes.date, Inline(_as_it_is, datetimes.date_unusual, quoted=True))
_TIMESTAMP = Conversion(
    datetimes.timestamp, Inline(datetimes.timestamp_source, datetimes.timestamp_unusual, quoted=True)
)
_TIMESTAMPTZ = Conversion(
    datetimes.timestamptz, Inline(datetimes.timestamptz_source, datetimes.timestamptz_unusual, quoted=True)
)

# For a numeric with a declared precision: it is a decimal in the change log.
_FINITE = Conversion(json_values.finite, Inline(_as_it_is, lambda text, at: f"{text}[-1] > '9'", quoted=True))

# Oids of built-in types (pg_type.dat). Values of all other types are strings.
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


# For columns that are text in the change log: a document can hold every value of the type.
ANY: dict[int, Conversion] = {
    JSON: _STRING,
    JSONB: _STRING,
    NUMERIC: _QUOTED,
    DATE: Conversion(datetimes.date_text, _DATE.inline, datetimes.date),
    TIMESTAMP: Conversion(datetimes.timestamp_text, _TIMESTAMP.inline, datetimes.timestamp),
    TIMESTAMPTZ: Conversion(datetimes.timestamptz_text, _TIMESTAMPTZ.inline, datetimes.timestamptz),
}

TEMPORAL = frozenset((DATE, TIMESTAMP, TIMESTAMPTZ))


class EnumLabels:
    """Collects the labels that rows of the log have, and that the fingerprint of their table does not have.

    An enum value in the log has the label of its time. A label that is added, used and renamed between two looks at the
    catalogs is in no catalog that was read, and the renamed one looks like one that was only added.

    Args:
        known: The labels that need not be collected, by the oid of their type. Types that are missing are no enums.
        show: Called once with each label that is not known: the oid of its type, and the label.
    """

    def __init__(self, known: Mapping[int, Collection[str]], show: Callable[[int, str], None]) -> None:
        self._known = known
        self._show = show

    def conversion(self, oid: int) -> Convert:
        """Converts labels of one enum to JSON."""
        if oid not in self._known:
            return json_values.string
        return _Converted(oid, self._known[oid], self._show).__getitem__


class _Converted(dict[str, str]):
    """JSON by label, both as byte texts. Labels are few, so it stays small."""

    def __init__(self, oid: int, known: Collection[str], show: Callable[[int, str], None]) -> None:
        super().__init__()
        self._oid = oid
        self._known = known
        self._show = show

    def __missing__(self, text: str) -> str:
        label = text.encode("latin-1").decode(errors="replace")
        if label not in self._known:
            self._show(self._oid, label)
        made = self[text] = json_values.string(text)
        return made


def column_conversion(column: Column, *, in_key: bool = False, labels: EnumLabels | None = None) -> Conversion:
    """The conversion of a column. ``labels`` is shown those of all enum values, except in the bounds of ranges."""
    if column.salt:
        return _hashed(column, labels)
    as_text = column.on_bad_value == "text"
    if not (in_key and column.type.beneath.kind == "array"):
        found = conversion(column.type, as_text=as_text, labels=labels)
    elif as_text:  # Two keys that differ only in their lower bounds would become one.
        found = _STRING
    else:
        found = Conversion(json_values.with_first_bounds(conversion(column.type, labels=labels).convert))
    return _of_characters(found) if column.transcoded and not _is_ascii(column.type.beneath) else found


def _hashed(column: Column, labels: EnumLabels | None) -> Conversion:
    of_text = hashed(column.salt)
    base = column.type.beneath
    if labels is None or base.kind != "enum":
        return Conversion(of_text)
    see = labels.conversion(base.oid)

    def convert(text: str) -> str:
        see(text)
        return of_text(text)

    return Conversion(convert)


def _of_characters(of: Conversion) -> Conversion:
    """The same conversion, for texts that may contain bytes without a character."""
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
    """Whether all texts of the type, which is no domain, are ASCII."""
    return column_type.oid in _BUILT_IN and column_type.oid not in (JSON, JSONB)


def clampable(column: Column) -> bool:
    """Whether a bad value of the column can be clamped: dates and timestamps have a nearest valid value."""
    return column.type.beneath.oid in TEMPORAL and not column.salt


def conversion(column_type: ColumnType, *, as_text: bool = False, labels: EnumLabels | None = None) -> Conversion:
    """The conversion of a type; ``as_text`` in a column that is text in the change log, which holds every value."""
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
        bound = column_type.element.beneath
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


_NUMERIC_HEADER = 4  # VARHDRSZ: the typmod of numeric includes it.
_MOST_DIGITS = 38


def numeric_digits(typmod: int) -> tuple[int, int] | None:
    """Precision and scale of numeric(p,s). None for a numeric without them.

    Source: numeric.c. The scale has eleven bits and, from version 15 on, a sign.
    """
    if typmod < _NUMERIC_HEADER:
        return None
    packed = typmod - _NUMERIC_HEADER
    return packed >> 16 & 0xFFFF, (packed & 0x7FF ^ 0x400) - 0x400


def decimal_digits(typmod: int) -> tuple[int, int] | None:
    """Precision and scale, if the change log has the values as decimals, which cannot hold NaN."""
    digits = numeric_digits(typmod)
    return digits if digits is not None and 0 <= digits[1] <= digits[0] <= _MOST_DIGITS else None


def extension_type(column_type: ColumnType) -> Literal["hstore", "vector", ""]:
    """The name of a type of an extension that has a conversion of its own. Such types have no fixed oid.

    ``vector`` also stands for pgvector's ``halfvec``: the texts of both are JSON arrays.
    """
    # The name comes from format_type: it may be qualified and have a modifier.
    name = column_type.name.rpartition(".")[2].partition("(")[0]
    if column_type.extension == "hstore" and name == "hstore":
        return "hstore"
    if column_type.extension == "vector" and name in ("vector", "halfvec"):
        return "vector"
    return ""


def byte_text(name: str) -> str:
    """A name as a byte text, for conversions and decoders."""
    return name.encode().decode("latin-1")
