"""The options of the ``tidemark`` data source."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.protocol.errors import ChangeLogError, SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog, Limits
from tidemark.spark_sink.source.log_path import log_and_warehouse
from tidemark.spark_sink.tables.store_place import StorePlace

EVENTS_PER_BATCH = 1_000_000
"""The default of ``maxEventsPerBatch``."""

NAMES = (
    "path",
    "table",
    "startingOffset",
    "endingOffset",
    "maxEventsPerBatch",
    "maxBytesPerBatch",
    "minPartitions",
    "failOnDataLoss",
    "state",
    "asOf",
    "warehouse",
    "consumer",
)

_OF_EVENTS = ("startingOffset", "endingOffset", "consumer")
_ENDS = ("asOf", "endingOffset", "end")
"""What says up to where to read. It means the same whenever it is asked."""

_OF_STATE = ("asOf", "warehouse")

ALIASES = {
    "startingOffsets": "startingOffset",
    "startingTimestamp": "startingOffset",
    "endingOffsets": "endingOffset",
    "endingTimestamp": "endingOffset",
    "maxOffsetsPerTrigger": "maxEventsPerBatch",
    "maxBytesPerTrigger": "maxBytesPerBatch",
}
"""The names of the same options in Kafka's and Delta's sources."""

_OF_SPARK = {"provider", "location", "owner", "comment", "external", "is_managed_location", "collation"}
"""The options that Spark adds, besides ``option.…``, for a catalog table with this source."""

_SPELLINGS = {name.lower(): name for name in (*NAMES, *ALIASES)}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The given options, checked as far as possible without the log.

    Attributes:
        log: The change log's place.
        table: The given table; empty if none is given.
        starting: ``earliest``, ``latest``, an offset, or an ISO 8601 time (UTC when it has no zone).
        ending: As ``starting``; an exclusive end.
        limits: The limits of one batch of a stream.
        partitions: The minimum number of partitions of a batch, if it has that many segments.
        state: Whether to read the table's rows, not its events.
        as_of: With ``state``: an offset or a time; None for now.
        warehouse: With ``state``: where tables are kept; None to read the log alone.
        consumer: The name under which the log knows a stream, and keeps what it has not read; empty for none.
    """

    log: StorePlace
    table: str
    starting: str
    ending: str
    limits: Limits
    partitions: int
    state: bool = False
    as_of: str | None = None
    warehouse: StorePlace | None = None
    consumer: str = ""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Parses Spark's options, whose names are case-insensitive.

        Raises:
            SparkError: ``TM-SPK-003`` for an option that is missing, wrong, given twice, or none of this source.
        """
        given = _named(options)
        state = given.get("state", "events").lower() == "current"
        for name in _OF_EVENTS if state else _OF_STATE:
            if name in given:
                raise SparkError("TM-SPK-003", f"option {name} is only for state={'events' if state else 'current'}")
        log, warehouse = log_and_warehouse(given.get("path", ""))
        if "warehouse" in given:
            warehouse = StorePlace.of(given["warehouse"], log.settings)
        return cls(
            log=log,
            table=given.get("table", ""),
            starting=given.get("startingOffset", "earliest"),
            ending=given.get("endingOffset", "latest"),
            limits=Limits(
                _positive(given, "maxEventsPerBatch") or EVENTS_PER_BATCH, _positive(given, "maxBytesPerBatch")
            ),
            partitions=_positive(given, "minPartitions") or 1,
            state=state,
            as_of=given.get("asOf"),
            warehouse=warehouse,
            consumer=given.get("consumer", ""),
        )

    def required_table(self) -> str:
        """The table. Raises ``TM-SPK-003`` if none is given."""
        if not self.table:
            raise SparkError("TM-SPK-003", "option table is missing: schema.table, as in the source")
        return self.table


def resolve_range(log: FollowedLog, **named: str) -> tuple[int, int]:
    """The offsets of a batch read, the second exclusive.

    Args:
        log: The change log.
        named: Start and end for ``resolve_offset``, under the names that the user knows.

    Raises:
        SparkError: Those of ``resolve_offset``, and ``TM-SPK-003`` when the end comes before the start.
    """
    (starting, first), (ending, last) = named.items()
    start, end = resolve_offset(starting, first, log), resolve_offset(ending, last, log)
    if start > end:
        raise SparkError("TM-SPK-003", f"{starting} is {start}, after {ending}, which is {end}")
    return start, end


def resolve_offset(option: str, text: str, log: FollowedLog) -> int:
    """The offset that ``earliest``, ``latest``, a number or a time means in the log now.

    A time means the first event that was committed to the log at that time or later.

    Raises:
        SparkError: ``TM-SPK-003`` when it is none of these, or an end that is still to come; ``TM-SPK-006`` for an
            offset beyond the end of the log.
        ChangeLogError: ``TM-LOG-018`` for an offset or a time before its start.
    """
    if text.lower() == "earliest":
        return log.start()
    if text.lower() == "latest":
        return log.end()
    if _whole(text):
        offset, end = int(text), log.end()
        if offset > end:
            raise SparkError("TM-SPK-006", f"option {option} is {offset}, but the log at {log.at} ends at {end}")
        log.log_start.check_offset(offset, log.at.text)
        return offset
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise SparkError(
            "TM-SPK-003", f"option {option} is {text!r}: not earliest, latest, an offset or an ISO 8601 time"
        ) from None
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    if option in _ENDS and instant > datetime.now(UTC):
        raise SparkError(
            "TM-SPK-003", f"option {option} is {text!r}, a time to come: what the log has then is not known"
        )
    found = log.offset_at(instant)
    first = log.log_start.time
    if first is not None and instant <= first:
        what = f"option {option} is {text!r}: the log at {log.at} does not have the events up to {first} any more"
        raise ChangeLogError("TM-LOG-018", what)
    return found


def _named(options: Mapping[str, str]) -> dict[str, str]:
    """The values by the names of ``NAMES``, each checked on its own."""
    values: dict[str, str] = {}
    written: dict[str, str] = {}
    for option, value in options.items():
        folded = option.lower()
        if folded in _OF_SPARK or folded.startswith("option."):
            continue
        spelling = _SPELLINGS.get(folded) or _refuse_unknown(option)
        name = ALIASES.get(spelling, spelling)
        if name in values:
            raise SparkError("TM-SPK-003", f"options {written[name]} and {spelling} are the same: give only one")
        written[name], values[name] = spelling, value.strip()
        is_wrong, what = _CHECKS.get(spelling, (None, ""))
        if is_wrong and is_wrong(values[name]):
            raise SparkError("TM-SPK-003", f"option {spelling} {what.format(values[name])}")
    return {name: value for name, value in values.items() if value}


def _refuse_unknown(option: str) -> str:
    if option.lower() == "paths":
        raise SparkError("TM-SPK-003", "a read has one change log: give one path")
    near = difflib.get_close_matches(option.lower(), _SPELLINGS, n=1, cutoff=0)
    raise SparkError("TM-SPK-003", f"option {option} is unknown; did you mean {_SPELLINGS[near[0]]}?")


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit()


Check = tuple[Callable[[str], bool], str]
"""What is wrong with a value, and how the message about it goes on."""

_IS_JSON: Check = (
    lambda value: value.startswith("{"),
    "is JSON, with an offset for each partition, as for Kafka: a change log has one offset",
)
_IS_NO_TIME: Check = (_whole, "is a number: write the time in ISO 8601")

_CHECKS: dict[str, Check] = {
    "startingOffset": _IS_JSON,
    "startingOffsets": _IS_JSON,
    "startingTimestamp": _IS_NO_TIME,
    "endingOffset": _IS_JSON,
    "endingOffsets": _IS_JSON,
    "endingTimestamp": _IS_NO_TIME,
    "failOnDataLoss": (
        lambda value: value.lower() != "true",
        "can only be true: missing parts of a change log are never skipped",
    ),
    "state": (lambda value: value.lower() not in ("events", "current"), "is {!r}: not events or current"),
}


def _positive(given: Mapping[str, str], option: str) -> int | None:
    text = given.get(option)
    if text is None:
        return None
    if not (_whole(text) and int(text) > 0):
        raise SparkError("TM-SPK-003", f"option {option} is {text!r}: not a whole number above zero")
    return int(text)
