"""The demo's subprocesses: the same commands that a person would type, their output in files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from protocol.errors import ConnectorError

TIDEMARK = (sys.executable, "-m", "runtime")
"""The ``tidemark`` command with this very Python, whether or not the script is on the PATH."""

CONNECTOR = "connectors.postgres"

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
        for pid, command in descendants(self.pid).items():
            if CONNECTOR in command:
                return pid
        return None

    def stop(self) -> None:
        """Asks it to end, and makes sure that nothing of it is left."""
        if not self.running:
            return
        started = descendants(self.pid)
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            started |= descendants(self.pid)
            self._process.kill()
            self._process.wait()
        left = commands()
        for pid, command in started.items():
            if left.get(pid, (0, ""))[1] == command:
                _kill(pid)

    def kill(self) -> None:
        """Kills it and all it started, with SIGKILL."""
        started = descendants(self.pid)
        self._process.kill()
        self._process.wait()
        for pid in started:
            _kill(pid)

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


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself


def descendants(root: int) -> dict[int, str]:
    """The processes below ``root``, children before grandchildren, with their command lines."""
    everything = commands()
    found: dict[int, str] = {}
    parents = {root}
    while parents:
        children = {pid: command for pid, (parent, command) in everything.items() if parent in parents}
        found |= children
        parents = set(children)
    return found


def commands() -> dict[int, tuple[int, str]]:
    """Every process's parent and command line, by process id; from /proc, or from ps where there is none."""
    if not Path("/proc/self/stat").exists():
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True)
        rows = (line.split(maxsplit=2) for line in listing.stdout.splitlines())
        return {int(row[0]): (int(row[1]), row[2]) for row in rows if len(row) == 3}
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                # proc(5): the parent is the second field after the parenthesised name, which may hold anything.
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
            found[int(folder.name)] = (parent, command)
    return found
