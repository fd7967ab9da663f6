"""A connector as a local command, in a process group of its own."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidemark.protocol.errors import ConnectorError
from tidemark.runtime.connector import tether
from tidemark.runtime.connector.interface import Exit, RunningConnector

PIPE_BYTES = 1024 * 1024
"""Size asked for the stdout pipe. A larger one means fewer switches between the two processes."""


INHERITED = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "XDG_RUNTIME_DIR"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV", "JAVA_HOME"),
    }
)
"""The runtime's variables that a connector gets: paths, locale and time zone."""


SCARCE = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""Why no program can be started just now, whichever it is: too little memory, too many processes or files."""


class ProcessConnector:
    """Runs ``command`` in ``directory``, with the variables of ``INHERITED`` and those it is started with.

    The folder of the Python that runs tidemark is first on the command's PATH, so ``python`` in a capture file is this
    Python, with the connectors installed in it, whether or not its virtual environment is active.
    """

    kind = "LOCAL"

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        self._command = list(command)
        self._directory = directory

    @property
    def name(self) -> str:
        return shlex.join(self._command[:3])

    def start(self, environment: Mapping[str, str], *, session: str = "") -> RunningConnector:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        program = self._command[0]
        if "/" in program:
            found = str(self._directory / program)
            found = found if os.access(found, os.X_OK) and Path(found).is_file() else ""
        else:
            found = shutil.which(program, path=path) or ""
        if not found:
            raise ConnectorError("TM-RUN-001", f"connector.command: there is no program {program!r}")
        tethered = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), found, *self._command[1:]]
        try:
            process = subprocess.Popen(
                tethered,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                cwd=self._directory,
                env={**_inherited(), "PATH": path, **environment},
                start_new_session=True,
            )
        except OSError as error:
            what = f"{self.name} cannot be started: {error.strerror}"
            if error.errno in SCARCE:
                more = "Free memory, or let this user have more processes and open files: 'ulimit -a' shows the limits."
                raise ConnectorError("TM-RUN-002", what, remedy=more) from None
            raise ConnectorError("TM-RUN-001", what) from None
        return _RunningProcess(process)


def _inherited() -> dict[str, str]:
    """The variables of the runtime's environment that every program needs: not the rest, which may hold secrets."""
    return {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("LC_")}


class _RunningProcess(RunningConnector):
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._stdin = process.stdin
        self._pipes = (process.stdout, process.stderr)
        self.stdout, self.stderr = process.stdout.fileno(), process.stderr.fileno()
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux
            with suppress(PermissionError):  # Over this user's limit for pipes: the default size works too.
                fcntl.fcntl(self.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._ended = threading.Event()
        self._ending = threading.Lock()
        self._exit: Exit | None = None
        threading.Thread(target=self._reap, name="connector-exit", daemon=True).start()

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self._stdin.write(view) :]

    def close_stdin(self) -> None:
        self._stdin.close()

    def wait(self, seconds: float | None) -> Exit | None:
        self._ended.wait(seconds)
        return self._exit

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def release(self) -> None:
        self._ended.wait()
        self._stdin.close()
        for pipe in self._pipes:
            pipe.close()

    def _signal(self, number: int) -> None:
        with self._ending:
            if self._exit is None:
                os.killpg(self._process.pid, number)

    def _reap(self) -> None:
        # Left unreaped (WNOWAIT), the process keeps its id, so that the group that is killed can be no other. What the
        # connector started must not outlive it: it would hold the pipes open, and their end would never come.
        if hasattr(os, "waitid"):  # not on every macOS
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            os.killpg(self._process.pid, signal.SIGKILL)
        with self._ending:
            status = self._process.wait()
            self._exit = Exit(status) if status >= 0 else Exit(128 - status, -status)
        self._ended.set()
