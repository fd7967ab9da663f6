"""What is known of the verifications that a capture file asks for: when all was compared last, and what is still to be.

It is in the capture's state folder, so that a restart of the capture neither forgets nor repeats one.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.progress.state_folder import StateFolder

logger = logging.getLogger(__name__)

FILE = "verification.json"

FIRST_SECONDS = 600.0
"""How long after a verification that could not compare all tables the next begins; twice as long after each more."""

LAST_SECONDS = 6 * 3600.0
"""The longest of these waits."""


class Lacking(BaseModel):
    """Why a table was not compared.

    Attributes:
        why: For people.
        in_spark: The log was compared, and Spark's table was not.
    """

    model_config = ConfigDict(frozen=True)

    why: str
    in_spark: bool = False


class VerificationRecord(BaseModel):
    """``verification.json``.

    Attributes:
        ended: When all tables were last read and compared, as far as they could be; None before the first time.
        lacking: The tables that could not be compared then, and have not been since.
        failed: Why no table could be compared; empty if that was not so.
        since: When a verification first could not compare all tables, if none has done so since.
        again: When the next one begins that compares what is lacking.
        tries: How many verifications in a row did not compare all tables.
    """

    model_config = ConfigDict(frozen=True)

    ended: datetime | None = None
    lacking: dict[str, Lacking] = {}
    failed: str = ""
    since: datetime | None = None
    again: datetime | None = None
    tries: int = 0

    @classmethod
    def of(cls, folder: StateFolder) -> Self:
        """The one in a capture's state folder; an empty one where there is none, or none that can be read."""
        try:
            return cls() if folder.path is None else cls.model_validate_json((folder.path / FILE).read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValidationError) as error:
            reason = str(error).splitlines()[0]
            logger.warning("%s cannot be read, so tables are verified as if none ever was (%s)", FILE, reason)
            return cls()

    def save(self, folder: StateFolder) -> None:
        """Writes it. Raises ChangeLogError: ``TM-LOG-008`` it cannot be written."""
        if (path := folder.path) is not None:
            with writing(str(path / FILE)):
                DirectoryStore(path).replace(FILE, self.model_dump_json().encode())

    def due(self, now: datetime, every: float) -> bool:
        """Whether all tables are to be verified now.

        Args:
            now: The time, in UTC.
            every: Seconds from the end of one verification to the begin of the next.
        """
        return not self.waits(now, every) and not _is_within(self.ended, now, every)

    def retry_due(self, now: datetime, every: float) -> bool:
        """Whether the tables are to be verified now that are lacking. The arguments are those of ``due``."""
        return bool(self.lacking) and not self.waits(now, every)

    def waits(self, now: datetime, every: float) -> bool:
        """Whether nothing is to begin, since the last verification did not compare all tables just before."""
        wait = self._wait(every)
        return self.again is not None and _is_within(self.again - timedelta(seconds=wait), now, wait)

    def after(
        self, now: datetime, every: float, lacking: dict[str, Lacking], *, all_tables: bool
    ) -> VerificationRecord:
        """The record after a verification that has ended.

        Args:
            now: The time, in UTC.
            every: As of ``due``.
            lacking: The tables that it did not compare.
            all_tables: It was to compare all tables, and not only those that were lacking.
        """
        ended = now if all_tables else self.ended
        if not lacking:
            return VerificationRecord(ended=ended)
        return self._tried(now, every).model_copy(update={"ended": ended, "lacking": lacking, "failed": ""})

    def after_failure(self, now: datetime, every: float, why: str, *, forget: bool = False) -> VerificationRecord:
        """The record after one that compared nothing.

        Args:
            now: The time, in UTC.
            every: As of ``due``.
            why: For people.
            forget: The tables that are lacking are not known any more: all are to be verified.
        """
        ends: dict[str, Any] = {"ended": None, "lacking": {}} if forget else {}
        return self._tried(now, every).model_copy(update={"failed": why, **ends})

    def as_json(self, every: float, now: datetime) -> dict[str, Any]:
        """For programs: ``late`` once tables have been lacking for longer than the time between two verifications."""
        late = self.since is not None and (now - self.since).total_seconds() > every
        return {**self.model_dump(mode="json", exclude={"tries"}), "late": late}

    def _tried(self, now: datetime, every: float) -> VerificationRecord:
        tried = self.model_copy(update={"tries": self.tries + 1, "since": self.since or now})
        return tried.model_copy(update={"again": now + timedelta(seconds=tried._wait(every))})

    def _wait(self, every: float) -> float:
        wait: float = min(FIRST_SECONDS * 2 ** min(max(self.tries - 1, 0), 16), LAST_SECONDS)
        return max(FIRST_SECONDS, min(wait, every))


def _is_within(begin: datetime | None, now: datetime, seconds: float) -> bool:
    """Whether a span of time is not over. One that begins after now is: the clock was set back."""
    return begin is not None and 0 <= (now.astimezone(UTC) - begin).total_seconds() < seconds
