"""Sends commands to a connector that accepts them, and removes those that its committed state has."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import msgspec

from tidemark.protocol.actions import FIRST, Action
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.logs import CONTROL
from tidemark.protocol.messages import Control, JsonObject
from tidemark.runtime.progress.display import Display
from tidemark.runtime.steering.waiting_commands import WaitingCommands, handled

LOOK_SECONDS = 0.25
"""How often it is checked whether a command waits."""

REQUEST_SECONDS = 10.0
"""The same where that costs a request of an object store, and nobody on this machine has given one."""

ANNOUNCE_SECONDS = 5.0
"""A connector that accepts commands says so on stderr when it opens. After this time without it, it accepts none."""


class Steering:
    """One session's commands. ``heard`` is called from the thread that reads stderr, everything else from the
    session's.

    Args:
        commands: To the capture.
        state: The state that the session begins with.
    """

    def __init__(self, commands: WaitingCommands, state: JsonObject, display: Display) -> None:
        self._commands = commands
        self._sent = handled(state)
        self._display = display
        self._takes_commands = threading.Event()
        self._actions: frozenset[str] = FIRST
        self._opened_at = self._looked_at = time.monotonic()
        self._told: set[tuple[int, Action]] = set()
        self._bad: set[int] = set()
        self._greeted = False
        self._asked = commands.asked()
        self._requested_at = -REQUEST_SECONDS
        self._forgotten = -1
        self._forget(self._sent)

    def heard(self, line: LogLine) -> None:
        """Reads the line by which a connector announces that it accepts commands."""
        if line.event_type == CONTROL:
            if isinstance(actions := line.fields.get("actions"), list):
                self._actions = frozenset(map(str, actions))
            self._takes_commands.set()

    @property
    def takes_commands(self) -> bool | None:
        """Whether the connector accepts commands; None as long as that is unknown."""
        if self._takes_commands.is_set():
            return True
        return False if time.monotonic() - self._opened_at >= ANNOUNCE_SECONDS else None

    def read_again(self, table: str, why: str) -> None:
        """Asks the connector to read a table again from the start, unless a command that waits does.

        Args:
            table: Its events cannot be read together with those before.
            why: The reason, for people.

        Raises:
            ChangeLogError: ``TM-LOG-008`` the command cannot be written.
        """
        if not self.takes_commands:
            self._display.notice(
                "error",
                f"{table} is set aside: {why}. Its events are in the log, but in no table of its rows",
                code="TM-RUN-020",
                remedy=f"Count `backfill` in the entry of {table} in the capture file up, so that it is read again.",
            )
            return
        command = Control(sequence=1, action=Action.BACKFILL, tables=[table], truncate=True, deferrable=True)
        asked = (msgspec.structs.replace(waiting, sequence=1) for waiting in self._commands.waiting(self._sent))
        if command not in asked:
            self._commands.give(command)
        self._looked_at = -LOOK_SECONDS
        self._display.notice("info", f"{table} is read again from the start: {why}")

    def due(self) -> list[Control]:
        """The commands to send now: the new ones since the last check, if it is time to check again."""
        now = time.monotonic()
        # What waits is sent as soon as the connector accepts commands: it may have nothing else to do, and end.
        first = not self._greeted and self._takes_commands.is_set()
        if not first and now - self._looked_at < LOOK_SECONDS:
            return []
        self._greeted |= first
        self._looked_at = now
        if self._commands.elsewhere and not first and not self._is_due(now):
            return []
        waiting = self._waiting()
        if waiting and not self._takes_commands.is_set():
            if self.takes_commands is False:
                self._tell(waiting, f"{len(waiting)} commands are waiting: this connector accepts none while it runs")
            return []
        known = [command for command in waiting if command.action in self._actions]
        if known:
            self._sent = known[-1].sequence
        if unknown := [command for command in waiting if command.action not in self._actions]:
            names = ", ".join(sorted({command.action for command in unknown}))
            self._tell(unknown, f"{len(unknown)} commands are waiting: this connector does not know {names}")
        return known

    def committed(self, state: JsonObject) -> None:
        """The connector's state is durable: the commands that it has handled are removed."""
        if (done := handled(state)) > self._forgotten:
            self._forget(done)

    def _waiting(self) -> list[Control]:
        try:
            commands, bad = self._commands.look(self._sent)
        except ChangeLogError as error:
            if error.code != "TM-LOG-017":
                raise
            return []  # The store is away, which the sign of life tells.
        for number in bad.keys() - self._bad:
            self._bad.add(number)
            self._set_aside(number, bad[number])
        return commands

    def _set_aside(self, number: int, error: ChangeLogError) -> None:
        """Puts away a file that is no command, and tells it: the others are carried out."""
        remedy = error.remedy
        with suppress(ChangeLogError):  # It cannot be read or moved: it is passed over.
            remedy = f"It was moved to {self._commands.set_aside(number)}. Send the command again."
        self._display.notice("warning", f"{error.message}; it is not carried out", code=error.code, remedy=remedy)

    def _forget(self, done: int) -> None:
        try:
            self._commands.forget(done)
        except ChangeLogError:
            if not self._commands.elsewhere:
                raise
            return  # Likewise. They are removed with later ones.
        self._forgotten = done

    def _is_due(self, now: float) -> bool:
        """Whether to look where that costs a request."""
        before, self._asked = self._asked, self._commands.asked()
        if self._asked == before and now - self._requested_at < REQUEST_SECONDS:
            return False
        self._requested_at = now
        return True

    def _tell(self, commands: list[Control], text: str) -> None:
        """Says once of each command that it is not sent."""
        new = {(command.sequence, command.action) for command in commands} - self._told
        if new:
            self._told |= new
            self._display.notice("warning", text, code="TM-RUN-016", unsent=sorted(sequence for sequence, _ in new))
