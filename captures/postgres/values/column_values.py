"""Converts all texts of a column to JSON at once: calls that run in C cost less than the steps of a loop.

These conversions are right for usual texts and raise an error for others. Then
``tidemark.captures.postgres.values.json_values`` converts the texts one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from tidemark.captures.postgres.values import datetimes, json_values
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
