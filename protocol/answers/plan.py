"""What a connector would do, before it does anything: the answer to ``validate`` when it is asked for a plan.

With ``TIDEMARK_PLAN=1`` in its environment a connector writes, besides its answer, one log line with ``eventType:
backfillPlan`` whose fields are a ``Plan``. Nothing is created or written at the source for it.
"""

from __future__ import annotations

from pydantic import BaseModel

BACKFILL_PLAN = "backfillPlan"
"""``eventType`` of a plan's log line."""


class TablePlan(BaseModel):
    """How one table would be backfilled.

    Attributes:
        scan: ``key``, ``physical``, ``snapshot`` or ``none``.
        key: The columns by which it is scanned, and which identify its rows.
        ranges: Into how many parts it can be split for several readers; 1 if it cannot.
        rows_estimated: The server's estimate, None when it has none.
        bytes_estimated: Its size on the server's disk, None when that is not known.
        rows_per_second: How fast one reader has just read a first chunk of it; None if none was read.
    """

    scan: str
    key: list[str] = []
    ranges: int = 1
    rows_estimated: int | None = None
    bytes_estimated: int | None = None
    rows_per_second: float | None = None


class Plan(BaseModel):
    """All tables of a capture, by resource path joined with a dot, in the order in which they would be started."""

    readers: int = 1
    tables: dict[str, TablePlan] = {}
