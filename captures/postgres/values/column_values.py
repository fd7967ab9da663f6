"""How a column's texts become JSON many at a time: the calls that Python makes in C cost less than a loop's steps.

What is here is right for usual texts and raises for others, which ``captures.postgres.values.json_values`` then takes
one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from captures.postgres.values import json_values as values
from captures.postgres.values.json_values import Convert
from captures.postgres.values.types import Conversion

Texts = list[str]
"""Of one column, all of them byte texts (see ``captures.postgres.values.json_values``). At least one."""


@dataclass(frozen=True, slots=True)
class ColumnConvert:
    """Does what a ``Convert`` does, for many texts.

    Attributes:
        convert: Raises ValueError or LookupError when a text is not usual; it may be right all the same.
        quoted: What ``convert`` makes goes between double quotes, which it leaves out.
    """

    convert: Callable[[Texts], Texts]
    quoted: bool = False


_LAST = itemgetter(-1)
_BEFORE_TIME = itemgetter(10)
"""The blank between date and time, in years of four digits."""


def _unchanged(texts: Texts) -> Texts:
    return texts


def _strings(texts: Texts) -> Texts:
    return list(map(values.string, texts))


def _booleans(texts: Texts) -> Texts:
    return list(map(values.TRUTH.__getitem__, texts))


def _floating(texts: Texts) -> Texts:
    if max(map(_LAST, texts)) > "9":
        raise ValueError("not all are numbers")
    return texts


def _finite(texts: Texts) -> Texts:
    if "NaN" in texts:
        raise ValueError("not all are numbers")
    return texts


def _dates(texts: Texts) -> Texts:
    if set(map(len, texts)) != {10}:
        raise ValueError("an infinity, a year of more than four digits, or before the year 1")
    return texts


def _jsonb(texts: Texts) -> Texts:
    if max(map(len, texts)) >= values.SHORT_JSON:
        raise ValueError("some may be nested deeply")
    return texts


def _timestamps(texts: Texts) -> Texts:
    joined = "\t".join(texts)
    _check_blanks(texts, joined)
    return joined.replace(" ", "T").split("\t")


def _timestamps_with_zone(texts: Texts) -> Texts:
    joined = "\t".join(texts) + "\t"
    _check_blanks(texts, joined)
    if joined.count("+00\t") != len(texts):
        raise ValueError("another zone than UTC")
    return joined.replace(" ", "T").replace("+00\t", "Z\t")[:-1].split("\t")


def _check_blanks(texts: Texts, joined: str) -> None:
    """One blank each, where it is in years of four digits; "infinity" has none, and there is one before "BC"."""
    if joined.count(" ") != len(texts) or set(map(_BEFORE_TIME, texts)) != {" "}:
        raise ValueError("not the usual form")


_CONVERTS: dict[Convert, ColumnConvert] = {
    values.verbatim: ColumnConvert(_unchanged),
    values.quoted: ColumnConvert(_unchanged, quoted=True),
    values.finite: ColumnConvert(_finite, quoted=True),
    values.string: ColumnConvert(_strings),
    values.boolean: ColumnConvert(_booleans),
    values.floating: ColumnConvert(_floating),
    values.jsonb: ColumnConvert(_jsonb),
    values.date: ColumnConvert(_dates, quoted=True),
    values.timestamp: ColumnConvert(_timestamps, quoted=True),
    values.timestamptz: ColumnConvert(_timestamps_with_zone, quoted=True),
}


def column_convert(conversion: Conversion) -> ColumnConvert:
    """The same for many texts."""
    convert = conversion.convert
    return _CONVERTS.get(conversion.usual or convert) or ColumnConvert(lambda texts: list(map(convert, texts)))
