"""The ``backfill`` entry of a connector's configuration, the same for every database."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from captures.contract.source import BackfillOptions
from captures.scheduling.quiet_hours import QuietHours
from protocol.sizes import parse_size

_ROWS = re.compile(r"(\d+(?:\.\d+)?)\s*rows")


def parse_rate(text: str) -> tuple[float | None, float | None]:
    """Reads a rate such as ``20000 rows``, ``10MB`` or ``512 KiB/s``: rows and bytes per second, one of them None.

    Raises:
        ValueError: The text is no rate, or the rate is zero.
    """
    amount = text.strip().removesuffix("/s")
    match = _ROWS.fullmatch(amount)
    try:
        rate = float(match[1]) if match is not None else float(parse_size(amount))
    except ValueError:
        rate = 0.0
    if rate <= 0:
        raise ValueError("a rate is rows or bytes per second, such as '20000 rows' or '10MB'")
    return (rate, None) if match is not None else (None, rate)


class BackfillConfig(BaseModel):
    """How and when tables are backfilled."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    readers: Annotated[
        int, Field(ge=1, le=32, description="Number of chunks read at the same time, each on its own connection")
    ] = 1
    chunk_seconds: Annotated[float, Field(gt=0, le=60, description="Target time for reading a chunk, in seconds")] = 1.0
    chunk_rows: Annotated[
        int | None, Field(ge=1, description="Rows in a chunk; by default adapted to chunk_seconds")
    ] = None
    max_rate: Annotated[
        str | None,
        Field(description="Limit on rows or bytes per second, for all tables together: '20000 rows' or '10MB'"),
    ] = None
    quiet_hours: Annotated[
        str | None,
        Field(description="Hours without backfills: '08:00-20:00 Europe/Berlin'; UTC if no zone is given"),
    ] = None
    max_replica_lag: Annotated[
        float | None, Field(gt=0, description="Replica lag, in seconds, above which chunks wait")
    ] = None

    @field_validator("max_rate")
    @classmethod
    def _is_rate(cls, text: str | None) -> str | None:
        if text is not None:
            parse_rate(text)
        return text

    @field_validator("quiet_hours")
    @classmethod
    def _are_hours(cls, text: str | None) -> str | None:
        if text is not None:
            QuietHours.parse(text)
        return text

    def options(
        self, *, on_lost_position: Literal["fail", "backfill"] = "fail", announced: bool = False
    ) -> BackfillOptions:
        """The options for the engine."""
        rows, size = parse_rate(self.max_rate) if self.max_rate is not None else (None, None)
        return BackfillOptions(
            readers=self.readers,
            chunk_seconds=self.chunk_seconds,
            chunk_rows=self.chunk_rows,
            on_lost_position=on_lost_position,
            announced=announced,
            max_rows_per_second=rows,
            max_bytes_per_second=size,
            quiet_hours=QuietHours.parse(self.quiet_hours) if self.quiet_hours is not None else None,
            max_replica_lag=self.max_replica_lag,
        )
