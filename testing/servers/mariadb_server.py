"""A throwaway MariaDB server, of the installation of this machine or of one that the environment names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import ClassVar, Self

from tidemark.testing.servers import FAST
from tidemark.testing.servers.mysql_family import MySqlFamilyServer, Programs, programs_at

ENVIRONMENT = "TIDEMARK_TEST_MARIADBD"

_SYSTEM_TABLES = ("system_tables", "performance_tables", "system_tables_data")
"""What a server needs of what mariadb-install-db feeds to it, in this order."""


@cache
def installed_programs() -> Programs | None:
    """The MariaDB that ``TIDEMARK_TEST_MARIADBD`` names, else that of this machine.

    None without, or in ``make test-fast``.
    """
    if FAST:
        return None
    # Debian puts the server where the PATH of other users than root does not lead.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"])
    server = os.environ.get(ENVIRONMENT) or shutil.which("mariadbd", path=path)
    return programs_at(server) if server else None


class MariaDbServer(MySqlFamilyServer):
    """A MariaDB server. See ``MySqlFamilyServer``."""

    product = "MariaDB"
    settings: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"binlog_row_metadata": "FULL", "gtid_strict_mode": "on", "innodb_log_file_size": "48M"}
    )

    def replicate(self, primary: Self) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET GLOBAL gtid_slave_pos = ''")
            cursor.execute(
                "CHANGE MASTER TO MASTER_HOST = %s, MASTER_PORT = %s, MASTER_USER = %s, MASTER_PASSWORD = %s, "
                "MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
                [primary.host, primary.port, primary.user, primary.password],
            )
            cursor.execute("START SLAVE")

    def stop_replicating(self) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("STOP SLAVE")

    def _make_first_data_directory(self) -> None:
        self.data.mkdir()
        statements = [
            "CREATE DATABASE mysql;\nUSE mysql;\n",
            # Its own root can log in from this machine's socket only.
            f"SET @auth_root_socket = '{self.user}';\n",
            *map(self._system_tables, _SYSTEM_TABLES),
            "FLUSH PRIVILEGES;\n",  # a bootstrap runs without accounts until it is told to read them
            self._accounts(),
        ]
        options = ("--bootstrap", "--log_warnings=0", "--max_allowed_packet=8M", "--net_buffer_length=16K")
        self._run(*options, given="".join(statements))

    def _system_tables(self, name: str) -> str:
        files = [self.programs.basedir / "share" / brand / f"{brand}_{name}.sql" for brand in ("mysql", "mariadb")]
        found = [file for file in files if file.exists()]
        assert found, f"there is none of {', '.join(map(str, files))}"
        return found[0].read_text(encoding="utf-8")
