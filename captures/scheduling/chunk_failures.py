"""The consequences for a chunk that could not be read, and for its table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from tidemark.backfill.range_scan import RangeScan
from tidemark.captures.contract.errors import TableAltered, TableAway, UnfitValues
from tidemark.captures.contract.source import Source
from tidemark.captures.readers.reader_pool import ChunkFailure
from tidemark.captures.scheduling.backoff import Backoff
from tidemark.captures.scheduling.table_backfill import Flight, TableBackfill
from tidemark.captures.scheduling.table_states import TEXT_LENGTH, LeftOut
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import SourceError, TidemarkError

logger = logging.getLogger(__name__)

MAX_FAILURES = 8
"""Failures in a row after which a table's backfill is suspended: about a minute, with the waits between."""

MAX_ASKED_FAILURES = 3
"""Failures in a row after which a scan that a command asked for is dropped: most often its WHERE is wrong."""

ALTERED_SECONDS = 0.5
"""Seconds before a chunk is retried while it is not yet known how its table changed."""


class Failures:
    """The failures of all tables.

    Args:
        clock: Seconds that only go forward.

    Attributes:
        connect_at: No chunk is started before this time, because a reader could not connect.
        unfit: Tables that chunks found to be unfit, by binding.
    """

    def __init__(self, source: Source, clock: Callable[[], float]) -> None:
        self._source = source
        self._clock = clock
        self._connecting = Backoff()
        self.connect_at = 0.0
        self.unfit: dict[int, SourceError] = {}

    def connected(self) -> None:
        """A chunk was read: its table's failures are over."""
        self._connecting.reset()

    def take(self, backfill: TableBackfill, flight: Flight | None, failure: ChunkFailure) -> None:
        """Postpones the chunk, drops the scan that a command asked for, or suspends the table's backfill.

        Args:
            flight: The chunk; None if it is no longer needed.

        Raises:
            Exception: That of the failure, if it neither concerns the table nor passes.
        """
        error, now = failure.error, self._clock()
        if not isinstance(error, TidemarkError):
            raise error
        passes = error.entry.policy is Policy.RETRY
        if failure.opening:
            if not passes:
                raise error
            wait = self._connecting.failed()
            self.connect_at = now + wait
            logger.warning("%s; retrying in %.1f s", error.message, wait, extra={"code": error.code})
            if flight is not None:
                backfill.put_off(flight, now)
            return
        if isinstance(error, TableAltered):
            self._source.found_altered(backfill.table.binding)
            if flight is not None:
                logger.info("%s", error.message, extra={"code": error.code})
                backfill.put_off(flight, now + ALTERED_SECONDS)
            return
        if flight is None:
            return
        backfill.size.failed()
        backfill.reread_size.failed()
        self.of_table(backfill, flight, error)

    def of_table(self, backfill: TableBackfill, flight: Flight | None, error: TidemarkError) -> None:
        """Counts a failure of the table itself: it is retried later, or its backfill is suspended.

        Args:
            flight: The chunk; None if the snapshot could not be opened in which the table is to be read.
        """
        passes = error.entry.policy is Policy.RETRY
        if isinstance(error, TableAway | UnfitValues):
            self.unfit[backfill.table.binding] = error
            passes = True
        wait = backfill.backoff.failed()
        backfill.error = error
        if flight is None:
            backfill.not_before = self._clock() + wait
        else:
            backfill.put_off(flight, self._clock() + wait)
        asked = flight is not None and flight.scan.range.asked
        if passes and backfill.backoff.failures < (MAX_ASKED_FAILURES if asked else MAX_FAILURES):
            logger.warning("%s; retrying in %.1f s", error.message, wait, extra={"code": error.code})
        elif flight is not None and asked:
            _give_up(backfill, flight.scan, error)
        else:
            leave_alone(backfill, error)


def _give_up(backfill: TableBackfill, scan: RangeScan, error: TidemarkError) -> None:
    """The scan that a command asked for cannot be read: the command is wrong, and not the table."""
    logger.warning(
        "%s; the part of %s that a command asked for is not read",
        error.message,
        backfill.table.name,
        extra={"code": error.code},
    )
    text, backfill.error = str(error)[:TEXT_LENGTH], None
    if scan.range.compared and backfill.verification is not None:
        backfill.verification.failure = text
    else:
        backfill.dropped = text
    scan.cancel()
    backfill.take_up()


def leave_alone(backfill: TableBackfill, error: TidemarkError) -> None:
    """Suspends the table's backfill: no chunk is started until it is resumed."""
    logger.warning(
        "%s; the backfill of %s is suspended, its changes are still captured. Fix the cause, then run `tidemark "
        "resume`",
        error.message,
        backfill.table.name,
        extra={"code": error.code, "remedy": error.remedy},
    )
    backfill.failed = backfill.error = error
    backfill.put_off_all(0.0)


def what_is_missing(aside: Sequence[TableBackfill], failed: Sequence[TableBackfill]) -> SourceError | None:
    """The error of a capture that should end once everything is captured; None if everything is.

    Args:
        aside: Tables that are set aside.
        failed: Tables that could not be backfilled.
    """
    if not aside:
        return SourceError("TM-CAP-003", _not_backfilled(failed)) if failed else None
    errors = [(b.table.name, b.capture.error) for b in aside if isinstance(b.capture, LeftOut)]
    listed = [f"{name}: {error.message} ({error.code})" for name, error in errors]
    parts = [f"tables are set aside: {'; '.join(listed)}", *([_not_backfilled(failed)] if failed else [])]
    return SourceError("TM-CAP-007", "; ".join(parts))


def _not_backfilled(failed: Sequence[TableBackfill]) -> str:
    listed = [f"{each.table.name}: {each.failed.message} ({each.failed.code})" for each in failed if each.failed]
    return f"tables could not be backfilled: {'; '.join(listed)}"
