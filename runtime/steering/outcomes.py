"""What became of a command to a running capture."""

from __future__ import annotations

import time

from tidemark.protocol.changelog import ChangeLog
from tidemark.runtime.progress.state_folder import StateFolder
from tidemark.runtime.progress.status_file import read_status
from tidemark.runtime.steering.waiting_commands import handled

STATUS_SECONDS = 3.0
"""How long the status of a running capture may be behind it."""

LOOK_SECONDS = 0.1


def is_handled(log: ChangeLog, number: int) -> bool:
    """Whether the connector's committed state has a command: it was carried out or refused."""
    return handled(log.summary().state) >= number


def refusal(folder: StateFolder, log: ChangeLog, number: int) -> str | None:
    """Why the connector refused a command that it has handled; empty if it did not.

    The status says so within a second or two. None if it does not: the connector does not tell, or the capture was
    started again since.
    """
    deadline = time.monotonic() + STATUS_SECONDS
    while time.monotonic() < deadline:
        commands = (read_status(folder, log.store) or {}).get("commands", {})
        if str(number) in commands:
            return str(commands[str(number)])
        time.sleep(LOOK_SECONDS)
    return None
