"""How far the consumers of a log are behind it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.consumers import consumers
from tidemark.protocol.errors import ChangeLogError


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """One consumer.

    Attributes:
        name: Its name.
        position: It needs nothing below this offset.
        seen: When it said so.
        behind: How many events come after that, of all tables.
        since: When the first of these reached the log; None if there is none.
        lost: How many of them are not kept any more: it registered when they were gone.
    """

    name: str
    position: int
    seen: datetime
    behind: int
    since: datetime | None
    lost: int

    def as_json(self) -> dict[str, Any]:
        """All but its name, for programs."""
        return {
            "position": self.position,
            "seen": self.seen.isoformat(),
            "behind": self.behind,
            "since": None if self.since is None else self.since.isoformat(),
            "lost": self.lost,
        }


@dataclass(frozen=True, slots=True)
class KeptAndRead:
    """What a log keeps, and who reads it.

    Attributes:
        first_offset: Of the first event that is kept, or what it would be.
        consumers: Those that the log knows, the one that is furthest behind first.
        unknown: Why they are not known, for people; empty if they are.
    """

    first_offset: int
    consumers: list[ConsumerLag]
    unknown: str = ""


def kept_and_read(log: ChangeLog) -> KeptAndRead:
    """What a log keeps, and who reads it: a damaged file of a consumer hides nothing else. Raises as ``ChangeLog``."""
    start = log.start()
    try:
        return KeptAndRead(start, consumer_lags(log))
    except ChangeLogError as error:
        return KeptAndRead(start, [], f"{error.code}: {error.message}; what to do: {error.remedy}")


def consumer_lags(log: ChangeLog) -> list[ConsumerLag]:
    """The consumers of a log, the one that is furthest behind first. Raises as ``consumers`` and ``ChangeLog``."""
    start, end = log.start(), log.end()
    return [
        ConsumerLag(
            one.name,
            one.position,
            one.updated,
            max(end - one.position, 0),
            log.time_of(max(one.position, start)) if max(one.position, start) < end else None,
            max(start - one.position, 0),
        )
        for one in consumers(log.store)
    ]
