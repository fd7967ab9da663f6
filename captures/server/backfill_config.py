"""The ``backfill`` entry of a connector's configuration, the same for every database."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from captures.contract.source import BackfillOptions
from captures.scheduling.quiet_hours import QuietHours
from captures.server.strict_config import Strict
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


def _readable(parse: Callable[[str], object]) -> AfterValidator:
    """Refuses a text that ``parse`` refuses, and leaves any other as it is."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


class BackfillConfig(Strict):
    """How and when tables are backfilled."""

    readers: Annotated[
        int, Field(ge=1, le=32, description="Number of chunks read at the same time, each on its own connection")
    ] = 1
    chunk_seconds: Annotated[float, Field(gt=0, le=60, description="Target time for reading a chunk, in seconds")] = 1.0
    chunk_rows: Annotated[
        int | None, Field(ge=1, description="Rows in a chunk; by default adapted to chunk_seconds")
    ] = None
    max_rate: Annotated[
        Annotated[str, _readable(parse_rate)] | None,
        Field(description="Limit on rows or bytes per second, for all tables together: '20000 rows' or '10MB'"),
    ] = None
    quiet_hours: Annotated[
        Annotated[str, _readable(QuietHours.parse)] | None,
        Field(description="Hours without backfills: '08:00-20:00 Europe/Berlin'; UTC if no zone is given"),
    ] = None
    max_replica_lag: Annotated[
        float | None, Field(gt=0, description="Replica lag, in seconds, above which chunks wait")
    ] = None

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
