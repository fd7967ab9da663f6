"""The metrics of ``tidemark capture``: names, labels and help texts. ``docs/metrics.md`` is made from them.

Names follow the OpenMetrics specification 1.0: base units, ``_total`` for what is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["gauge", "counter", "histogram", "info"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A family of metrics.

    Attributes:
        name: Of the family; samples of a counter have ``_total`` behind it, those of an info ``_info``.
        kind: Of the family.
        help: A sentence.
        labels: What tells its samples from each other.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = field(default=())

    @property
    def sample(self) -> str:
        """The name that a query asks for."""
        return self.name + {"counter": "_total", "info": "_info"}.get(self.kind, "")


CAPTURE = Metric("tidemark_capture", "info", "The capture and the version that runs it", ("capture", "version"))
LAG = Metric(
    "tidemark_lag_seconds",
    "gauge",
    "How far the capture is behind its source; absent while the source has given no sign of life",
)
CAUGHT_UP = Metric(
    "tidemark_caught_up", "gauge", "1 if every backfill is done and the source's log is read to its end, else 0"
)
SOURCE_AWAY = Metric(
    "tidemark_source_away_seconds", "gauge", "For how long the source cannot be reached; 0 while it can"
)
SILENT = Metric(
    "tidemark_connector_silent", "gauge", "1 if the connector says nothing, so that nothing is known, else 0"
)
RETAINED = Metric("tidemark_retained_bytes", "gauge", "Log that the source retains for this capture")
RETAINED_LIMIT = Metric(
    "tidemark_retained_limit_bytes",
    "gauge",
    "Of how many the source drops the capture's position; absent without a limit",
)
RETAINED_LEFT = Metric(
    "tidemark_retained_limit_left_seconds",
    "gauge",
    "Until that limit at the present rate; absent while it does not grow",
)
EVENTS = Metric(
    "tidemark_events",
    "counter",
    "Events that this process committed, by table and phase: snapshot for rows of a backfill, log for changes",
    ("table", "phase"),
)
BYTES = Metric("tidemark_segment_bytes", "counter", "Bytes of the segments that this process committed", ("table",))
COMMITS = Metric("tidemark_commits", "counter", "Commits to the change log by this process")
COMMIT_SECONDS = Metric(
    "tidemark_commit_seconds", "histogram", "From the end of a commit's events until they are durable in the change log"
)
LAST_COMMIT = Metric("tidemark_last_commit_timestamp_seconds", "gauge", "When the last commit became durable")
BACKFILL_ROWS = Metric("tidemark_backfill_rows", "gauge", "Rows that the backfill of a table has read", ("table",))
BACKFILL_ESTIMATE = Metric(
    "tidemark_backfill_estimated_rows",
    "gauge",
    "The source's estimate of a table's rows; absent without one",
    ("table",),
)
BACKFILL_DONE = Metric("tidemark_backfill_done", "gauge", "1 if a table's backfill is done, else 0", ("table",))
BACKFILL_LEFT = Metric(
    "tidemark_backfill_left_seconds",
    "gauge",
    "Until a table's backfill is done at the present rate; absent while unknown",
    ("table",),
)
TABLE_STATE = Metric("tidemark_table_state", "gauge", "1 for the state that a table is in", ("table", "state"))
BAD_VALUES = Metric(
    "tidemark_bad_values",
    "gauge",
    "Values that no document could represent, by the policy that was applied, since the connector started",
    ("table", "policy"),
)
RETRIES = Metric("tidemark_connector_retries", "counter", "How often the connector failed and was opened again")
ERRORS = Metric("tidemark_errors", "counter", "Errors and warnings with a code (docs/errors.md)", ("code",))
UNRESOLVED = Metric("tidemark_unresolved_error", "gauge", "1 for the code of an error that is not resolved", ("code",))

METRICS = (
    *(CAPTURE, LAG, CAUGHT_UP, SOURCE_AWAY, SILENT, RETAINED, RETAINED_LIMIT, RETAINED_LEFT),
    *(EVENTS, BYTES, COMMITS, COMMIT_SECONDS, LAST_COMMIT),
    *(BACKFILL_ROWS, BACKFILL_ESTIMATE, BACKFILL_DONE, BACKFILL_LEFT),
    *(TABLE_STATE, BAD_VALUES, RETRIES, ERRORS, UNRESOLVED),
)

COMMIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds."""
