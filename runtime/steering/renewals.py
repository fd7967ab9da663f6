"""Has tables read again that were read too long ago, so that earlier events of the log are not needed any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

import orjson

from tidemark.protocol.actions import Action
from tidemark.protocol.changelog import ChangeLog, KnownGeneration, Summary
from tidemark.protocol.messages import Control
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.steering.waiting_commands import WaitingCommands, handled

logger = logging.getLogger(__name__)

_FILE = "renewals.json"


class Renewals:
    """Gives the command for one table at a time: the next one when that has been read.

    The capture's state folder remembers by table the generation that is to be replaced. So no table is asked for twice,
    also where the capture ends before the table begins to be read, and one that is not read does not stop the others.

    Args:
        commands: To the capture.
        folder: Of the capture.
        age: After this time a table is read again.
        captured: Returns the collections that are captured now.
        tell: Is called with what is done, for people.
    """

    def __init__(
        self,
        commands: WaitingCommands,
        folder: StateFolder,
        age: timedelta,
        captured: Callable[[], Iterable[str]],
        tell: Callable[[str], None],
    ) -> None:
        self._commands = commands
        self._folder = folder
        self._age = age
        self._captured = captured
        self._tell = tell
        self._begun: dict[tuple[str, int], datetime] = {}

    def once(self, log: ChangeLog) -> None:
        """Asks for the table that was read longest ago, if it is due and no other that was asked for is being read.

        Raises:
            ChangeLogError: The log cannot be read, or the command cannot be written.
        """
        summary, asked = log.summary(), self._asked()
        known = {name: newest for name in self._captured() if (newest := summary.newest(name)) is not None}
        if any(one.whole is None and asked.get(name, one.number) < one.number for name, one in known.items()):
            return
        found = [
            (self._begun_at(log, one), name)
            for name, one in known.items()
            if one.whole is not None and one.number != asked.get(name) and one.begin >= log.log_start.offset
        ]
        at, collection = min(found, default=(datetime.now(UTC), ""))
        if datetime.now(UTC) - at < self._age or self._is_waiting(summary):
            return
        table = collection.replace("/", ".")
        self._commands.give(Control(sequence=1, action=Action.BACKFILL, tables=[table], truncate=True))
        self._remember({**asked, collection: known[collection].number})
        self._tell(f"{table} is read again from the start, as retain asks: it was read last on {at:%Y-%m-%d}")

    def _begun_at(self, log: ChangeLog, generation: KnownGeneration) -> datetime:
        """When a generation began. It never changes, and to find it some commits are read."""
        key = generation.collection, generation.number
        if key not in self._begun:
            self._begun[key] = log.time_of(generation.begin)
        return self._begun[key]

    def _is_waiting(self, summary: Summary) -> bool:
        return any(one.action is Action.BACKFILL for one in self._commands.waiting(handled(summary.state)))

    def _asked(self) -> dict[str, int]:
        path = self._folder.path
        try:
            found = orjson.loads((path / _FILE).read_bytes()) if path is not None else {}
        except FileNotFoundError:
            return {}
        except (OSError, orjson.JSONDecodeError) as error:
            logger.warning("%s cannot be read: a table may be read again once more than asked (%s)", _FILE, error)
            return {}
        return found if isinstance(found, dict) else {}

    def _remember(self, asked: dict[str, int]) -> None:
        if (path := self._folder.path) is not None:
            with writing(str(path / _FILE)):
                DirectoryStore(path).replace(_FILE, orjson.dumps(asked))
