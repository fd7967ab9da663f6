"""Hours of the day without backfills."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo

_FORM = re.compile(r"(\d{1,2}:\d{2})\s*-\s*(\d{1,2}:\d{2})(?:\s+(\S+))?")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Every day from ``begin`` to ``end`` in ``zone``; past midnight if ``end`` is the earlier time."""

    begin: time
    end: time
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads ``08:00-20:00 Europe/Berlin``. The zone is a name of the IANA database; the default is UTC.

        Raises:
            ValueError: Wrong form, no such time or zone, or ``begin`` equals ``end``.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError("quiet hours have the form 08:00-20:00 Europe/Berlin")
        begin, end = (time.fromisoformat(part.rjust(5, "0")) for part in match.group(1, 2))
        if begin == end:
            raise ValueError("quiet hours must not begin and end at the same time")
        try:
            zone = ZoneInfo(match.group(3) or "UTC")
        except (OSError, ValueError, KeyError):  # KeyError: no such zone; the others: a path or a directory.
            raise ValueError(f"there is no time zone {match.group(3)}") from None
        return cls(begin, end, zone)

    def remaining(self, now: float) -> float:
        """Seconds until the hours end; 0 outside of them. ``now``: seconds since the epoch."""
        local = datetime.fromtimestamp(now, self.zone)
        clock = local.time()
        daily = self.begin < self.end
        if not (self.begin <= clock < self.end if daily else clock >= self.begin or clock < self.end):
            return 0.0
        day = local.date() if clock < self.end else local.date() + timedelta(days=1)
        # In UTC, because Python subtracts two times of one zone by the wall clock, even across a clock change.
        until = datetime.combine(day, self.end, self.zone).astimezone(UTC)
        return max(0.0, until.timestamp() - now)
