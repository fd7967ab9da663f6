"""An unreachable source: what to log, how long to wait, and when it is no longer an outage."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from tidemark.captures.contract.errors import AnotherServer, LostPosition
from tidemark.captures.contract.source import OpenedTable
from tidemark.captures.contract.wakeup import Wakeup
from tidemark.captures.scheduling.backoff import Backoff
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

T = TypeVar("T")

SOUND_SECONDS = 10.0
"""A connection that lasted this long, in seconds, worked: an external cause ended it."""

FUTILE_FAILURES = 8
"""After so many failures in a row, each right after a reconnect, the connection is not the cause."""


class Outages:
    """Decides about errors of the log and of queries.

    Args:
        clock: A clock in seconds that never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._backoff = Backoff()
        self._connected_at: float | None = None
        self._futile = 0
        self._since: float | None = None

    def failed(self, error: SourceError) -> float:
        """Logs the error; returns how many seconds to wait before reconnecting.

        Raises:
            SourceError: ``error``, if reconnecting cannot help.
        """
        if isinstance(error, AnotherServer | LostPosition) or error.entry.policy is not Policy.RETRY:
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
            "%s; reconnecting in %.1f s",
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
        """The connection is restored."""
        now = self._clock()
        if self._since is not None:
            logger.info("reconnected after %.1f s", now - self._since)
        self._since = None
        self._connected_at = now

    def progressed(self) -> None:
        """The log has progressed: the next wait is the shortest again."""
        self._backoff.reset()


class Attempt(Generic[T]):
    """Reconnects in a thread, because it may take long and stdin must be answered meanwhile.

    A pending attempt does not keep the process from ending.

    Args:
        connect: Makes the connections.

    Attributes:
        descriptor: Becomes readable when the attempt is over.
    """

    def __init__(self, connect: Callable[[], T]) -> None:
        self._connect = connect
        self._ended = Wakeup()
        self._outcome: Future[T] = Future()
        self.descriptor = self._ended.descriptor
        self._thread = threading.Thread(target=self._run, name="connecting", daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return self._outcome.done()

    def result(self) -> T:
        """The result of ``connect``, once it has ended. Raises its exception."""
        self._thread.join()
        self._ended.close()
        return self._outcome.result()

    def _run(self) -> None:
        try:
            self._outcome.set_result(self._connect())
        except Exception as error:  # noqa: BLE001 - the engine's thread raises what must be raised
            self._outcome.set_exception(error)
        self._ended.set()


def tell_lost(lost: LostPosition, readable: Sequence[OpenedTable]) -> None:
    """Warns of the consequences of a new log: only the ``readable`` tables are read again."""
    logger.warning(
        "%s; these tables are read again: %s. Tables without a scan lose the changes in between",
        lost.message,
        ", ".join(table.name for table in readable) or "none",
        extra={"code": lost.code},
    )
