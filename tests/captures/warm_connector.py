"""Connectors as forks of a process that has imported them already.

A connector takes 0.3 s of a processor to import its modules, and the tests start one many hundred times. What a
connector does from there on is the same. The runtime's own tests start connectors as users do.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

MODULES = ("connectors.postgres", "connectors.mysql")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["runpy", *(f"{module}.__main__" for module in MODULES)])


def is_warm(command: Sequence[str]) -> bool:
    """Whether this is what ``WarmConnector`` runs: this Python, and the module of a connector alone."""
    return len(command) == 3 and list(command[:2]) == [sys.executable, "-m"] and command[2] in MODULES


class WarmConnector:
    """A running connector, with the part of ``subprocess.Popen`` that tests use.

    Args:
        command: ``python -m MODULE``, see ``is_warm``.
        env: The whole environment.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.args = list(command)
        stdin, ours = _context.Pipe(duplex=False)
        outputs = [_context.Pipe(duplex=False) for _ in range(2)]
        theirs = [stdin, *(writer for _, writer in outputs)]
        self._process = _context.Process(target=_run, args=(command[2], theirs, dict(env), Path.cwd()))
        self._process.start()
        for end in theirs:
            end.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.stdin = _file(ours, "wb")
        self.stdout, self.stderr = (_file(reader, "rb") for reader, _ in outputs)

    @property
    def returncode(self) -> int | None:
        """The exit status, the negative number of a signal, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self.returncode
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # As subprocess does: it may have ended since it was asked.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def run(self, request: bytes, timeout: float) -> tuple[int, bytes, bytes]:
        """Gives it all of its input, and returns its exit status, stdout and stderr."""
        outputs: dict[IO[bytes], bytes] = {}
        streams = (self.stdout, self.stderr)
        readers = [threading.Thread(target=lambda s=s: outputs.update({s: s.read()})) for s in streams]
        for reader in readers:
            reader.start()
        try:
            with self.stdin:
                self.stdin.write(request)
        except BrokenPipeError:
            pass  # It has ended, and says why.
        try:
            status = self.wait(timeout)
        finally:
            self.kill()
            for reader in readers:
                reader.join()
            for stream in streams:
                stream.close()
        return status, outputs[self.stdout], outputs[self.stderr]


def _file(end: Connection, mode: str) -> IO[bytes]:
    with end:
        return os.fdopen(os.dup(end.fileno()), mode)


def _run(module: str, ends: Sequence[Connection], environment: Mapping[str, str], folder: Path) -> None:
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    del sys.modules[f"{module}.__main__"]  # It runs once more, now by its name.
    runpy.run_module(module, run_name="__main__", alter_sys=True)
