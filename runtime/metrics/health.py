"""Asks the commands of a container whether they live: the health check of the runtime image.

The container's first process names the command and its capture file, and the file says where ``/healthz`` is served.
Nothing has to be said twice, and a file without metrics is no failure: then the container lives while its process does.

Exit status 0: all that can be asked answer. 1: one does not.
"""

from __future__ import annotations

import http.client
import sys
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

FIRST_PROCESS = Path("/proc/1/cmdline")

PATIENCE_SECONDS = 5.0

_ENTRIES = {"capture": ("metrics",), "materialize": ("spark", "metrics")}
"""Where a capture file says what a command serves."""

_EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


def unhealthy(arguments: Sequence[str]) -> list[str]:
    """Which commands of a container do not live, in words; empty if all do, or none can be asked.

    Args:
        arguments: Of the first process: ``tini -- tidemark capture FILE``, ``tidemark materialize FILE`` and so on.
    """
    command = next((word for word in arguments if word in _ENTRIES), None)
    if command is None:
        return []
    given = (Path(word) for word in arguments[arguments.index(command) + 1 :])
    path = next((path for path in given if path.exists()), None)
    if path is None:
        return []
    if not path.is_dir():
        return _asked(path, command, absent=False)
    # A capture of a folder that has ended is started again by the command, which lives.
    files = sorted(file for file in path.iterdir() if file.suffix in (".yaml", ".yml") and file.name[0] != ".")
    return [reason for file in files for reason in _asked(file, command, absent=True)]


def _asked(file: Path, command: str, *, absent: bool) -> list[str]:
    """Why the command of one file does not live. ``absent``: it may have ended."""
    listen = _listen(file, command)
    if listen is None:
        return []
    host, _, port = listen.rpartition(":")
    at = f"{_EVERYWHERE.get(host, host)}:{port}"
    connection = None
    try:
        connection = http.client.HTTPConnection(at, timeout=PATIENCE_SECONDS)
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except ConnectionRefusedError as error:
        return [] if absent else [f"{file.name}: {at}: {error.strerror}"]
    except (OSError, http.client.HTTPException) as error:
        return [f"{file.name}: {at}: {str(error) or type(error).__name__}"]
    finally:
        if connection is not None:
            connection.close()
    return [] if status == HTTPStatus.OK else [f"{file.name}: {at}: status {status}"]


def _listen(file: Path, command: str) -> str | None:
    """Where a command serves its health; None where it does not, or the file is being written."""
    try:
        entry: Any = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None  # The command runs with the version before.
    for name in (*_ENTRIES[command], "listen"):
        entry = entry.get(name) if isinstance(entry, dict) else None
    return None if entry is None else str(entry)


def main() -> None:
    """Asks, says what is wrong, and ends the process with the exit status."""
    arguments = FIRST_PROCESS.read_bytes().decode("utf-8", "surrogateescape").rstrip("\0").split("\0")
    reasons = unhealthy(arguments)
    sys.stdout.write("".join(f"{reason}\n" for reason in reasons) or "alive\n")
    sys.exit(1 if reasons else 0)


if __name__ == "__main__":
    main()
