"""Compacts the log of a capture at once: itself, or by asking the capture that runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.runtime.changelog.compaction.runs import EVERYTHING
from tidemark.runtime.changelog.upkeep import Upkeep
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.sessions.known_log import KnownLog
from tidemark.runtime.sessions.owned_log import OwnedLog
from tidemark.runtime.steering.waiting_commands import WaitingCommands
from tidemark.runtime.upkeep.rules import upkeep_rules

_OWNED = ("TM-LOG-006", "TM-LOG-015")
"""Another process writes the log."""

_LOOK_SECONDS = 0.2
_FAR_SECONDS = 2.0
"""Where a look is a request."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """How a log is now.

    Attributes:
        place: Of the log.
        newest: The number of its newest commit.
        start: The number of its first commit.
        commits: How many commits others stand for.
        new: How many of them did not before.
        files: How many files of commits a reader of all reads.
    """

    place: str
    newest: int
    start: int
    commits: int
    new: int
    files: int


def compact_log(file: CaptureFile, tell: Callable[[ChangeLogError], None]) -> Compacted:
    """Compacts all that can be, removes what is not kept any more, and deletes files once the grace is over.

    Args:
        file: Of the capture.
        tell: Is called with damage because of which commits stay as they are.

    Raises:
        ChangeLogError: There is no log, or it cannot be read or written.
    """
    store, folder = file.log_store(), StateFolder.of_file(file.path)
    before = _replaced(ChangeLog(store))
    try:
        with OwnedLog(store, file.capture, folder, KnownLog(file.path)) as log:
            writer = log.writer()
            upkeep = Upkeep(writer, upkeep_rules(file, folder), partial(_commit, writer), tell)
            upkeep.compact(EVERYTHING)
            upkeep.retain()
    except ChangeLogError as error:
        if error.code not in _OWNED:
            raise
        _ask(file, folder)
    now = ChangeLog(store)
    replaced = _replaced(now)
    newest, start = now.latest(), now.log_start.number
    files = newest + 1 - start - len(replaced) + len(now.replacements)
    return Compacted(store.place, newest, start, len(replaced), len(replaced - before), files)


def _commit(writer: LogWriter) -> None:
    writer.commit(writer.begin(), writer.state, 0)


def _replaced(log: ChangeLog) -> set[int]:
    """The commits for which others stand."""
    log.summary()
    return {number for one in log.replacements for number in range(one.first, one.last + 1)}


def _ask(file: CaptureFile, folder: StateFolder) -> None:
    """Asks the capture, and waits until it has done it, for as long as it runs."""
    store = file.log_store()
    commands = WaitingCommands.of(folder, store)
    commands.ask_to_compact()
    while commands.is_to_compact():
        if not liveness(read_status(folder, store)).running:
            what = f"the capture that wrote {store.place} has ended before it compacted it"
            raise ChangeLogError("TM-LOG-006", what, remedy="Give the command again.")
        time.sleep(_FAR_SECONDS if commands.elsewhere else _LOOK_SECONDS)
