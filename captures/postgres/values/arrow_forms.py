"""How columns are selected, so that their values arrive in Arrow as the change log has them from documents.

ADBC reads binary COPY. Some types arrive as they are; others as another value, or as the server's raw bytes, and these
are selected in a form that arrives. What a form cannot hold, or documents cannot, is found in the arrived values by
``ArrowForm.unusual``: then the rows are read as documents, which know what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import pairwise
from operator import sub
from typing import Literal

from tidemark.captures.postgres.catalog.columns import Column, ColumnType
from tidemark.captures.postgres.values import json_values, types
from tidemark.captures.postgres.values.json_values import Convert
from tidemark.captures.tables.bad_values import SHORT_JSON, BadValue

_TOGETHER = 8

Code = Literal["h", "i", "q"]
"""Integers of two, four and eight bytes, as the module ``struct`` names them."""


@dataclass(frozen=True, slots=True)
class ArrowValues:
    """The values of one column in one record batch. The data of a NULL is zero, or empty.

    Attributes:
        count: How many there are.
        data: The bytes of all values, one after another.
        ends: Of values of any length: 0, and where each of them ends in ``data``.
    """

    count: int
    data: memoryview
    ends: memoryview | None = None

    def numbers(self, code: Code) -> memoryview[int]:
        """The values as integers of one size."""
        return self.data.cast(code)[: self.count]

    def texts(self) -> list[str]:
        """The values of any length as byte texts: see ``tidemark.captures.postgres.values.json_values``."""
        assert self.ends is not None
        data = str(self.data, "latin-1")
        return [data[first:end] for first, end in pairwise(self.ends)]

    def has_longer(self, size: int) -> bool:
        """Whether there may be a value of more than ``size`` bytes."""
        assert self.ends is not None
        # Nearly always some values together are shorter: then most ends need not be looked at.
        ends = [*self.ends[::_TOGETHER], self.ends[-1]]
        if max(map(sub, ends[1:], ends)) <= size:
            return False
        return bool(max(map(sub, self.ends[1:], self.ends)) > size)


class KeyTexts(Enum):
    """How the literal texts of keys come from the arrived values."""

    SAME = auto()
    """They are the arrived texts."""
    DIGITS = auto()
    """They are the decimal digits of the arrived integers."""
    SELECTED = auto()
    """Not at all: they are selected in a further column."""


@dataclass(frozen=True, slots=True)
class ArrowForm:
    """The form in which the values of a type arrive.

    Attributes:
        sql: An expression for the column ``{0}``.
        key: How the texts of a key come from the arrived values.
        code: Of those that arrive as integers.
        unusual: Whether there may be one that is not what documents have. None: there is none.
    """

    sql: str = "{0}"
    key: KeyTexts = KeyTexts.SELECTED
    code: Code | None = None
    unusual: Callable[[ArrowValues], bool] | None = None

    @property
    def exact(self) -> bool:
        """Whether every value of the type has a place in a document."""
        return self.unusual is None


LITERAL = "CASE WHEN {0} IS NOT NULL THEN pg_catalog.concat({0}) END"
"""The text by the type's output function, as COPY and the log have it. A cast to text may be another function."""

# Years 1 to 9999, in days since 1970. The driver gives infinities as numbers far outside.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_MICROSECONDS_A_DAY = 86_400_000_000


def _dates(values: ArrowValues) -> bool:
    return _beyond(values.numbers("i"), _FIRST_DAY, _LAST_DAY)


def _timestamps(values: ArrowValues) -> bool:
    # Of the years 1970 to 8815 the highest byte is 0, 1 or 2: a look at these bytes takes no time.
    if not bytes(values.data[7::8]).translate(None, b"\0\1\2"):
        return False
    first, last = _FIRST_DAY * _MICROSECONDS_A_DAY, (_LAST_DAY + 1) * _MICROSECONDS_A_DAY - 1
    return _beyond(values.numbers("q"), first, last)


def _beyond(numbers: memoryview[int], first: int, last: int) -> bool:
    return bool(numbers) and not (first <= min(numbers) and max(numbers) <= last)


_NAN = re.compile(rb"NaN")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def _not_a_number(values: ArrowValues) -> bool:
    return _NAN.search(values.data) is not None


def _json(values: ArrowValues) -> bool:
    return (_HALF.search(values.data) is not None and _bad(json_values.json, values)) or _jsonb(values)


def _jsonb(values: ArrowValues) -> bool:
    return values.has_longer(SHORT_JSON - 1) and _bad(json_values.jsonb, values)


def _bad(convert: Convert, values: ArrowValues) -> bool:
    try:
        for text in values.texts():
            convert(text)
    except BadValue:
        return True
    return False


def _integer(code: Code, sql: str = "{0}") -> ArrowForm:
    return ArrowForm(sql, KeyTexts.DIGITS, code)


_TEXT = ArrowForm(key=KeyTexts.SAME)
_LITERAL = ArrowForm(LITERAL, KeyTexts.SAME)
# The output function itself takes the server an eighth less than ``concat``, which looks for it.
_NUMERIC = ArrowForm("textin(numeric_out({0}))", KeyTexts.SAME)
_DECIMAL = replace(_NUMERIC, unusual=_not_a_number)
_TIMESTAMP = ArrowForm(unusual=_timestamps)

# Oids of built-in types (pg_type.dat).
_CHARS = {"text": 25, "varchar": 1043, "bpchar": 1042, "name": 19}

_FORMS: dict[int, ArrowForm] = {
    types.BOOL: ArrowForm(),
    types.INT2: _integer("h"),
    types.INT4: _integer("i"),
    types.INT8: _integer("q"),
    types.OID: _integer("q", "{0}::int8"),  # It would arrive as a signed number of four bytes.
    # JSON has no negative zero: the sum with 0 has none.
    types.FLOAT8: ArrowForm("{0} + 0::float8"),
    # Not as a number of four bytes: 0.1 is to become the double nearest to 0.1.
    types.FLOAT4: ArrowForm("float8in(float4out({0})) + 0::float8"),
    types.NUMERIC: _NUMERIC,
    types.UUID: ArrowForm("textin(uuid_out({0}))", KeyTexts.SAME),
    types.BYTEA: ArrowForm(),
    types.DATE: ArrowForm(unusual=_dates),
    types.TIMESTAMP: _TIMESTAMP,
    types.TIMESTAMPTZ: _TIMESTAMP,
    # On one line, and without the blanks around a value, as a reader of JSON cuts it out. The value null is NULL.
    types.JSON: ArrowForm(
        "nullif(btrim(translate(textin(json_out({0})), E'\\n\\r', '  '), E' \\t'), 'null')", unusual=_json
    ),
    types.JSONB: ArrowForm("nullif(textin(jsonb_out({0})), 'null')", unusual=_jsonb),
    **dict.fromkeys(_CHARS.values(), _TEXT),
}


def arrow_form(column: Column) -> ArrowForm | None:
    """The form of a column; None if its values have to be read as documents."""
    if column.salt or column.transcoded:
        return None
    form = _of_type(column.type.beneath)
    # Where somebody says what becomes of bad values, there may be some in every chunk.
    return form if form is None or form.exact or column.on_bad_value == "stop" else None


def _of_type(base: ColumnType) -> ArrowForm | None:
    """The form of a type that is no domain."""
    match base.kind:
        case "enum":
            return _LITERAL
        case "range" if base.element is not None and base.element.beneath.oid not in types.TEMPORAL:
            return _LITERAL
        case "base" if not types.extension_type(base):
            if base.oid == types.NUMERIC and types.decimal_digits(base.typmod) is not None:
                return _DECIMAL
            return _FORMS.get(base.oid, _LITERAL)
    return None
