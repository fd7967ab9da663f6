"""The events of a change log, as the runtime reads them."""

from __future__ import annotations

from collections.abc import Iterator

from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.changelog.events import Event, segment_events


def events(log: ChangeLog, collection: str, start: int | None = None, end: int | None = None) -> Iterator[Event]:
    """The events of a collection with offsets in ``[start, end)``, in order; by default all that are kept."""
    start = log.start() if start is None else start
    end = log.end() if end is None else end
    for segment in log.segments(collection, start, end):
        for event in segment_events(log, segment):
            if start <= event["_offset"] < end:
                yield event
