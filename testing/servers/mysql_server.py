"""A throwaway MySQL server, of the installation of this machine or of one that the environment names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Self

from tidemark.testing.servers import FAST
from tidemark.testing.servers.mysql_family import MySqlFamilyServer, Programs, programs_at

ENVIRONMENT = "TIDEMARK_TEST_MYSQLD"

DOWNLOADED = Path(__file__).resolve().parents[2] / ".servers" / "mysql" / "mysqld"
"""What ``.ci/mysql-server`` makes."""


@cache
def installed_programs() -> Programs | None:
    """The MySQL that ``TIDEMARK_TEST_MYSQLD`` names, else that of this machine, else ``DOWNLOADED``.

    None without, or in ``make test-fast``.
    """
    if FAST:
        return None
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])
    if server := os.environ.get(ENVIRONMENT):
        return programs_at(server)
    installed = shutil.which("mysqld", path=path)
    # MariaDB has a mysqld too: a link to mariadbd.
    if installed and "mariadb" not in Path(installed).resolve().name:
        return programs_at(installed)
    return programs_at(str(DOWNLOADED)) if DOWNLOADED.exists() else None


class MySqlServer(MySqlFamilyServer):
    """A MySQL server, with GTIDs. See ``MySqlFamilyServer``."""

    product = "MySQL"
    settings: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "gtid_mode": "on",
            "enforce_gtid_consistency": "on",
            "secure_file_priv": "",  # packages name a directory that only their installation makes
            # Settings that not every version from 5.7 on has.
            "loose_binlog_row_metadata": "FULL",
            "loose_mysqlx": "off",
            "performance_schema": "off",  # half of the server's memory, of which captures read nothing
            "loose_innodb_redo_log_capacity": "96M",
        }
    )

    def replicate(self, primary: Self) -> None:
        new = self._version >= (8, 0, 23)
        source = "SOURCE" if new else "MASTER"
        change = "CHANGE REPLICATION SOURCE" if new else "CHANGE MASTER"
        # An account of caching_sha2_password sends its password over TLS, or sealed with the source's key.
        key = ", GET_SOURCE_PUBLIC_KEY = 1" if new else ""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                f"{change} TO {source}_HOST = %s, {source}_PORT = %s, {source}_USER = %s, {source}_PASSWORD = %s, "
                f"{source}_AUTO_POSITION = 1, {source}_CONNECT_RETRY = 1{key}",
                [primary.host, primary.port, primary.user, primary.password],
            )
            cursor.execute("START REPLICA" if new else "START SLAVE")

    def stop_replicating(self) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("STOP REPLICA" if self._version >= (8, 0, 23) else "STOP SLAVE")

    @property
    def _version(self) -> tuple[int, ...]:
        return tuple(map(int, self.programs.version.split(".")))

    def _make_first_data_directory(self) -> None:
        accounts = self._root / "accounts.sql"
        accounts.touch(mode=0o600)
        # root@localhost has no password, and only the directory's owner reaches the socket.
        accounts.write_text(self._accounts())
        self._run("--initialize-insecure", f"--init_file={accounts}")
        accounts.unlink()
