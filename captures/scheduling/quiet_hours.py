"""Hours of the day in which backfills leave the source alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo

_FORM = re.compile(r"(\d{1,2}:\d{2})\s*-\s*(\d{1,2}:\d{2})(?:\s+(\S+))?")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Every day from ``begin`` to ``end`` by the clock of ``zone``; past midnight when ``end`` is the earlier one."""

    begin: time
    end: time
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads ``08:00-20:00 Europe/Berlin``; without a zone (a name of the IANA database) it is UTC.

        Raises:
            ValueError: Another form, no such time of day, no such zone, or hours without length.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise ValueError("quiet hours have the form 08:00-20:00 Europe/Berlin")
        begin, end = (time.fromisoformat(part.rjust(5, "0")) for part in match.group(1, 2))
        if begin == end:
            raise ValueError("quiet hours must not begin and end at the same time")
        try:
            zone = ZoneInfo(match.group(3) or "UTC")
        except (OSError, ValueError, KeyError):  # No such key is KeyError; a path or a directory are the others.
            raise ValueError(f"there is no time zone {match.group(3)}") from None
        return cls(begin, end, zone)

    def remaining(self, now: float) -> float:
        """Seconds until they are over, 0 when they are not on. ``now`` in seconds since the epoch."""
        local = datetime.fromtimestamp(now, self.zone)
        clock = local.time()
        daily = self.begin < self.end
        if not (self.begin <= clock < self.end if daily else clock >= self.begin or clock < self.end):
            return 0.0
        day = local.date() if clock < self.end else local.date() + timedelta(days=1)
        # In UTC: between two times of one zone Python counts by the wall clock, also across a change of it.
        until = datetime.combine(day, self.end, self.zone).astimezone(UTC)
        return max(0.0, until.timestamp() - now)
