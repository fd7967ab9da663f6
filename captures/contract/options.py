"""The options of a connector's configuration that the engine follows, the same for every database."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Literal, NamedTuple, Protocol, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema
from pydantic_core.core_schema import no_info_after_validator_function, str_schema

from tidemark.protocol.text.sizes import parse_size

_ROWS = re.compile(r"(\d+(?:\.\d+)?)\s*rows")
_HOURS = re.compile(r"(\d{1,2}:\d{2})\s*-\s*(\d{1,2}:\d{2})(?:\s+(\S+))?")


class Rate(NamedTuple):
    """A limit for all tables together.

    Attributes:
        amount: Rows or bytes per second, more than 0.
        of_rows: It counts rows, not the bytes of their documents.
    """

    amount: float
    of_rows: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads a rate such as ``20000 rows``, ``10MB`` or ``512 KiB/s``.

        Raises:
            ValueError: The text is no rate, or the rate is zero.
        """
        written = text.strip().removesuffix("/s")
        match = _ROWS.fullmatch(written)
        try:
            amount = float(match[1]) if match is not None else float(parse_size(written))
        except ValueError:
            amount = 0.0
        if amount <= 0:
            raise ValueError("a rate is rows or bytes per second, such as '20000 rows' or '10MB'")
        return cls(amount, match is not None)


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
        match = _HOURS.fullmatch(text.strip())
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


def _written(parse: Callable[[str], object]) -> GetPydanticSchema:
    """The type of a value that is a text in the configuration."""
    return GetPydanticSchema(lambda _, __: no_info_after_validator_function(parse, str_schema()))


class BackfillConfig(BaseModel):
    """How and when tables are backfilled."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    readers: Annotated[
        int, Field(ge=1, le=32, description="Number of chunks read at the same time, each on its own connection")
    ] = 1
    chunk_seconds: Annotated[float, Field(gt=0, le=60, description="Target time for reading a chunk, in seconds")] = 1.0
    chunk_rows: Annotated[
        int | None, Field(ge=1, description="Rows in a chunk; by default adapted to chunk_seconds")
    ] = None
    max_rate: Annotated[
        Annotated[Rate, _written(Rate.parse)] | None,
        Field(description="Limit on rows or bytes per second, for all tables together: '20000 rows' or '10MB'"),
    ] = None
    quiet_hours: Annotated[
        Annotated[QuietHours, _written(QuietHours.parse)] | None,
        Field(description="Hours without backfills: '08:00-20:00 Europe/Berlin'; UTC if no zone is given"),
    ] = None
    max_replica_lag: Annotated[
        float | None, Field(gt=0, description="Replica lag, in seconds, above which chunks wait")
    ] = None


class Options(Protocol):
    """The options, as ``tidemark.captures.server.endpoint_config.Endpoint`` describes them."""

    @property
    def on_lost_position(self) -> Literal["fail", "backfill"]: ...

    @property
    def backfill(self) -> BackfillConfig: ...

    @property
    def heartbeat_seconds(self) -> float: ...

    @property
    def asks(self) -> bool: ...

    @property
    def announced(self) -> bool: ...

    @property
    def identifies_columns(self) -> bool: ...
