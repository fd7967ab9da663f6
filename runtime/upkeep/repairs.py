"""Has a running capture read the rows again that a verification has found to differ."""

from __future__ import annotations

import time
from collections.abc import Callable

import orjson

from tidemark.protocol.actions import Action
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Control
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.steering.outcomes import is_handled, refusal
from tidemark.runtime.steering.waiting_commands import WaitingCommands
from tidemark.runtime.verification.findings import MOST_NAMED, Found, Kind
from tidemark.runtime.verification.run import note_repaired
from tidemark.runtime.verification.subjects import Subject

LOOK_SECONDS = 0.2
"""How often it is looked whether rows have been read."""

REQUEST_SECONDS = 2.0
"""The same where that costs requests of an object store."""


class Repairs:
    """Those of one verification. A command, once given, is carried out even if nobody waits for it.

    Args:
        folder: Of the capture.
        log: Its log.
        file: The capture file, for people.

    Attributes:
        refused: Why rows were not read again, a text for each table.
    """

    def __init__(self, folder: StateFolder, log: ChangeLog, file: str) -> None:
        self._folder = folder
        self._log = log
        self._file = file
        self._asked: dict[int, tuple[Subject, int]] = {}
        self.refused: list[str] = []

    def ask(self, subject: Subject, found: Found) -> None:
        """Asks for the rows that differ in the log or in Spark, if there are any.

        Raises:
            ChangeLogError: ``TM-LOG-008`` the command cannot be written.
        """
        keys = {orjson.dumps(row.values): row.values for part in found.parts for row in part.named}
        if len(keys) > MOST_NAMED or any(part.different > len(part.named) for part in found.parts):
            rows = max(part.different for part in found.parts)
            # Nothing else removes a row that the source does not have.
            truncate = " --truncate" if any(part.counts[Kind.TOO_MANY] for part in found.parts) else ""
            self.refused.append(
                f"{rows:,} rows of {subject.name} differ, and at most {MOST_NAMED:,} are read again by their keys: "
                f"read the table again by tidemark backfill {self._file} --table {subject.name}{truncate}"
            )
        elif keys:
            command = Control(sequence=1, action=Action.REPAIR, tables=[subject.name], keys=list(keys.values()))
            self._asked[WaitingCommands.of(self._folder, self._log.store).give(command)] = subject, len(keys)

    def done(self, look: Callable[[int], object]) -> dict[str, int]:
        """Waits until all rows have been read, and are in the log.

        Args:
            look: Is called with a command's sequence while it is waited for. It may raise to end the wait.

        Returns:
            How many they are, by table.
        """
        found = {}
        for number, (subject, rows) in self._asked.items():
            while not is_handled(self._log, number):
                look(number)
                time.sleep(LOOK_SECONDS if self._log.store.directory is not None else REQUEST_SECONDS)
            why = refusal(self._folder, self._log, number)
            if why is None:
                why = f"it is not known whether the rows of {subject.name} were read again: verify it again"
            if why:
                self.refused.append(why)
            else:
                note_repaired(self._log.store, subject.collection)
                found[subject.name] = rows
        return found

    def check(self) -> None:
        """Raises SourceError ``TM-RUN-032`` if some rows were not read again."""
        if self.refused:
            raise SourceError("TM-RUN-032", "; ".join(self.refused))
