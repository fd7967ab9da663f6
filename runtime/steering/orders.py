"""Commands to a capture: each is a file in the change log's folder until the connector's committed state has it.

::

    LOG/control/00000000000000000007.json one command; its number is its ``sequence``

A command is carried out once: the connector writes the last sequence it has handled into its state, as the member
``control``, in the same checkpoint as the command's effects, so that both are committed together or not at all.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import orjson

from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.errors import ChangeLogError, ProtocolError
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import Control, JsonObject
from tidemark.runtime.changelog.files import storage

FOLDER = "control"

_NAME = re.compile(r"(\d{20})\.json")

_NO_EPOCH = 0
"""The sender of a command is not a writer of the log, and claims no epoch."""


def handled(state: JsonObject) -> int:
    """The last sequence that a connector with this state has handled; 0 before the first."""
    number = state.get("control", 0)
    return number if isinstance(number, int) else 0


class Orders:
    """The commands of one change log.

    Args:
        root: The change log's folder.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / FOLDER

    def give(self, order: Control) -> int:
        """Adds a command durably under the next free sequence, and returns that; the sequence of ``order`` is ignored.

        Raises:
            ChangeLogError: There is no change log, or it cannot be written (``TM-LOG-008``).
        """
        log = ChangeLog(self._root)
        storage.make_folder(self._folder)
        while True:
            # In this order: a file that has left the list was handled by a state that is read after it.
            waiting = self._numbers()
            number = max([handled(log.summary().state), *waiting]) + 1
            data = msgspec.json.encode(msgspec.structs.replace(order, sequence=number))
            try:
                storage.publish(self._folder / f"{number:020d}.json", data, _NO_EPOCH)
            except FileExistsError:
                continue
            return number

    def waiting(self, after: int) -> list[Control]:
        """The commands with a sequence above ``after``, in order.

        Raises:
            ChangeLogError: ``TM-LOG-002`` a file is not a command.
        """
        return [self._read(number) for number in sorted(self._numbers()) if number > after]

    def forget(self, handled: int) -> None:
        """Removes the commands up to ``handled``: a committed state says that they are carried out."""
        for number in self._numbers():
            if number <= handled:
                storage.remove(self._folder / f"{number:020d}.json")

    def _numbers(self) -> list[int]:
        try:
            names = [path.name for path in self._folder.iterdir()]
        except FileNotFoundError:
            return []
        return [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]

    def _read(self, number: int) -> Control:
        path = self._folder / f"{number:020d}.json"
        try:
            return message_of(Control, orjson.loads(path.read_bytes()))
        except (OSError, orjson.JSONDecodeError, ProtocolError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a valid command"
            raise ChangeLogError(
                "TM-LOG-002",
                f"{path} is not a command: {reason}",
                remedy=f"Remove {path} and send the command again.",
            ) from None
