"""The metrics of the commands: names, labels and help texts. ``docs/metrics.md`` is made from them.

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
    "tidemark_source_away_seconds",
    "gauge",
    "For how long the source cannot be reached; 0 while it can, absent while that is unknown",
)
VERIFIED = Metric(
    "tidemark_verified_timestamp_seconds", "gauge", "When a table was last compared with its source", ("table",)
)
VERIFIED_DIFFERENT = Metric(
    "tidemark_verified_different_rows",
    "gauge",
    "Rows that differed from the source when a table was last compared, in the log or in Spark",
    ("table", "in"),
)
SILENT = Metric(
    "tidemark_connector_silent",
    "gauge",
    "1 if there is no connector, or it says nothing, so that nothing is known, else 0",
)
RETAINED = Metric(
    "tidemark_retained_bytes", "gauge", "Log that the source retains for this capture; absent while that is unknown"
)
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

LOG_START = Metric("tidemark_log_first_offset", "gauge", "The offset of the first event that the log keeps")
CONSUMER_BEHIND = Metric(
    "tidemark_consumer_behind_events",
    "gauge",
    "Events of the log, of all its tables, since the position of a consumer; 0 if it lacks none",
    ("consumer",),
)
CONSUMER_BEHIND_SECONDS = Metric(
    "tidemark_consumer_behind_seconds",
    "gauge",
    "The age of the oldest event that a consumer lacks; 0 if it lacks none",
    ("consumer",),
)
CONSUMER_UNSEEN = Metric(
    "tidemark_consumer_unseen_seconds", "gauge", "For how long a consumer has not said where it is", ("consumer",)
)

_KEPT = ("table", "kind")

MATERIALIZE = Metric(
    "tidemark_materialize",
    "info",
    "The capture whose tables are kept, and the version that does it",
    ("capture", "version"),
)
BEHIND = Metric(
    "tidemark_spark_behind_seconds",
    "gauge",
    "The age of the oldest event that a kept table lacks; 0 if it lacks none",
    _KEPT,
)
BEHIND_EVENTS = Metric(
    "tidemark_spark_behind_events",
    "gauge",
    "Events of the log, of all its tables, since the position of a kept table; 0 if it lacks none",
    _KEPT,
)
TABLE_BYTES = Metric(
    "tidemark_spark_table_bytes",
    "gauge",
    "Bytes of the files that a kept table has after its last commit, without those that wait for a vacuum",
    _KEPT,
)
SET_ASIDE = Metric("tidemark_spark_set_aside", "gauge", "1 if a kept table is set aside, else 0", _KEPT)
APPLIED_EVENTS = Metric("tidemark_spark_events", "counter", "Events that this process applied to a kept table", _KEPT)
APPLIED_PARTS = Metric(
    "tidemark_spark_folds", "counter", "How often events were applied to a kept table, by the way", (*_KEPT, "way")
)
APPLY_SECONDS = Metric(
    "tidemark_spark_fold_seconds", "counter", "Time that applying events to a kept table took", _KEPT
)
APPLY_CPU_SECONDS = Metric(
    "tidemark_spark_fold_cpu_seconds",
    "counter",
    "Processor time that applying events took, of executors and of this process",
    _KEPT,
)
APPLY_READ = Metric(
    "tidemark_spark_read_bytes",
    "counter",
    "Bytes of files that applying events read, of the log and of the table",
    _KEPT,
)
APPLY_WRITTEN = Metric("tidemark_spark_written_bytes", "counter", "Bytes of files that applying events wrote", _KEPT)
SPARK_ERRORS = Metric(
    "tidemark_spark_errors", "counter", "Errors by which tables were set aside (docs/errors.md)", ("code",)
)

MATERIALIZE_METRICS = (
    *(MATERIALIZE, BEHIND, BEHIND_EVENTS, TABLE_BYTES, SET_ASIDE, APPLIED_EVENTS, APPLIED_PARTS),
    *(APPLY_SECONDS, APPLY_CPU_SECONDS, APPLY_READ, APPLY_WRITTEN, SPARK_ERRORS),
)

METRICS = (
    *(CAPTURE, LAG, CAUGHT_UP, SOURCE_AWAY, SILENT, RETAINED, RETAINED_LIMIT, RETAINED_LEFT),
    *(EVENTS, BYTES, COMMITS, COMMIT_SECONDS, LAST_COMMIT),
    *(BACKFILL_ROWS, BACKFILL_ESTIMATE, BACKFILL_DONE, BACKFILL_LEFT),
    *(TABLE_STATE, BAD_VALUES, RETRIES, ERRORS, UNRESOLVED),
    *(VERIFIED, VERIFIED_DIFFERENT),
    *(LOG_START, CONSUMER_BEHIND, CONSUMER_BEHIND_SECONDS, CONSUMER_UNSEEN),
)

COMMIT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds."""
