"""The options of the ``tidemark`` data source."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from protocol.errors import SparkError
from spark_sink.source.followed_log import FollowedLog, Limits

EVENTS_PER_BATCH = 1_000_000
"""The default of ``maxEventsPerBatch``."""

_NAMES = ("path", "table", "startingOffset", "endingOffset", "maxEventsPerBatch", "maxBytesPerBatch")
_OF_STATE = ("asOf", "warehouse")
_OF_EVENTS = ("startingOffset", "endingOffset")
_FILE = "file://"
_TYPO = 0.8


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options as given, checked as far as that goes without opening the log.

    Attributes:
        path: Of the change log, absolute: executors may run in another directory.
        table: As given, empty when it is not.
        starting: ``earliest``, ``latest``, an offset, or an ISO 8601 time (UTC when it has no zone).
        ending: As ``starting``; an exclusive end.
        limits: Of one batch of a stream.
        state: Whether to read the table's rows, not its events.
        as_of: With ``state``: an offset or a time; None for now.
        warehouse: With ``state``: where tables are kept, absolute; None to read the log alone.
    """

    path: Path
    table: str
    starting: str
    ending: str
    limits: Limits
    state: bool = False
    as_of: str | None = None
    warehouse: Path | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Reads Spark's options, whose names have no case.

        Raises:
            SparkError: ``TM-SPK-003`` for an option that is missing, misspelt or no option of this source.
        """
        given = {name.lower(): value.strip() for name, value in options.items()}
        known = {name.lower(): name for name in (*_NAMES, "state", *_OF_STATE)}
        for name in given.keys() - known.keys():
            if near := difflib.get_close_matches(name, known, n=1, cutoff=_TYPO):
                raise SparkError("TM-SPK-003", f"option {name} is unknown; did you mean {known[near[0]]}?")
        path = given.get("path", "")
        if path.startswith(_FILE):
            path = path.removeprefix(_FILE)
        if not path:
            raise SparkError("TM-SPK-003", "option path is missing: the directory of the change log")
        if "://" in path:
            raise SparkError("TM-SPK-003", f"option path is {path}: this version reads change logs in directories only")
        state = _is_state(given.get("state", "events"))
        for name in _OF_EVENTS if state else _OF_STATE:
            if name.lower() in given:
                raise SparkError("TM-SPK-003", f"option {name} goes with state={'events' if state else 'current'} only")
        warehouse = given.get("warehouse")
        return cls(
            path=Path(path).absolute(),
            table=given.get("table", ""),
            starting=given.get("startingoffset", "earliest"),
            ending=given.get("endingoffset", "latest"),
            limits=Limits(
                _positive("maxEventsPerBatch", given.get("maxeventsperbatch")) or EVENTS_PER_BATCH,
                _positive("maxBytesPerBatch", given.get("maxbytesperbatch")),
            ),
            state=state,
            as_of=given.get("asof"),
            warehouse=Path(warehouse.removeprefix(_FILE)).absolute() if warehouse else None,
        )

    def required_table(self) -> str:
        """The table. Raises ``TM-SPK-003`` when none is given."""
        if not self.table:
            raise SparkError("TM-SPK-003", "option table is missing: schema.table, as in the source")
        return self.table


def resolve_offset(option: str, text: str, log: FollowedLog) -> int:
    """The offset that ``earliest``, ``latest``, a number or a time means in a log now.

    A time means the first event that reached the log at that time or later.

    Raises:
        SparkError: ``TM-SPK-003`` when it is none of these, ``TM-SPK-006`` for an offset beyond the end of the log.
    """
    if text.lower() == "earliest":
        return 0
    if text.lower() == "latest":
        return log.end()
    if text.isascii() and text.isdigit():
        offset, end = int(text), log.end()
        if offset > end:
            raise SparkError("TM-SPK-006", f"option {option} is {offset}, but the log at {log.root} ends at {end}")
        return offset
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise SparkError(
            "TM-SPK-003", f"option {option} is {text!r}: not earliest, latest, an offset, nor an ISO 8601 time"
        ) from None
    return log.offset_at(instant if instant.tzinfo else instant.replace(tzinfo=UTC))


def _is_state(text: str) -> bool:
    if text.lower() not in ("events", "current"):
        raise SparkError("TM-SPK-003", f"option state is {text!r}: not events or current")
    return text.lower() == "current"


def _positive(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise SparkError("TM-SPK-003", f"option {option} is {text!r}: not a whole number above zero")
    return int(text)
