"""The ``backfill`` entry of a connector's configuration, the same for every database."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, NamedTuple, Self

from pydantic import Field, GetPydanticSchema
from pydantic_core.core_schema import no_info_after_validator_function, str_schema

from tidemark.captures.scheduling.quiet_hours import QuietHours
from tidemark.captures.server.strict_config import Strict
from tidemark.protocol.sizes import parse_size

_ROWS = re.compile(r"(\d+(?:\.\d+)?)\s*rows")


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


def _written(parse: Callable[[str], object]) -> GetPydanticSchema:
    """The type of a value that is a text in the configuration."""
    return GetPydanticSchema(lambda _, __: no_info_after_validator_function(parse, str_schema()))


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
