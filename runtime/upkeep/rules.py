"""What a capture file says of its log's upkeep."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta

from tidemark.protocol.capture_file import CaptureFile
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.known_tables import known_tables
from tidemark.runtime.changelog.compaction.runs import RunLimits
from tidemark.runtime.changelog.retention.next_start import Retain
from tidemark.runtime.changelog.upkeep import UpkeepRules
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.steering.renewals import Renewals
from tidemark.runtime.steering.waiting_commands import WaitingCommands


def upkeep_rules(
    file: CaptureFile,
    folder: StateFolder,
    commands: WaitingCommands | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> UpkeepRules:
    """What is done for the log of a capture.

    Args:
        file: Of the capture.
        folder: Its state folder.
        commands: To the capture, if it runs: then tables are read again that were read too long ago.
        tell: Is called with what is done, for people.
    """
    store, asked = file.log_store(), file.retain

    def captured() -> list[str]:
        known = [table.recommended_name for table in known_tables(store)]
        # Where that is not known, such as in a log that lost the file, none of its tables goes.
        return known or list(ChangeLog(store).summary().totals)

    retain = renewals = None
    if asked is not None:
        retain = Retain(None if asked.age is None else timedelta(seconds=asked.age), asked.size)
        if asked.renew is not None and commands is not None:
            renewals = Renewals(commands, folder, timedelta(seconds=asked.renew), captured, tell)
    return UpkeepRules(
        limits=RunLimits(due=file.compact.commits or sys.maxsize),
        grace=timedelta(seconds=file.compact.grace),
        retain=retain,
        captured=captured,
        renew=None if renewals is None else renewals.once,
    )
