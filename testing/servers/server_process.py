"""One throwaway server of any kind: started, stopped, killed and restarted as a process of ours.

It lives in a temporary directory, listens on 127.0.0.1, and never outlives its parent. The demo's PostgreSQL is one,
the MariaDB and MySQL servers of the tests are others.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from tidemark.protocol.errors import SourceError
from tidemark.testing.servers.server_guard import ServerGuard

_SOCKET_PATH_LIMIT = 100
"""Bytes of a socket's path: sun_path holds 107 on Linux and 103 on macOS."""

_PORT_TAKEN = "Address already in use"


@dataclass(frozen=True, slots=True)
class Account:
    """The account that a server runs as, where that is not this process's own."""

    uid: int
    gid: int


class ServerProcess(ABC):
    """A server in a directory of its own; ``with PostgresServer() as server: …``.

    Args:
        account: The account to run as; by default this process's own.
        output: File that the server's messages are appended to; by default in the temporary directory.

    Attributes:
        port: Where it listens; the same after every restart, and 0 before the first start.
        output: What the server says.
    """

    product: ClassVar[str]
    host: ClassVar[str] = "127.0.0.1"
    at_once: ClassVar[signal.Signals] = signal.SIGKILL
    """What ends the server and all its processes without a shutdown."""

    def __init__(self, *, account: Account | None = None, output: Path | None = None) -> None:
        self.port = 0
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ServerGuard | None = None
        self._said_from = 0
        self._root = _short_directory(f"tidemark-{self.product.lower()}-", account)
        atexit.register(self.close)
        self.output = output if output is not None else self._root / "server.log"

    @property
    def data(self) -> Path:
        """The data directory."""
        return self._root / "data"

    @property
    def pid(self) -> int | None:
        """The server's process id; None when it is down."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, seconds: float = 60.0) -> None:
        """Starts the server, making its data directory the first time, and waits until it takes connections.

        Raises:
            SourceError: ``TM-DEMO-001`` with the server's last words when it does not come up in ``seconds``.
        """
        if self.pid is not None:
            return
        if not self.data.exists():
            self._make_data_directory()
        deadline = time.monotonic() + seconds
        while True:
            self.port = self.port or _free_port()
            if self._launch(deadline):
                return
            said = self._last_words()
            if _PORT_TAKEN in said:
                self.port = 0
            elif not self._start_again(said):
                raise self._not_started(said)
            if time.monotonic() > deadline:
                raise self._not_started(said)
            time.sleep(0.1)

    def stop(self, *, seconds: float = 20.0) -> None:
        """Stops the server as a service manager would; one that takes more than ``seconds`` is forced."""
        self._end((signal.SIGTERM, signal.SIGKILL), seconds)

    def restart(self) -> None:
        """Stops and starts the server, on the same port."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kills the server with SIGKILL, as a crash would. ``start`` brings it back with crash recovery."""
        self._end((signal.SIGKILL,), None)

    def close(self) -> None:
        """Ends the server at once, since its directory goes too, and removes that. Does nothing the second time."""
        self._end((self.at_once, signal.SIGKILL), 5.0)
        atexit.unregister(self.close)
        shutil.rmtree(self._root, ignore_errors=True)

    @abstractmethod
    def _make_data_directory(self) -> None:
        """Makes ``data``; the server is started on it afterwards."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """The command that runs the server on ``data`` and ``port``."""

    @abstractmethod
    def _takes_connections(self) -> bool:
        """Whether the running server can be used by now."""

    def _start_again(self, said: str) -> bool:
        """Whether a server that ended at its start, having said this, is only to be tried again."""
        return False

    def _run_as(self) -> dict[str, Any]:
        """Arguments of ``subprocess`` that run a program in the server's directory, as its account."""
        account: dict[str, Any] = {}
        if self._account is not None:
            account = {"user": self._account.uid, "group": self._account.gid, "extra_groups": []}
        return {"cwd": self._root, **account}

    def _launch(self, deadline: float) -> bool:
        """Starts the process; True once it takes connections, False when it ended or the time is over."""
        with self.output.open("ab") as output:
            self._said_from = output.tell()
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C at a terminal is for us: we stop the server once its clients are gone.
                start_new_session=True,
                **self._run_as(),
            )
        self._guard = ServerGuard(self._process.pid, self._root, self.at_once)
        while time.monotonic() < deadline and self.pid is not None:
            if self._takes_connections():
                return True
            time.sleep(0.02)
        self._end((self.at_once, signal.SIGKILL), 20.0)
        return False

    def _end(self, signals: Sequence[signal.Signals], seconds: float | None) -> None:
        """Sends the signals one after another until the process has ended, ``seconds`` after each."""
        if self._process is None:
            return
        if self._guard is not None:
            self._guard.dismiss()
        for number in signals:
            if self._process.poll() is None:
                self._process.send_signal(number)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
            break
        self._process = None

    def _last_words(self) -> str:
        with self.output.open("rb") as file:
            file.seek(self._said_from)
            return file.read().decode(errors="replace").strip()[-2000:] or "it logged nothing"

    def _not_started(self, said: str) -> SourceError:
        return SourceError("TM-DEMO-001", f"{self.product} did not start: {said}")


def _short_directory(prefix: str, account: Account | None) -> Path:
    """A new temporary directory, near enough to the root that a socket in it has a short enough path."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(f"{parent}/{prefix}12345678/.s.PGSQL.12345")) > _SOCKET_PATH_LIMIT:
        parent = "/tmp"
    root = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    if account is not None:
        os.chown(root, account.uid, account.gid)
    return root


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
