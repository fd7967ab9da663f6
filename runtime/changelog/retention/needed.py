"""What somebody needs of a log, whatever its age: to build a table again, or to go on reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.protocol.changelog import Consumer, Summary


@dataclass(frozen=True, slots=True)
class Needed:
    """The first offset that somebody needs.

    Attributes:
        offset: The offset; the end of the log if nobody needs an event.
        by: Who needs it, for people; empty for nobody.
    """

    offset: int
    by: str = ""


def needed(summary: Summary, captured: Iterable[str], consumers: Iterable[Consumer]) -> Needed:
    """What is needed of a log.

    A table that is captured needs all events since its last whole generation began, or since its first while none is
    whole: so each can be built again. A consumer needs what it has not read. Events of other tables are not needed.

    Args:
        summary: Of the whole log.
        captured: The collections that are captured now.
        consumers: Those that are registered.
    """
    found = [Needed(one.position, f"the consumer {one.name}") for one in consumers]
    for collection in captured:
        if known := summary.generations.get(collection):
            found.append(Needed(known[0].begin, f"generation {known[0].number} of {collection.replace('/', '.')}"))
    return min(found, key=lambda one: one.offset, default=Needed(summary.next_offset))
