"""What a writer does for its log besides writing it: at once, or in a thread that gives way to all others."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.compaction.compaction import Compaction
from tidemark.runtime.changelog.compaction.runs import EVERYTHING, RunLimits
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.retention.retention import Retention

if TYPE_CHECKING:
    from tidemark.runtime.changelog.writer import LogWriter

LOOK_SECONDS = 1.0
"""Between two looks at how much has come, and whether somebody asks."""

RETENTION_SECONDS = 60.0
"""Between two looks at what can go."""

_NICENESS = 10
T = TypeVar("T")


class UpkeepStoppedError(Exception):
    """It was asked to end: what was begun is undone, or the next writer ends it."""


@dataclass(frozen=True, slots=True)
class UpkeepRules:
    """What is done for a log.

    Attributes:
        limits: How much is compacted at a time.
        grace: How long files stay that were replaced, or that are not kept any more.
        retain: How much of the log stays; None for all of it.
        captured: Returns the collections that are captured now.
        renew: Has tables read again that were read too long ago; None for none.
    """

    limits: RunLimits
    grace: timedelta
    retain: Retain | None = None
    captured: Callable[[], Iterable[str]] = tuple
    renew: Callable[[ChangeLog], None] | None = None


class Upkeep:
    """Does it for a writer.

    Args:
        writer: Of the log.
        rules: What is done.
        commit: Returns once the writer has made a commit.
        tell: Is called with what is damaged, and stays as it is.
        go_on: Is asked every now and then; raises to end.
    """

    def __init__(
        self,
        writer: LogWriter,
        rules: UpkeepRules,
        commit: Callable[[], object],
        tell: Callable[[ChangeLogError], None],
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        self._rules = rules
        self._log = ChangeLog(writer.store)
        self._compaction = Compaction(writer, self._log, rules.grace, commit, tell, go_on)
        self._retention = Retention(writer, self._log, rules.retain, rules.captured, rules.grace, commit, go_on)

    def compact(self, limits: RunLimits) -> int:
        """Compacts what is due by some limits, and returns how many commits were. Raises as ``Compaction.once``."""
        before = self._compaction.compacted
        self._compaction.once(limits)
        return self._compaction.compacted - before

    def retain(self) -> None:
        """Removes what is not kept any more, and has tables read again. Raises as ``Retention.once``."""
        self._retention.once()
        if self._rules.renew is not None:
            self._rules.renew(self._log)


class UpkeepThread:
    """Does it in the background until it is closed. What fails is told, and tried again later.

    Args:
        writer: Of the log.
        rules: What is done.
        tell: Is called with what failed, once for each message.
        asked: Whether somebody asks that everything is done now.
        done: Says that it is.
        every: Seconds between two looks at what can go.
    """

    def __init__(
        self,
        writer: LogWriter,
        rules: UpkeepRules,
        tell: Callable[[Exception], None],
        asked: Callable[[], bool],
        done: Callable[[], None],
        every: float = RETENTION_SECONDS,
    ) -> None:
        self._stopped = threading.Event()
        self._writer = writer
        self._rules = rules
        self._tell = tell
        self._asked = asked
        self._done = done
        self._every = every
        self._looked: float | None = None
        self._told: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends it, and waits until it has."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # On Linux: of this thread alone.
        upkeep: Upkeep | None = None
        with suppress(UpkeepStoppedError):
            while not self._stopped.wait(LOOK_SECONDS):
                if upkeep is None:
                    upkeep = self._done_of(self._upkeep)
                if upkeep is not None:
                    self._look(upkeep)

    def _upkeep(self) -> Upkeep:
        return Upkeep(self._writer, self._rules, self._wait_for_commit, self._tell_once, self._go_on)

    def _look(self, upkeep: Upkeep) -> None:
        asked = self._done_of(self._asked) or False
        limits = EVERYTHING if asked else self._rules.limits
        is_compacted = self._done_of(lambda: upkeep.compact(limits)) is not None
        now = time.monotonic()
        if asked or self._looked is None or now - self._looked >= self._every:
            self._looked = now
            self._done_of(upkeep.retain)  # What cannot be compacted can go all the same.
        if asked and is_compacted:
            self._done_of(self._done)

    def _done_of(self, do: Callable[[], T]) -> T | None:
        """What something returns; None where it fails, which is told."""
        try:
            return do()
        except UpkeepStoppedError:
            raise
        except Exception as error:  # noqa: BLE001 - nobody else would tell it, and the capture goes on
            self._tell_once(error)
            return None

    def _tell_once(self, error: Exception) -> None:
        if (message := str(error)) not in self._told:
            self._told.add(message)
            self._tell(error)

    def _wait_for_commit(self) -> None:
        while self._writer.has_to_say:
            if self._stopped.wait(0.1):
                raise UpkeepStoppedError

    def _go_on(self) -> None:
        if self._stopped.is_set():
            raise UpkeepStoppedError
