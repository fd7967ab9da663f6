"""PyMySQL below its public interface: its socket, its packets, and commands that it has no methods for.

No other module uses its private members. If a version lacks one, ``test_wire.py`` fails. ``pyproject.toml`` limits the
version, because such members may disappear at any time.
"""

from __future__ import annotations

import ssl
from io import BufferedReader
from typing import Any

from pymysql.connections import Connection

PRIVATE = ("_create_ssl_ctx", "_execute_command", "_force_close", "_read_packet", "_rfile", "_secure", "_sock")
"""The members that are used here."""


class WireConnection(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """PyMySQL's own reads the system's authorities for ``PREFERRED``, which takes 30 ms, and then uses none of them."""

    def _create_ssl_ctx(self, parameters: ssl.SSLContext | dict[str, object]) -> ssl.SSLContext:
        return parameters if isinstance(parameters, ssl.SSLContext) else unverified()


def unverified() -> ssl.SSLContext:
    """A context that encrypts, and authenticates no server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def send_command(connection: Connection[Any], command: int, argument: bytes | str) -> None:
    """Sends a command packet; the caller reads the answer. Raises pymysql.Error."""
    connection._execute_command(command, argument)


def read_packet(connection: Connection[Any]) -> Any:
    """The next packet, as PyMySQL's ``MysqlPacket``. Raises pymysql.Error, also for an error packet."""
    return connection._read_packet()


def incoming(connection: Connection[Any]) -> BufferedReader:
    """What the server sends, as PyMySQL reads it: some of it may be buffered there."""
    file = connection._rfile
    assert isinstance(file, BufferedReader)
    return file


def socket_of(connection: Connection[Any]) -> Any:
    """The socket, plain or of TLS; None when it is closed."""
    return connection._sock


def is_encrypted(connection: Connection[Any]) -> bool:
    """Whether only the server can read what is sent: over TLS or a local socket."""
    return bool(connection._secure)


def break_off(connection: Connection[Any]) -> None:
    """Closes the connection at once: sends no command, and reads nothing more."""
    connection._force_close()
