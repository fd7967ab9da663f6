"""PyMySQL below its public interface: its socket, its packets, and commands that it has no methods for.

Nothing else of ours touches a private member of it. A version that lacks one fails ``test_wire.py`` of the tests, and
``pyproject.toml`` bounds the version from above, since such members may go at any time.
"""

from __future__ import annotations

import ssl
from io import BufferedReader
from typing import Any

from pymysql.connections import Connection

PRIVATE = ("_create_ssl_ctx", "_execute_command", "_force_close", "_read_packet", "_rfile", "_secure", "_sock")
"""The members that are used here."""


class WireConnection(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """PyMySQL's. For ``PREFERRED`` that reads the system's authorities, 30 ms long, and then asks none of them."""

    def _create_ssl_ctx(self, parameters: ssl.SSLContext | dict[str, object]) -> ssl.SSLContext:
        return parameters if isinstance(parameters, ssl.SSLContext) else unverified()


def unverified() -> ssl.SSLContext:
    """Encrypts, whoever the server is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def send_command(connection: Connection[Any], command: int, argument: bytes | str) -> None:
    """Sends a command packet; what the server answers is to be read. Raises pymysql.Error."""
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
    """Whether what is sent can be read by the server only: over TLS, or a socket of the machine."""
    return bool(connection._secure)


def break_off(connection: Connection[Any]) -> None:
    """Closes the connection without a word to the server, whatever is still to be read."""
    connection._force_close()
