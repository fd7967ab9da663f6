"""Converts PostgreSQL's texts of dates and timestamps to JSON, for each way in which values are converted.

===========  ============================================================================================
one value    ``date``, ``timestamp``, ``timestamptz``: right for every text. The functions ``…_text`` are for columns
             that are text in the change log, which holds every value.
source       ``…_source`` and ``…_unusual``: for generated decoders of the log, right for usual texts
many values  ``dates``, ``timestamps``, ``timestamps_with_zone``: for columns of chunks, right for usual texts
===========  ============================================================================================

A text is usual if its year has four digits. In other texts the space between date and time is at another place, or
there is no space (``infinity``), or the text ends in ``BC``. Texts are byte texts: see
``tidemark.captures.postgres.values.json_values``.
"""

from __future__ import annotations

import re
from operator import itemgetter

from tidemark.captures.postgres.values.json_values import Convert
from tidemark.captures.tables.bad_values import BadValue

_ENDLESS = ("infinity", "-infinity")
# In an array or a composite there are other values before it and after it.
_BEYOND = r"infinity| BC\M|\m[0-9]{5,}-"
_LEAST = "0001-01-01"
_GREATEST = "9999-12-31"

_DATE = re.compile(r"(\d{4,})(-\d\d-\d\d)( BC)?")
_TIMESTAMP = re.compile(r"(\d{4,})(-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)( BC)?")
_TIMESTAMPTZ = re.compile(r"(\d{4,})(-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)\+00( BC)?")

# One value.


def date(text: str) -> str:
    """A string in ISO 8601. Raises BadValue for an infinity and for years outside 1 to 9999."""
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
    """The error for a text that is not a date or timestamp of the years 1 to 9999."""
    if match is None and text not in _ENDLESS:
        return ValueError("not the text of a date or timestamp")
    what = "infinity" if match is None else "a year before 1" if text.endswith(" BC") else "a year above 9999"
    early = text.endswith(" BC") or text == "-infinity"
    nearest = f"{_LEAST}{first}" if early else f"{_GREATEST}{last}"
    return BadValue(what, nearest=nearest, pattern=_BEYOND)


def date_text(text: str) -> str:
    """Any date: a string in ISO 8601, in the expanded form if necessary. Infinities are as PostgreSQL prints them."""
    return _expanded(text, _DATE.fullmatch(text))


def timestamp_text(text: str) -> str:
    """Any timestamp, as ``date_text``."""
    return _expanded(text, _TIMESTAMP.fullmatch(text))


def timestamptz_text(text: str) -> str:
    """Any timestamp with time zone, as ``date_text``."""
    return _expanded(text, _TIMESTAMPTZ.fullmatch(text), "Z")


def _expanded(text: str, match: re.Match[str] | None, zone: str = "") -> str:
    if match is not None:
        year, *day_and_time, era = match.groups()
        return f'"{_year(year, era)}{"T".join(day_and_time)}{zone}"'
    if text not in _ENDLESS:
        raise ValueError("not the text of a date or timestamp")
    return f'"{text}"'


def _year(digits: str, era: str | None) -> str:
    """The year in ISO 8601. Outside 1 to 9999 it has the expanded form (a sign, six digits). 1 BC is the year 0."""
    year = int(digits) if era is None else 1 - int(digits)
    return f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}" if year < 0 else f"{year:+07d}"


_BOUND = re.compile(r'"([^"]*)"|([^\[\](){},"]+)')


def temporal_range(bound: Convert) -> Convert:
    """A string: a range or multirange with its bounds as ``bound`` converts them. Such bounds need no quotes."""

    def replace(match: re.Match[str]) -> str:
        return bound(match[1] or match[2])[1:-1]

    def convert(text: str) -> str:
        return f'"{text if text == "empty" else _BOUND.sub(replace, text)}"'

    return convert


# Source: the inside of an f-string for the text in a variable, from an index on, and a condition for unusual texts.


def date_unusual(text: str, at: int) -> str:
    return f"len({text}) != {at + 10}"


def timestamp_source(text: str, at: int) -> str:
    return f"{{{text}[{at}:{at + 10}]}}T{{{text}[{at + 11}:]}}"


def timestamp_unusual(text: str, at: int) -> str:
    return f"{text}[{at + 10}:{at + 11}] != ' ' or {text}[-1] == 'C'"


def timestamptz_source(text: str, at: int) -> str:
    return f"{{{text}[{at}:{at + 10}]}}T{{{text}[{at + 11}:-3]}}Z"


def timestamptz_unusual(text: str, at: int) -> str:
    return f"{text}[-3:] != '+00' or {text}[{at + 10}] != ' '"


# Many values, at least one, without quotes. These raise ValueError or LookupError for an unusual text.

_BEFORE_TIME = itemgetter(10)
"""The blank between date and time, in years of four digits."""


def dates(texts: list[str]) -> list[str]:
    if set(map(len, texts)) != {10}:
        raise ValueError("an infinity, a year of more than four digits, or before the year 1")
    return texts


def timestamps(texts: list[str]) -> list[str]:
    joined = "\t".join(texts)
    _check_blanks(texts, joined)
    return joined.replace(" ", "T").split("\t")


def timestamps_with_zone(texts: list[str]) -> list[str]:
    joined = "\t".join(texts) + "\t"
    _check_blanks(texts, joined)
    if joined.count("+00\t") != len(texts):
        raise ValueError("another zone than UTC")
    return joined.replace(" ", "T").replace("+00\t", "Z\t")[:-1].split("\t")


def _check_blanks(texts: list[str], joined: str) -> None:
    """Each text has one space, at its place after a year of four digits. ``infinity`` has none, ``BC`` adds one."""
    if joined.count(" ") != len(texts) or set(map(_BEFORE_TIME, texts)) != {" "}:
        raise ValueError("not the usual form")
