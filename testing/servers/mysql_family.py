"""What the throwaway MariaDB and MySQL servers have in common: their settings, and how a data directory is made."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import pymysql
from pymysql.connections import Connection

from tidemark.captures.mysql.server.wire import WireConnection
from tidemark.testing.servers.server_process import ServerProcess
from tidemark.testing.servers.templates import PASSWORD, data_directory

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


class MySqlFamilyServer(ServerProcess):
    """A server; ``with MariaDbServer(programs) as server: server.connect()``.

    Args:
        programs: The installation to start.
        server_id: Of its binlog events; a replica needs another one than its primary.
        settings: Options of the server by their variables' names; they win over the defaults (a binlog of full rows).
    """

    settings: ClassVar[Mapping[str, str]]
    """What this product adds to the settings that both know."""

    user = "root"

    def __init__(
        self, programs: Programs, *, server_id: int = 1, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__()
        self.programs = programs
        self.server_id = server_id
        self.password = PASSWORD
        self._settings = {**_SETTINGS, **self.settings, **settings}
        # A server that starts removes the temporary tables of others from a directory that they share.
        self._temporary = self._root / "temporary"
        self._temporary.mkdir()

    @property
    def certified(self) -> bool:
        """Whether it was given a certificate, and is one for tests of TLS."""
        return "ssl_cert" in self._settings

    def connect(self, **parameters: Any) -> Connection[Any]:
        """Connects as root over TCP, autocommitting; ``parameters`` are PyMySQL's."""
        account = {"host": self.host, "port": self.port, "user": self.user, "password": self.password}
        # Not PyMySQL's own, which reads the system's authorities first: 20 ms of a processor.
        return WireConnection(**{**account, "autocommit": True, "charset": "utf8mb4", **parameters})

    @abstractmethod
    def replicate(self, primary: Self) -> None:
        """Makes this server, which nobody wrote to, a replica of ``primary`` by GTID, from its first event on."""

    @abstractmethod
    def stop_replicating(self) -> None:
        """Makes a replica a server of its own, as a failover does."""

    @abstractmethod
    def _make_first_data_directory(self) -> None:
        """With ``_accounts`` in it, of which nothing is in a binlog."""

    def _make_data_directory(self) -> None:
        data_directory(self.programs.server, self._make_first_data_directory, self.data)

    def _accounts(self) -> str:
        """Statements that make the account of ``connect``; others must not be usable over TCP."""
        return (
            f"CREATE USER {self.user}@'127.0.0.1' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO {self.user}@'127.0.0.1' WITH GRANT OPTION;\n"
        )

    def _command(self) -> Sequence[str | Path]:
        options = {"pid_file": self._pid_file, "port": self.port, "server_id": self.server_id, **self._settings}
        return self._program(*(f"--{name}={value}" for name, value in options.items()))

    def _program(self, *options: str) -> list[str]:
        """The server's program on the data directory."""
        return [
            *(str(self.programs.server), "--no-defaults", *account_to_run_as()),
            *(f"--datadir={self.data}", f"--tmpdir={self._temporary}", f"--socket={self._root / 'socket'}"),
            *options,
        ]

    def _run(self, *options: str, given: str = "") -> None:
        """Runs the server's program to its end, with ``given`` as its input."""
        ended = subprocess.run(
            self._program(*options), input=given, capture_output=True, text=True, check=False, **self._run_as()
        )
        assert ended.returncode == 0, f"{self.programs.server} failed: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"

    def _takes_connections(self) -> bool:
        # Written once the port is its own. Until then whoever else has the port would be asked.
        if not self._pid_file.exists() or self._pid_file.read_text().strip() != str(self.pid):
            return False
        try:
            self.connect(connect_timeout=5).close()
        except pymysql.OperationalError:
            return False
        return True

    @property
    def _pid_file(self) -> Path:
        return self._root / "pid"


def account_to_run_as() -> list[str]:
    """The option that names the account to run as, which a server wants to be told when it is root."""
    return [f"--user={pwd.getpwuid(0).pw_name}"] if os.geteuid() == 0 else []
