"""A source that cannot be reached for a while: what is told, how long to wait, and when it is no outage any more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from captures.backoff import Backoff
from captures.interface import LostPosition
from protocol.error_codes import Policy
from protocol.errors import SourceError

logger = logging.getLogger(__name__)

SOUND_SECONDS = 10.0
"""A connection that has held for so long was sound: what ended it came from outside."""

FUTILE_FAILURES = 8
"""Failures in a row, each right after the connection was made again: it is not the connection then."""


class Outages:
    """Decides about errors of the log and of questions to the source.

    Args:
        clock: Seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._backoff = Backoff(Random())
        self._connected_at: float | None = None
        self._futile = 0
        self._since: float | None = None

    def failed(self, error: SourceError) -> float:
        """Tells of the error; how many seconds to wait before connecting anew.

        Raises:
            SourceError: ``error``, when connecting anew cannot help.
        """
        if isinstance(error, LostPosition) or error.entry.policy is not Policy.RETRY:
            raise error
        now = self._clock()
        if self._connected_at is not None:
            self._futile = 0 if now - self._connected_at >= SOUND_SECONDS else self._futile + 1
            self._connected_at = None
            if self._futile >= FUTILE_FAILURES:
                raise error
        if self._since is None:
            self._since = now
        wait = self._backoff.failed()
        logger.warning(
            "%s; connecting anew in %.1f s",
            error.message,
            wait,
            extra={"code": error.code, "away_seconds": round(now - self._since, 1)},
        )
        return wait

    @property
    def away_seconds(self) -> float:
        """How long the present outage has lasted; 0 while there is none."""
        return 0.0 if self._since is None else self._clock() - self._since

    def connected(self) -> None:
        """There is a connection again."""
        now = self._clock()
        if self._since is not None:
            logger.info("connected again after %.1f s", now - self._since)
        self._since = None
        self._connected_at = now

    def progressed(self) -> None:
        """Something came of the log: the waits begin from the shortest again."""
        self._backoff.reset()
