"""Commands to a running capture: pause, resume, backfill, and so on. See ``control`` in docs/protocol.md.

A command is carried out between two steps of the engine. The next checkpoint has its effect together with its sequence:
either both are committed, or the command is sent again. A repair takes several steps, and later commands wait for it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from tidemark.backfill.keys import Key, key_from_texts
from tidemark.captures.contract.source import Source
from tidemark.captures.engine.rereads import Rereads
from tidemark.captures.scheduling.backfills import Backfills
from tidemark.captures.scheduling.reread_record import begun
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.captures.scheduling.table_states import Captured, LeftOut
from tidemark.protocol.actions import Action
from tidemark.protocol.errors import TidemarkError, UsageError
from tidemark.protocol.messages import Control

logger = logging.getLogger(__name__)


class Commands:
    """Carries out commands, each once.

    Args:
        source: Asked whether it takes a condition.
        rereads: What is put off until a command.
        handled: The last sequence in the state.

    Attributes:
        handled: The last sequence that was carried out or refused.
    """

    def __init__(self, source: Source, backfills: Backfills, rereads: Rereads, handled: int) -> None:
        self._source = source
        self._backfills = backfills
        self._rereads = rereads
        self._waiting: deque[Control] = deque()
        self._actions: dict[Action, Callable[[Control, list[TableBackfill]], None]] = {
            Action.PAUSE: self._pause,
            Action.RESUME: self._resume,
            Action.PRIORITY: self._priority,
            Action.BACKFILL: self._backfill,
            Action.VERIFY: self._verify,
        }
        self.handled = handled

    def take(self, commands: Iterable[Control], *, away: bool = False) -> bool:
        """Carries out the valid commands and warns of the others. Returns whether there were new ones.

        Args:
            away: The source cannot be asked: commands wait from the first one on for which it has to be.

        Raises:
            SourceError: The source cannot be asked. The command waits.
        """
        before = self.handled
        self._waiting.extend(commands)
        while self._waiting and not (away and self._waiting[0].where):
            command = self._waiting[0]
            if command.sequence <= self.handled:
                self._waiting.popleft()
                continue  # The runtime sends a command again if it does not know whether it arrived.
            refusal = self._refusal(command)
            try:
                if refusal:
                    raise _wrong(f"the source refuses the condition: {refusal}")
                if command.action is Action.REPAIR:
                    if not self._backfills.repairs.attend(command, partial(self._tables, command)):
                        break
                else:
                    self._actions[command.action](command, self._tables(command))
            except TidemarkError as refused:
                logger.warning(
                    "command %d (%s) was refused: %s",
                    command.sequence,
                    command.action,
                    refused.message,
                    extra={"code": refused.code, "sequence": command.sequence},
                )
            else:
                what = ", ".join(command.tables) or "all tables"
                logger.info(
                    "command %d: %s %s", command.sequence, command.action, what, extra={"sequence": command.sequence}
                )
            self._waiting.popleft()
            self.handled = command.sequence
        return self.handled != before

    @property
    def under_way(self) -> bool:
        """Whether some command that has come is not carried out."""
        return bool(self._waiting)

    def _refusal(self, command: Control) -> str:
        """Why the source refuses the condition of a command; empty if it does not, or there is nothing to ask."""
        for backfill in self._backfills.tables if command.where else ():
            if [backfill.table.name] == command.tables and not backfill.left_out:
                return self._source.refused_condition(backfill.table.binding, command.where)
        return ""

    def _tables(self, command: Control) -> list[TableBackfill]:
        tables = {backfill.table.name: backfill for backfill in self._backfills.tables}
        if unknown := sorted(set(command.tables) - tables.keys()):
            raise _wrong(f"not captured: {', '.join(unknown)}")
        return [tables[name] for name in dict.fromkeys(command.tables)] or list(tables.values())

    def _pause(self, command: Control, tables: list[TableBackfill]) -> None:
        if all(backfill.paused for backfill in tables):
            raise _wrong("already paused")
        for backfill in tables:
            backfill.paused = True

    def _resume(self, command: Control, tables: list[TableBackfill]) -> None:
        waiting = [backfill for backfill in tables if backfill.reread is not None and backfill.reread.put_off]
        if command.keep:
            self._rereads.drop(tables if command.tables else waiting or tables)
            return
        stopped = (b.paused or b.failed or b.dropped or not isinstance(b.capture, Captured) for b in tables)
        if not waiting and not any(stopped):
            raise _wrong("neither paused nor failed nor set aside, and no reread is put off")
        for backfill in tables:
            backfill.paused, backfill.dropped = False, ""
            self._rereads.begin(backfill)
            if isinstance(backfill.capture, Captured):
                backfill.take_up()
            else:
                backfill.capture.ask()

    def _priority(self, command: Control, tables: list[TableBackfill]) -> None:
        if command.priority is None:
            raise _wrong("the priority is missing")
        for backfill in tables:
            backfill.priority = command.priority

    def _backfill(self, command: Control, tables: list[TableBackfill]) -> None:
        if command.where or command.from_ or command.until:
            self._scan_part(command, tables)
            return
        readable = [backfill for backfill in tables if backfill.table.scan.reads]
        if not readable or (command.tables and len(readable) < len(tables)):
            raise _wrong("a table is captured only from its log (scan: none)")
        for backfill in readable:
            if command.deferrable and self._rereads.defer(backfill):
                continue
            if isinstance(backfill.capture, LeftOut):
                backfill.capture.passed = True  # It is read again as soon as possible.
                backfill.capture.ask()
                continue
            backfill.take_up()
            backfill.dropped = ""
            reread, backfill.reread = backfill.reread, begun(backfill.reread)
            empties = reread is not None and reread.put_off and reread.empties
            # Rows without a key would only be added to the existing ones.
            if command.truncate or empties or not backfill.table.key:
                self._backfills.emptied.add(backfill.table.binding)
            else:
                self._backfills.read_again(backfill)

    def _verify(self, command: Control, tables: list[TableBackfill]) -> None:
        for backfill in tables:
            self._backfills.verifications.ask(backfill, command.sequence, command.share)

    def _scan_part(self, command: Control, tables: list[TableBackfill]) -> None:
        """Reads some rows again. A running scan of the whole table continues beside it."""
        if len(command.tables) != 1:
            raise _wrong("where, from and until are for one table")
        if command.truncate:
            raise _wrong("a table that is emptied has to be read completely")
        backfill = tables[0]
        if not backfill.table.scan.reads:
            raise _wrong("the table is captured only from its log (scan: none)")
        if backfill.left_out:
            raise _wrong("the table is set aside, and will be read completely")
        first, last = self._bounds(command, backfill)
        backfill.ranges.add(first, last, command.where or None)
        backfill.dropped = ""
        backfill.take_up()

    @staticmethod
    def _bounds(command: Control, backfill: TableBackfill) -> tuple[Key | None, Key | None]:
        columns = len(backfill.table.key)
        if not columns:
            raise _wrong(f"{backfill.table.name} has no key to select rows by")
        if command.from_ and len(command.from_) != columns:
            raise _wrong(f"from takes the {columns} columns of the key of {backfill.table.name}")
        if len(command.until) > columns:
            raise _wrong(f"until takes at most the {columns} columns of the key of {backfill.table.name}")
        first = key_from_texts(command.from_) if command.from_ else None
        last = key_from_texts(command.until) if command.until else None
        return first, last


def _wrong(text: str) -> UsageError:
    return UsageError("TM-CAP-004", text)
