"""The session of a job, which may open in the background while the job still finds out what to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidemark.spark_sink.spark.failures import spark_exceptions, tidemark_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)


class OpeningSession:
    """Opens a session once, when it is first needed or ahead of that. A session that is ours ends with the block.

    Args:
        open_: Opens the session, and says whether it is ours to stop. It may run in another thread.
    """

    def __init__(self, open_: Callable[[], tuple[SparkSession, bool]]) -> None:
        self._open = open_
        self._opened: Future[tuple[SparkSession, bool]] | None = None

    def begin(self) -> None:
        """Opens the session in the background."""
        if self._opened is None:
            self._opened = Future()
            # A program that is interrupted does not wait for a JVM to start.
            threading.Thread(target=self._fulfil, args=[self._opened], name="open session", daemon=True).start()

    def session(self) -> SparkSession:
        """The session. Waits until it is open.

        Raises:
            SparkError: As ``session.open_session``.
        """
        if self._opened is None:
            self._opened = Future()
            self._fulfil(self._opened)
        return self._opened.result()[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        opened = self._opened
        if opened is None or (kind is KeyboardInterrupt and not opened.done()):
            return
        # A session that could not be opened has nothing to stop. Whoever asked for it has the error.
        if opened.exception() is None:
            session, ours = opened.result()
            if ours:
                try:
                    session.stop()
                except spark_exceptions() as failure:
                    # Its JVM has ended, and with it the session: whoever used it has the error.
                    logger.debug("the Spark session could not be stopped: %s", tidemark_error(failure).message)

    def _fulfil(self, promised: Future[tuple[SparkSession, bool]]) -> None:
        try:
            promised.set_result(self._open())
        except BaseException as error:  # noqa: BLE001 - whoever asks for the session raises it
            promised.set_exception(error)
