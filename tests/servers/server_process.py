"""A throwaway MariaDB or MySQL server in a directory of its own, which never outlives the process that started it."""

from __future__ import annotations

import atexit
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, ClassVar, Self

import pymysql
from pymysql.connections import Connection

from runtime.demo.server_guard import ServerGuard
from tests.servers.deadline import wait_until

_PASSWORD = secrets.token_hex(16)
"""Of the servers of this process, as their data directories are copies of one."""

_templates: dict[Path, Path] = {}
"""By a server's program, a data directory that was never used: to make one takes seconds, and to copy it none."""

_SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "bind_address": "127.0.0.1",
        "skip_name_resolve": "on",
        "log_bin": "binlog",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "log_slave_updates": "on",
        "character_set_server": "utf8mb4",
        "max_connections": "200",
        # Commits survive a crash of the server, not one of the machine.
        "sync_binlog": "0",
        "innodb_flush_log_at_trx_commit": "2",
        "innodb_doublewrite": "off",
        "innodb_buffer_pool_size": "64M",
    }
)


@dataclass(frozen=True)
class Programs:
    """An installation.

    Attributes:
        server: ``mariadbd`` or ``mysqld``.
        version: ``10.11.6``.
        basedir: Where it is installed.
    """

    server: Path
    version: str
    basedir: Path


def programs_at(server: str) -> Programs:
    """The installation that a server's program belongs to, by what that says of itself."""
    said = subprocess.run(
        # --verbose --help does not run as root, unless told to.
        [server, "--no-defaults", *account_to_run_as(), "--verbose", "--help"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    version = re.search(r"  Ver (\d+\.\d+\.\d+)", said)
    basedir = re.search(r"^basedir +(/.*)$", said, re.MULTILINE)
    assert version is not None and basedir is not None, f"{server} is no server that can be run here: {said[:500]}"
    return Programs(Path(server), version[1], Path(basedir[1]))


class ServerProcess(ABC):
    """A server; ``with MariaDbServer(programs) as server: server.connect()``.

    Args:
        programs: The installation to start.
        server_id: Of its binlog events; a replica needs another one than its primary.
        settings: Options of the server by their variables' names; they win over the defaults (a binlog of full rows).
    """

    product: ClassVar[str]
    settings: ClassVar[Mapping[str, str]]
    """What this product adds to the settings that both know."""

    user = "root"
    host = "127.0.0.1"

    def __init__(
        self, programs: Programs, *, server_id: int = 1, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.programs = programs
        self.server_id = server_id
        self.password = _PASSWORD
        self.port = 0
        self._settings = {**_SETTINGS, **self.settings, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: ServerGuard | None = None
        # The path of a socket may have 107 bytes, and pytest's own directories are deep.
        self._root = Path(tempfile.mkdtemp(prefix=f"tidemark-{self.product.lower()}-"))
        self.output = self._root / "server.log"
        atexit.register(self.close)

    @property
    def data(self) -> Path:
        """The data directory, which also holds the binlogs."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def connect(self, **parameters: Any) -> Connection[Any]:
        """Connects as root over TCP, autocommitting; ``parameters`` are PyMySQL's."""
        account = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        return pymysql.connect(**{**account, "autocommit": True, "charset": "utf8mb4", **parameters})

    def start(self, seconds: float = 60) -> None:
        """Starts the server, making its data directory the first time, and waits until it takes connections."""
        if self.pid is not None:
            return
        if not self.data.exists():
            (self._root / "temporary").mkdir()
            self._copy_data_directory()
        self.port = self.port or _free_port()
        options = {
            "datadir": str(self.data),
            "socket": str(self._root / "socket"),
            "pid_file": str(self._root / "pid"),
            # A server that starts removes the temporary tables of others from a directory that they share.
            "tmpdir": str(self._root / "temporary"),
            "port": str(self.port),
            "server_id": str(self.server_id),
            **self._settings,
        }
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command(*(f"--{name}={value}" for name, value in options.items())),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._root,
                start_new_session=True,  # Ctrl-C at a terminal is for us: we stop the server once its clients are gone.
            )
        self._guard = ServerGuard(self._process.pid, self._root, signal.SIGKILL)
        wait_until(self._takes_connections, seconds, f"{self.product} takes connections")

    def stop(self, seconds: float = 20) -> None:
        """Shuts the server down as a service manager would; one that takes more than ``seconds`` is killed."""
        if self._process is None:
            return
        if self._guard is not None:
            self._guard.dismiss()
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stops and starts the server, on the same port."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kills the server with SIGKILL, as a crash would. ``start`` brings it back with crash recovery."""
        if self._process is None:
            return
        if self._guard is not None:
            self._guard.dismiss()
        self._process.kill()
        self._process.wait()
        self._process = None

    @abstractmethod
    def replicate(self, primary: Self) -> None:
        """Makes this server, which nobody wrote to, a replica of ``primary`` by GTID, from its first event on."""

    @abstractmethod
    def stop_replicating(self) -> None:
        """Makes a replica a server of its own, as a failover does."""

    def close(self) -> None:
        """Stops the server and removes its directory. Does nothing the second time."""
        self.stop(seconds=5)
        atexit.unregister(self.close)
        shutil.rmtree(self._root, ignore_errors=True)

    def _copy_data_directory(self) -> None:
        if (template := _templates.get(self.programs.server)) is None:
            self._make_data_directory()
            template = Path(tempfile.mkdtemp(prefix=f"tidemark-{self.product.lower()}-template-"))
            atexit.register(shutil.rmtree, template, ignore_errors=True)
            shutil.copytree(self.data, template, dirs_exist_ok=True)
            (template / "auto.cnf").unlink(missing_ok=True)  # the identity of one server of MySQL's
            _templates[self.programs.server] = template
        else:
            shutil.copytree(template, self.data)

    @abstractmethod
    def _make_data_directory(self) -> None:
        """With ``_accounts`` in it, of which nothing is in a binlog."""

    def _accounts(self) -> str:
        """Statements that make the account of ``connect``; others must not be usable over TCP."""
        return (
            f"CREATE USER {self.user}@'127.0.0.1' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {self.user}@'127.0.0.1' WITH GRANT OPTION;\n"
        )

    def _command(self, *options: str) -> list[str]:
        return [str(self.programs.server), "--no-defaults", *account_to_run_as(), *options]

    def _run(self, *options: str, given: str = "") -> None:
        """Runs the server's program to its end, with ``given`` as its input."""
        command = self._command(
            f"--datadir={self.data}", f"--tmpdir={self._root / 'temporary'}", f"--socket={self._root / 'socket'}"
        )
        ended = subprocess.run(
            [*command, *options], cwd=self._root, input=given, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{self.programs.server} failed: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"

    def _takes_connections(self) -> bool:
        if self.pid is None:
            raise AssertionError(f"{self.product} did not start: {self.output.read_text(errors='replace')[-2000:]}")
        try:
            self.connect(connect_timeout=5).close()
        except pymysql.OperationalError:
            return False
        return True


def account_to_run_as() -> list[str]:
    """The option that names the account to run as, which a server wants to be told when it is root."""
    return [f"--user={pwd.getpwuid(0).pw_name}"] if os.geteuid() == 0 else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
