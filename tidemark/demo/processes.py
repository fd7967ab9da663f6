"""The demo's subprocesses: the same commands that a person would type, their output in files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from tidemark.protocol.errors import ConnectorError

TIDEMARK = (sys.executable, "-m", "tidemark.runtime")
"""The ``tidemark`` command with this very Python, whether or not the script is on the PATH."""

CONNECTOR = "tidemark.connectors.postgres"

STOP_SECONDS = 15.0
"""How long a command that was asked to stop may take before it and all its descendants are killed."""


class Command:
    """One ``tidemark`` command as a subprocess; as a context, it is ended with everything it started.

    Args:
        arguments: What follows ``tidemark``.
        output: File that its stdout and stderr are appended to.
        environment: Variables on top of this process's own.
    """

    def __init__(self, arguments: Sequence[str], output: Path, environment: Mapping[str, str] = {}) -> None:
        self.name = f"tidemark {arguments[0]}"
        self.output = output
        with output.open("ab") as file:
            self._process = subprocess.Popen(
                [*TIDEMARK, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **environment},
                # Ctrl-C at the terminal is for us: we end our commands in order.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def connector(self) -> int | None:
        """The process id of the connector it runs just now."""
        return next((pid for pid, command in descendants(self.pid).items() if CONNECTOR in command), None)

    def stop(self) -> None:
        """Asks it to end, and makes sure that nothing of it is left."""
        if not self.running:
            return
        started = _below(self.pid)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            started += _below(self.pid)
            self._process.kill()
            self._process.wait()
        _end(started)

    def kill(self) -> None:
        """Kills it and all it started, with SIGKILL."""
        started = _below(self.pid)
        self._process.kill()
        self._process.wait()
        _end(started)

    def wait(self) -> int:
        """Waits for its end, and returns its exit status (minus the signal's number where one killed it)."""
        return self._process.wait()

    def check(self) -> None:
        """Raises ``TM-DEMO-003`` when it has ended, naming its log and its last words."""
        if not self.running:
            self._fail()

    def finish(self) -> None:
        """Raises ``TM-DEMO-003`` unless it has ended well."""
        if self._process.wait() != 0:
            self._fail()

    def _fail(self) -> None:
        lines = self.output.read_text(errors="replace").strip().splitlines() or ["it logged nothing"]
        status = self._process.returncode
        raise ConnectorError(
            "TM-DEMO-003",
            f"{self.name} ended with status {status}: {lines[-1][:300]}",
            remedy=f"Read {self.output}: its last lines say what happened.",
        )


def _end(processes: Iterable[psutil.Process]) -> None:
    """Kills those that are still there: psutil tells them from others that got their ids."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _below(root: int) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(root).children(recursive=True)
    return found


def descendants(root: int) -> dict[int, str]:
    """The processes below ``root``, with their command lines."""
    found = {}
    for process in _below(root):
        with suppress(psutil.NoSuchProcess):  # It ended meanwhile.
            found[process.pid] = " ".join(process.cmdline())
    return found
