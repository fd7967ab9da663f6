"""Where a change log begins, once retention has removed what came before."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict

from tidemark.protocol.errors import ChangeLogError


class LogStart(BaseModel):
    """The commits before ``number`` and the events before ``offset`` are no part of the log any more: their files go.

    It is always the commit after a summary: so it is known what all commits before it have come to. It moves forward
    only.

    Attributes:
        number: Of the first commit that the log has.
        offset: Of the first event, or what it would be.
        time: Of the last commit that it does not have; None for a log that has all.
        digest: The first digits of the hash of the first commit that ended at ``offset``: a reader may stand there.
        moved: The time of the commit since which it is the start.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = 0
    offset: int = 0
    time: datetime | None = None
    digest: str = ""
    moved: datetime | None = None

    def check_commit(self, number: int, place: str) -> None:
        """Makes sure that a log has a commit. Raises ``TM-LOG-018`` for one before its start."""
        if number < self.number:
            raise ChangeLogError(
                "TM-LOG-018", f"{place} begins with commit {self.number}: commit {number} is not kept any more"
            )

    def check_offset(self, offset: int, place: str) -> None:
        """Makes sure that a log has all events from an offset on. Raises ``TM-LOG-018`` for one before its start."""
        if offset < self.offset:
            raise ChangeLogError(
                "TM-LOG-018",
                f"{place} begins at offset {self.offset:,}: the events from {offset:,} on are not kept any more",
            )


def later_start(known: LogStart, stated: LogStart | None) -> LogStart:
    """The start of a log after a commit, or a summary, that may state one."""
    return known if stated is None or stated.number <= known.number else stated
