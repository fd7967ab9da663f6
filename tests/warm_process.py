"""Python processes as forks of one that has imported what they import already.

A connector takes 0.3 s of a processor to import its modules, and a ``tidemark`` command as much. The tests start a
thousand of them. What they do from there on is the same. What starts and stops with a command, a test starts itself.
"""

from __future__ import annotations

import atexit
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
from typing import IO, Self

_MAINS = {
    "tidemark.connectors.postgres": "tidemark.connectors.postgres.__main__",
    "tidemark.connectors.mysql": "tidemark.connectors.mysql.__main__",
    "tidemark.runtime": "tidemark.runtime.__main__",
    "tests.captures.impatient": "tests.captures.impatient",
}
"""By what ``python -m`` runs: the module that it then runs as ``__main__``."""

STREAMS = "pyspark.sql.streaming.python_streaming_source_runner"
"""What Spark runs for each stream of a source in Python."""

_LATER = (
    "tidemark.captures.postgres.database",
    "tidemark.captures.postgres.source",
    "tidemark.captures.postgres.log.slot",
    "tidemark.captures.mysql.database",
    "tidemark.captures.mysql.source",
    "tidemark.captures.process.answers",
    "tidemark.captures.process.connector",
    "tidemark.captures.process.backfill_plan",
    "tidemark.captures.process.capture_session",
    "tidemark.runtime.cli",
    "tidemark.runtime.progress.displays.live",
    "tidemark.runtime.sessions.owned_log",
    "tidemark.runtime.sessions.supervisor",
    "tidemark.runtime.changelog.events",
)
"""What connectors and commands import once they need it."""

PRELOADED = (*_MAINS.values(), *_LATER)
"""A name that is no module is left out without a word, by multiprocessing."""

warm_context = multiprocessing.get_context("forkserver")
warm_context.set_forkserver_preload(["runpy", *PRELOADED])


def is_warm(command: Sequence[str]) -> bool:
    """Whether this is what ``WarmProcess`` runs: this Python, a module that it knows, and arguments."""
    return len(command) >= 3 and list(command[:2]) == [sys.executable, "-m"] and command[2] in _MAINS


class WarmProcess:
    """A running process, with the part of ``subprocess.Popen`` that tests use.

    Args:
        command: ``python -m MODULE ARGUMENT…``, see ``is_warm``.
        env: The whole environment.
        folder: Where it runs; by default where this process does.
        stderr: A file that its stderr goes to instead of a pipe.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], folder: Path | None = None, *, stderr: Path | None = None
    ) -> None:
        self.args = list(command)
        stdin, ours = warm_context.Pipe(duplex=False)
        outputs = [warm_context.Pipe(duplex=False), _opened(stderr) if stderr else warm_context.Pipe(duplex=False)]
        theirs = [stdin, *(writer for _, writer in outputs)]
        self._process = warm_context.Process(
            target=run_in_this_process, args=(self.args[2:], theirs, dict(env), folder or Path.cwd())
        )
        self._process.start()
        for end in theirs:
            end.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.stdin = _file(ours, "wb")
        self.stdout, self.stderr = (_file(reader, "rb") for reader, _ in outputs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Closes the pipes, and waits until it has ended, as ``subprocess.Popen`` does.

        After an error it is killed: nobody would end it any more, and the error is what is to be said.
        """
        if kind is not None:
            self.kill()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()
        self.wait()

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

    def run(self, given: bytes, timeout: float) -> tuple[int, bytes, bytes]:
        """Gives it all of its input, and returns its exit status, stdout and stderr."""
        outputs: dict[IO[bytes], bytes] = {}
        streams = (self.stdout, self.stderr)
        readers = [threading.Thread(target=lambda s=s: outputs.update({s: s.read()})) for s in streams]
        for reader in readers:
            reader.start()
        try:
            with self.stdin:
                self.stdin.write(given)
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


def run_to_its_end(
    command: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run``, with nothing on stdin, and by default with this process's environment."""
    status, stdout, stderr = WarmProcess(command, environment or os.environ, folder).run(b"", timeout)
    return subprocess.CompletedProcess(command, status, stdout.decode(), stderr.decode())


def _opened(path: Path) -> tuple[Connection, Connection]:
    """A file as the two ends of a pipe: what is read of it, and what is written to it."""
    path.write_bytes(b"")
    return Connection(os.open(path, os.O_RDONLY), writable=False), Connection(
        os.open(path, os.O_WRONLY | os.O_APPEND), readable=False
    )


def _file(end: Connection, mode: str) -> IO[bytes]:
    with end:
        return os.fdopen(os.dup(end.fileno()), mode)


def run_in_this_process(
    arguments: Sequence[str], ends: Sequence[Connection], environment: Mapping[str, str], folder: Path
) -> None:
    """What ``python -m MODULE ARGUMENT…`` does; for a fresh fork.

    Args:
        arguments: The module, one of those above, and what follows it.
        ends: What become stdin, stdout and stderr.
        environment: The whole environment.
        folder: Where it runs.
    """
    for number, end in enumerate(ends):
        os.dup2(end.fileno(), number)
        end.close()
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for name in (*_MAINS.values(), STREAMS):  # One of them runs once more, now by its name, and may run another.
        sys.modules.pop(name, None)
    sys.argv = list(arguments)
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # Until Python 3.13 a process of multiprocessing ends without them.
