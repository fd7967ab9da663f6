"""A server with a certificate, and accounts on it that authenticate in many ways."""

from __future__ import annotations

import secrets
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pymysql

from tidemark.captures.mysql.server.session import connect
from tidemark.captures.mysql.terms.config import parse_endpoint
from tidemark.testing.certificates import Authority
from tidemark.testing.servers.mariadb import Database
from tidemark.testing.servers.mysql_family import MySqlFamilyServer

PASSWORD = 'it\'s a \\ "secret" of çä'

MARIADB_METHODS = {"mysql_native_password": "", "ed25519": "auth_ed25519"}
MYSQL_METHODS = {"mysql_native_password": "", "sha256_password": "", "caching_sha2_password": ""}
"""Methods of authentication by a password, and the plugin to install for them."""


@dataclass
class SecureServer:
    """A server, and who signed its certificate, which is of ``localhost``.

    Attributes:
        authority: That it trusts too.
        other: Another one.
    """

    server: MySqlFamilyServer
    authority: Authority
    other: Authority
    _made: list[str] = field(default_factory=list)

    @property
    def mariadb(self) -> bool:
        return self.server.product == "MariaDB"

    @property
    def version(self) -> tuple[int, ...]:
        return tuple(map(int, self.server.programs.version.split(".")))

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs statements as root, and returns the last one's rows."""
        rows: list[tuple[Any, ...]] = []
        with closing(self.server.connect()) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def has(self, plugin: str, library: str = "") -> bool:
        """Whether the server authenticates by a plugin, which is installed if it can be."""
        found = f"SELECT 1 FROM information_schema.plugins WHERE plugin_name = '{plugin}' AND plugin_status = 'ACTIVE'"
        if library and not self.run(found):
            install = (
                f"INSTALL SONAME '{library}'" if self.mariadb else f"INSTALL PLUGIN {plugin} SONAME '{library}.so'"
            )
            try:
                self.run(install)
            except pymysql.Error:
                return False  # This build comes without it.
        return bool(self.run(found))

    @property
    def methods(self) -> list[str]:
        """Those of the product's methods that this server has."""
        known = MARIADB_METHODS if self.mariadb else MYSQL_METHODS
        return [plugin for plugin, library in known.items() if self.has(plugin, library)]

    def account(self, method: str, *, options: str = "", password: str = PASSWORD) -> dict[str, Any]:
        """A new user who may replicate and read everything: the configuration to come as this one."""
        user = f"u{len(self._made)}_{secrets.token_hex(2)}"
        self._made.append(user)
        quoted = password.replace("\\", "\\\\").replace("'", "''")
        # The statement is for the server's own character set of literals: utf8mb4.
        if self.mariadb:
            by = f"IDENTIFIED VIA {method}" + (f" USING PASSWORD('{quoted}')" if password else "")
        else:
            by = f"IDENTIFIED WITH {method}" + (f" BY '{quoted}'" if password else "")
        monitor = "BINLOG MONITOR" if self.mariadb else "REPLICATION CLIENT"
        self.run(
            f"CREATE USER {user}@'%' {by} {options}", f"GRANT REPLICATION SLAVE, {monitor}, SELECT ON *.* TO {user}@'%'"
        )
        return {"host": self.server.host, "port": self.server.port, "user": user, "password": password}

    def database(self, name: str) -> Database:
        """A new, empty database, as root sees it."""
        self.run(f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        server = self.server
        return Database(server.host, server.port, server.user, server.password, server.product, server, name)


def cipher(config: dict[str, Any]) -> str:
    """The cipher of a connection with this configuration; empty when it is not encrypted. Raises SourceError."""
    with closing(connect(parse_endpoint(config))) as session:
        return str(session.rows("SHOW STATUS LIKE 'Ssl_cipher'")[0][1])
