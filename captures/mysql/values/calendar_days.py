"""Checks days: the server also stores zero dates, dates with zero parts, and days that no calendar has."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from typing import TypeVar

from tidemark.captures.tables.bad_values import BadValue

K = TypeVar("K")
V = TypeVar("V")

_REMEMBERED = 100_000
"""Results that are remembered before all are forgotten."""

_MIDNIGHT = "00:00:00.000000"
_END_OF_DAY = "23:59:59.999999"


class BadDay(BadValue):
    """A day that is none of the years 1 to 9999; ``later``: it is after the nearest one that is."""

    def __init__(self, reason: str, nearest: str, *, later: bool) -> None:
        super().__init__(reason, nearest=nearest)
        self.later = later

    def with_clock(self, digits: int) -> BadValue:
        """The same of a moment on that day; ``digits`` of a second."""
        clock = _END_OF_DAY if self.later else _MIDNIGHT
        return BadValue(str(self), nearest=f"{self.nearest} {clock[: 9 + digits if digits else 8]}")


def check_day(year: int, month: int, day: int) -> None:
    """Raises BadDay unless it is a day."""
    if 1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]:
        return
    if not (year or month or day):
        raise BadDay("a zero date", "0001-01-01", later=False)
    if year == 0:
        raise BadDay("a date of the year 0", "0001-01-01", later=False)
    if not 1 <= month <= 12:
        raise BadDay("a date with a month of zero", f"{year:04d}-01-01", later=False)
    if day == 0:
        raise BadDay("a date with a day of zero", f"{year:04d}-{month:02d}-01", later=False)
    raise BadDay(
        "a day that its month does not have", f"{year:04d}-{month:02d}-{monthrange(year, month)[1]}", later=True
    )


class Remembered(dict[K, V]):
    """Remembers a function's results: most days of a table or a log occur more than once."""

    def __init__(self, make: Callable[[K], V]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, argument: K) -> V:
        if len(self) >= _REMEMBERED:
            self.clear()
        made = self[argument] = self._make(argument)
        return made


def _checked(text: str) -> str:
    if len(text) != 10:
        raise ValueError("not the text of a day")
    check_day(int(text[:4]), int(text[5:7]), int(text[8:]))
    return text


CALENDAR = Remembered(_checked)
"""Days by themselves, ``2024-01-15``. Raises BadDay, ValueError."""
