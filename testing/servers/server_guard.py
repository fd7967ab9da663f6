"""What ends a throwaway server when the process that started it is gone, however that ended, SIGKILL included.

The guard is a process with the read end of a pipe whose write end only its parent has: it sees the end of the pipe.
Unlike PR_SET_PDEATHSIG this is portable, and is not tied to the thread that started the server.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

_GUARD = """cat >/dev/null; kill -"$1" "$0"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$0" 2>/dev/null || break; sleep 1; done
rm -rf "$2"
"""
"""Waits for the end of its stdin, then sends the signal ($1) to the server ($0) and removes its directory ($2)."""


class ServerGuard:
    """Guards one process of a server; to be dismissed before that is ended.

    Args:
        pid: The server's process.
        directory: What is removed once it has ended.
        last: The signal that ends it at once.
    """

    def __init__(self, pid: int, directory: Path, last: signal.Signals) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(pid), str(int(last)), directory],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """Ends the guard: it must never signal a process id that was given away again. More than once is fine."""
        self._process.kill()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
