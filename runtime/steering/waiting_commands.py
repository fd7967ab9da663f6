"""Commands to a capture: each is a file until the connector's committed state has it.

::

    control/00000000000000000007.json   one command; its number is its ``sequence``
    control/00000000000000000007.bad    the same, of a file that is no command: the capture has set it aside
    control/compact                     the capture is asked to compact its log, which is no command to the connector

The files are in the capture's state folder; of a log in an object store they are in the log, where any machine can give
a command. A command is carried out once: the connector writes the last sequence it has handled into its state, as the
member ``control``, in the same checkpoint as the command's effects, so that both are committed together or not at all.
"""

from __future__ import annotations

import re
from contextlib import suppress

import msgspec
import orjson

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError, ProtocolError
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import Control, JsonObject
from tidemark.protocol.store import Store, StoreUnavailableError
from tidemark.protocol.store.local import DirectoryStore
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.progress.state_folder import CONTROL, StateFolder

_COMPACT = f"{CONTROL}/compact"
_NAME = re.compile(r"control/(\d{20})\.json")


def handled(state: JsonObject) -> int:
    """The last sequence that a connector with this state has handled; 0 before the first."""
    number = state.get("control", 0)
    return number if isinstance(number, int) else 0


class WaitingCommands:
    """The commands to one capture.

    Args:
        place: What they are in.
        log: The capture's log.
        folder: Of the capture, where the commands are elsewhere.
    """

    def __init__(self, place: Store, log: Store, folder: StateFolder | None = None) -> None:
        self.place = place
        self._log = log
        self._folder = folder
        self._to_compact = False

    @classmethod
    def of(cls, folder: StateFolder, log: Store) -> WaitingCommands:
        """The commands of a capture with this state folder and this log."""
        if log.directory is None or folder.path is None:
            return cls(log, log, folder)
        return cls(DirectoryStore(folder.path), log)

    @property
    def elsewhere(self) -> bool:
        """Whether a look costs a request."""
        return self.place.directory is None

    def asked(self) -> float:
        """When a command was last given on this machine, where a look costs a request."""
        return 0.0 if self._folder is None else self._folder.asked()

    def give(self, command: Control) -> int:
        """Adds a command durably under the next free sequence, and returns that; its own sequence is ignored.

        Raises:
            ChangeLogError: There is no change log, or the command cannot be written (``TM-LOG-008``).
        """
        log = ChangeLog(self._log)
        while True:
            # In this order: a file that has left the list was handled by a state that is read after it.
            waiting = self._numbers()
            number = max([handled(log.summary().state), *waiting]) + 1
            data = msgspec.json.encode(msgspec.structs.replace(command, sequence=number))
            try:
                with writing(self.place.where(_path(number))):
                    self.place.create(_path(number), data)
            except FileExistsError:
                continue
            if self._folder is not None:
                self._folder.ask()
            return number

    def withdraw(self, number: int) -> None:
        """Takes a command back, if the connector has not got it. Raises ``TM-LOG-008``."""
        with writing(self.place.where(_path(number))):
            self.place.delete(_path(number))

    def ask_to_compact(self) -> None:
        """Asks the capture to compact its log now. Raises ``TM-LOG-008``."""
        with writing(self.place.where(_COMPACT)):
            self.place.replace(_COMPACT, b"")
        if self._folder is not None:
            self._folder.ask()

    def asked_to_compact(self) -> bool:
        """Whether somebody asks; where a look costs a request, as of the last look for commands."""
        return self._to_compact if self.elsewhere else self.is_to_compact()

    def is_to_compact(self) -> bool:
        """Whether somebody asks, and it is not done. Raises as ``unreadable``."""
        try:
            return self.place.exists(_COMPACT)
        except OSError as error:
            raise unreadable(self.place.where(_COMPACT), error) from None

    def compacted(self) -> None:
        """Says that it is done. Raises ``TM-LOG-008``."""
        self._to_compact = False
        with writing(self.place.where(_COMPACT)):
            self.place.delete(_COMPACT)

    def waiting(self, after: int) -> list[Control]:
        """The commands with a sequence above ``after``, in order. Raises as ``unreadable``."""
        return self.look(after)[0]

    def look(self, after: int) -> tuple[list[Control], dict[int, ChangeLogError]]:
        """The commands with a sequence above ``after``, in order, and the files of such a number that are none.

        Returns:
            The commands; and by number, why a file is none (``TM-LOG-002``).

        Raises:
            ChangeLogError: As ``unreadable``.
        """
        commands: list[Control] = []
        bad: dict[int, ChangeLogError] = {}
        for number in (number for number in self._numbers() if number > after):
            try:
                with suppress(FileNotFoundError):  # It was carried out since.
                    commands.append(self._read(number))
            except ChangeLogError as error:
                if error.code != "TM-LOG-002":
                    raise
                bad[number] = error
        return commands, bad

    def set_aside(self, number: int) -> str:
        """Renames a file that is no command, so that it waits no more. Returns where it is. Raises ``TM-LOG-008``."""
        path, aside = _path(number), f"{CONTROL}/{number:020d}.bad"
        with writing(self.place.where(path)):
            self.place.replace(aside, self.place.read(path))
            self.place.delete(path)
        return self.place.where(aside)

    def forget(self, handled: int) -> None:
        """Removes the commands up to ``handled``: a committed state says that they are carried out."""
        for number in self._numbers():
            if number <= handled:
                with writing(self.place.where(_path(number))):
                    self.place.delete(_path(number))

    def _numbers(self) -> list[int]:
        try:
            paths = [entry.path for entry in self.place.list(CONTROL)]
        except OSError as error:
            raise unreadable(self.place.where(CONTROL), error) from None
        self._to_compact = _COMPACT in paths
        return [int(match[1]) for path in paths if (match := _NAME.fullmatch(path))]

    def _read(self, number: int) -> Control:
        where = self.place.where(_path(number))
        try:
            return message_of(Control, orjson.loads(self.place.read(_path(number))))
        except StoreUnavailableError as error:
            raise unreadable(where, error) from None
        except FileNotFoundError:
            raise
        except (OSError, orjson.JSONDecodeError, ProtocolError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a valid command"
            raise ChangeLogError(
                "TM-LOG-002",
                f"{where} is not a command: {reason}",
                remedy=f"Remove {where} and send the command again.",
            ) from None


def _path(number: int) -> str:
    return f"{CONTROL}/{number:020d}.json"
