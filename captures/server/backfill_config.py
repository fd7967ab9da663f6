"""The ``backfill`` part of a connector's configuration, the same for every kind of database."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from captures.contract.source import BackfillOptions
from captures.scheduling.quiet_hours import QuietHours
from protocol.sizes import parse_size

_ROWS = re.compile(r"(\d+(?:\.\d+)?)\s*rows")


def parse_rate(text: str) -> tuple[float | None, float | None]:
    """Rows and bytes per second, of which one is given: ``20000 rows``, ``10MB``, ``512 KiB/s``.

    Raises:
        ValueError: Another form, or nothing per second.
    """
    amount = text.strip().removesuffix("/s")
    match = _ROWS.fullmatch(amount)
    try:
        rate = float(match[1]) if match is not None else float(parse_size(amount))
    except ValueError:
        rate = 0.0
    if rate <= 0:
        raise ValueError("a rate is rows or bytes per second, as in '20000 rows' or '10MB'")
    return (rate, None) if match is not None else (None, rate)


class BackfillConfig(BaseModel):
    """How tables are backfilled, and when they are not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    readers: Annotated[int, Field(ge=1, le=32, description="Chunks read at the same time, each on a connection")] = 1
    chunk_seconds: Annotated[float, Field(gt=0, le=60, description="How long a chunk should take to read")] = 1.0
    chunk_rows: Annotated[int | None, Field(ge=1, description="Rows in a chunk; adapts when absent")] = None
    max_rate: Annotated[
        str | None,
        Field(description="Most rows or bytes per second, of all tables together: '20000 rows' or '10MB'"),
    ] = None
    quiet_hours: Annotated[
        str | None,
        Field(description="Hours in which nothing is backfilled: '08:00-20:00 Europe/Berlin', in UTC without a zone"),
    ] = None
    max_replica_lag: Annotated[
        float | None, Field(gt=0, description="Seconds that a replica may be behind; further, chunks wait")
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
        """The same for the engine."""
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
