"""Converts all texts of a column at once, to JSON or to what Arrow has: calls in C cost less than the steps of a loop.

These conversions are right for usual texts and raise an error for others. Then
``tidemark.captures.postgres.values.json_values`` converts the texts one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from tidemark.captures.postgres.catalog.columns import Column
from tidemark.captures.postgres.values import datetimes, json_values, types
from tidemark.captures.postgres.values.json_values import Convert
from tidemark.captures.postgres.values.types import Conversion
from tidemark.captures.tables.bad_values import SHORT_JSON

Texts = list[str]
"""The byte texts of one column (see ``tidemark.captures.postgres.values.json_values``). There is at least one."""


@dataclass(frozen=True, slots=True)
class ColumnConvert:
    """A ``Convert`` for many texts.

    Attributes:
        convert: Raises ValueError or LookupError for an unusual text, which may still be right.
        quoted: The caller adds double quotes around the results.
    """

    convert: Callable[[Texts], Texts]
    quoted: bool = False


_LAST = itemgetter(-1)


def _unchanged(texts: Texts) -> Texts:
    return texts


def _strings(texts: Texts) -> Texts:
    return list(map(json_values.string, texts))


def _booleans(texts: Texts) -> Texts:
    return list(map(json_values.TRUTH.__getitem__, texts))


def _floating(texts: Texts) -> Texts:
    if max(map(_LAST, texts)) > "9":
        raise ValueError("not all are numbers")
    return texts


def _finite(texts: Texts) -> Texts:
    if "NaN" in texts:
        raise ValueError("not all are numbers")
    return texts


def _jsonb(texts: Texts) -> Texts:
    if max(map(len, texts)) >= SHORT_JSON:
        raise ValueError("some may be nested deeply")
    return texts


_CONVERTS: dict[Convert, ColumnConvert] = {
    json_values.verbatim: ColumnConvert(_unchanged),
    json_values.quoted: ColumnConvert(_unchanged, quoted=True),
    json_values.finite: ColumnConvert(_finite, quoted=True),
    json_values.string: ColumnConvert(_strings),
    json_values.boolean: ColumnConvert(_booleans),
    json_values.floating: ColumnConvert(_floating),
    json_values.jsonb: ColumnConvert(_jsonb),
    datetimes.date: ColumnConvert(datetimes.dates, quoted=True),
    datetimes.timestamp: ColumnConvert(datetimes.timestamps, quoted=True),
    datetimes.timestamptz: ColumnConvert(datetimes.timestamps_with_zone, quoted=True),
}


def column_convert(conversion: Conversion) -> ColumnConvert:
    """The conversion of a column whose values ``conversion`` converts one by one."""
    convert = conversion.convert
    return _CONVERTS.get(conversion.usual or convert) or ColumnConvert(lambda texts: list(map(convert, texts)))


# Columns of the log in Arrow. A runtime casts texts as documents have them, without quotes. What is no such text is
# sent as the JSON of the document's member (``meta.json`` in docs/protocol.md).


@dataclass(frozen=True, slots=True)
class SentTexts:
    """How the texts of a column are sent.

    Attributes:
        convert: As of ``ColumnConvert``; if it fails, the rows are sent as lines. None: texts are sent as they are.
        json: What is sent is JSON.
    """

    convert: Callable[[Texts], Texts] | None = None
    json: bool = False


_AS_THEY_ARE = SentTexts()
_AS_NUMBERS = frozenset((types.INT2, types.INT4, types.INT8, types.OID))


def _sent_floating(texts: Texts) -> Texts:
    # JSON has no negative zero, and Arrow would parse one.
    if "-0" in texts:
        raise ValueError("a negative zero")
    return texts


def _sent_json(texts: Texts) -> Texts:
    # Without the blanks around a value, as a reader of JSON cuts it out.
    return [json_values.json(text).strip(" \t") for text in texts]


_SENT: dict[Convert, SentTexts] = {
    json_values.quoted: _AS_THEY_ARE,
    json_values.string: _AS_THEY_ARE,
    json_values.floating: SentTexts(_sent_floating),
    json_values.json: SentTexts(_sent_json, json=True),
}


def sent_texts(column: Column, conversion: Conversion) -> SentTexts | None:
    """How the texts of a column are sent that ``conversion`` converts one by one; None if they cannot be."""
    if column.transcoded:
        return None
    convert = conversion.usual or conversion.convert
    base = column.type.beneath
    if convert is json_values.verbatim and base.oid in _AS_NUMBERS:
        return _AS_THEY_ARE
    if base.kind == "enum" and not column.salt:
        return _AS_THEY_ARE if convert is json_values.string else SentTexts(_seen(convert))
    if (known := _SENT.get(convert)) is not None:
        return known
    of_column = column_convert(conversion)
    if of_column.quoted or convert is json_values.boolean:
        return SentTexts(of_column.convert)
    # The log keeps the text of any JSON in a column that is text, and would read this as a string's.
    return None if column.on_bad_value == "text" else SentTexts(of_column.convert, json=True)


def _seen(convert: Convert) -> Callable[[Texts], Texts]:
    """Labels as they are, after ``convert`` was shown each of them."""

    def convert_all(texts: Texts) -> Texts:
        for text in set(texts):
            convert(text)
        return texts

    return convert_all
