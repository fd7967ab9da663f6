"""What a change of a table comes to in the log: whether its rows are read again, and what a reader has meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from tidemark.protocol.changelog.columns.evolution import fits
from tidemark.protocol.changelog.shown import newest_alone, shown
from tidemark.spark_sink.source.followed_log import FollowedLog


class Outcome(Enum):
    """From the one that costs least to the one that costs most; ``page`` says what they mean."""

    FOLLOWED = "followed"
    READ = "read again"
    LAID_OVER = "laid over"
    REPLACED = "replaced"


Outcomes = Mapping[Outcome, Collection[str]]
"""Which changes come to it, by their names. One whose outcome depends on the circumstances is in several."""


def listed(names: str) -> frozenset[str]:
    """Names that are separated by white space."""
    return frozenset(names.split())


def outcome(log: FollowedLog, collection: str, rows: int) -> Outcome:
    """What the changes of a table came to.

    Args:
        log: Up to where they are done.
        collection: Of the table.
        rows: How many were read before them.
    """
    newest = newest_alone(log.summary(), collection)
    assert newest is not None
    found = [Outcome.FOLLOWED]
    while newest.newest.number > 1:
        begin = newest.newest.begin
        before = shown(log.summary_at(begin), collection)
        assert before is not None
        found.append(Outcome.LAID_OVER if fits(before.schemas, newest.schemas) else Outcome.REPLACED)
        newest = before
    read = sum(segment.snapshot_rows for segment in log.segments(collection, 0, log.end()))
    if len(found) == 1 and read > rows:
        return Outcome.READ
    return max(found, key=list(Outcome).index)
