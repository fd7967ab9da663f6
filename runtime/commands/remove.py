"""``tidemark remove``: lists what a capture made at its source, and removes it on confirmation."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from pydantic import ValidationError

from tidemark.protocol.answers.removal import REMOVAL, MadeObject, Removal
from tidemark.protocol.capture_file import CaptureFile, read_capture_file
from tidemark.protocol.changelog import ChangeLog
from tidemark.protocol.environment import REMOVE
from tidemark.protocol.errors import ChangeLogError, ConnectorError, TidemarkError, UsageError
from tidemark.protocol.log_lines import LogLine
from tidemark.protocol.messages import JsonObject
from tidemark.runtime.commands.terminal.arguments import CaptureFileArgument, JsonOption
from tidemark.runtime.commands.terminal.printing import say, say_aside, say_json
from tidemark.runtime.preparation.prepared_capture import Preparation
from tidemark.runtime.progress.liveness import liveness
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Remove without asking.")]


def remove(file: CaptureFileArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """List what a capture made at its source, such as a replication slot, and remove it if you say so.

    A slot that nobody reads keeps the source's log until the disk is full. The change log and the tables in Spark stay.
    With --json nothing is asked: the list is printed, and with --yes carried out.
    """
    capture = _Removing(read_capture_file(file))
    found = capture.listed()
    if not json:
        _print(capture.file, found)
    own = [each for each in found if not each.kept]
    wanted = bool(own) and (yes or (not json and _confirmed()))
    try:
        if wanted:
            found = capture.removed()
    finally:
        if json:
            say_json({"objects": [each.model_dump() for each in found]})
    if wanted and not json:
        say("".join(f"removed {each.what}\n" for each in found if each.removed))


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("TM-CFG-011", "there is no terminal to ask whether to remove this; nothing was removed")
    return typer.confirm("Remove this?")


class _Removing:
    """What the capture's connector tells and does.

    Attributes:
        file: The capture file.
    """

    def __init__(self, file: CaptureFile) -> None:
        self.file = file
        self._told: list[Removal] = []
        log_id, state = _of_log(file)
        self._preparation = Preparation(
            file, self._take, variables={REMOVE: "1", "LOG_LEVEL": "info"}, log_id=log_id, state=state
        )
        self._prepared = self._preparation.validate([])

    def listed(self) -> list[MadeObject]:
        """Raises ConnectorError ``TM-RUN-021``: the connector cannot tell."""
        return self._last()

    def removed(self) -> list[MadeObject]:
        """Removes what is not kept. Raises as ``Caller`` does; what was removed before an error is said."""
        self._told.clear()
        try:
            self._preparation.apply(self._prepared)
        except TidemarkError:
            gone = [each.what for removal in self._told for each in removal.objects if each.removed]
            say_aside("".join(f"removed {what}\n" for what in gone))
            raise
        return self._last()

    def _last(self) -> list[MadeObject]:
        if not self._told:
            name = self._preparation.connector.name
            raise ConnectorError("TM-RUN-021", f"{name} does not say what it made at its source")
        return self._told[-1].objects

    def _take(self, line: LogLine) -> None:
        if line.event_type == REMOVAL:
            try:
                self._told.append(Removal.model_validate(line.fields))
            except ValidationError as error:
                name = self._preparation.connector.name
                raise ConnectorError(
                    "TM-RUN-005", f"the list of {name} is malformed: {error.error_count()} mistakes"
                ) from None
        elif line.level in ("warning", "error", "fatal"):
            say_aside(f"{line.level}: {line.message}\n")


def _of_log(file: CaptureFile) -> tuple[str, JsonObject]:
    """The id of the change log and the connector's state in it; both empty without a log.

    Raises:
        ChangeLogError: ``TM-LOG-006`` the capture runs; others for a log that cannot be read.
    """
    try:
        log = ChangeLog(file.log_store())
    except ChangeLogError as error:
        if error.code != "TM-LOG-001":
            raise
        return "", {}
    life = liveness(read_status(StateFolder.of_file(file.path), file.log_store()))
    if life.exists:
        running = f"the capture is running (process {life.pid})"
        raise ChangeLogError("TM-LOG-006", running, remedy="Stop it, and give the command again.")
    return log.header.log_id, log.summary().state


def _print(file: CaptureFile, found: list[MadeObject]) -> None:
    own = [each for each in found if not each.kept]
    others = [each for each in found if each.kept]
    if own:
        say(f"Capture {file.capture} made at its source:\n")
        for each in own:
            say(f"  {each.what}\n      {each.statement};\n")
    else:
        say(f"There is nothing at its source that capture {file.capture} made.\n")
    if others:
        say("Not removed:\n")
        for each in others:
            say(f"  {each.what}: {each.kept}\n      {each.statement};\n")
    if own:
        say("Without it, the capture cannot go on from its change log. The log and the tables in Spark stay.\n")
