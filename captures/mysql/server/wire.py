"""PyMySQL below its public interface: its socket, its packets, its commands, and rows as packets.

No other module uses its private members. If a version lacks one, ``test_wire.py`` fails. ``pyproject.toml`` limits the
version, because such members may disappear at any time.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND, CR
from pymysql.err import raise_mysql_exception

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


READ_BYTES = 256 * 1024
_HEADER = 4
_header = struct.Struct("<I").unpack_from
"""The size of a packet, and in the highest byte its number."""

_LONGEST = 0xFFFFFF
"""Bytes of a packet that continues in the next one."""

_EOF = b"\xfe"
_ERROR = b"\xff"
_EOF_BYTES = 9
"""An EOF packet is shorter than this; a row that begins with the same byte is longer than 16 MB."""


def stream(connection: Connection[Any], query: str) -> Iterator[list[bytes]]:
    """Sends a query that has a result set, and yields its rows' payloads in blocks as they arrive.

    A caller that does not take all of it must close the connection. Raises pymysql.Error if the server refuses or ends
    the query, of which what was yielded before are rows, and OSError if the connection broke.
    """
    send_command(connection, COMMAND.COM_QUERY, query)
    blocks = _packets(connection)
    rows = _after_columns(blocks)
    while True:
        # Nothing follows what ends the rows, so it is the last packet of a block.
        last = rows[-1] if rows else b""
        failed, ended = last[:1] == _ERROR, _is_eof(last)
        if failed or ended:
            rows.pop()
        if rows:
            yield rows
        if failed:
            raise_mysql_exception(last)
        if ended:
            return
        rows = next(blocks)


def _after_columns(blocks: Iterator[list[bytes]]) -> list[bytes]:
    """The first rows: what follows the number and the descriptions of columns. Raises as ``stream``."""
    head: list[bytes] = []
    for block in blocks:
        head += block
        for place, packet in enumerate(head):
            if packet[:1] == _ERROR:
                raise_mysql_exception(packet)
            if _is_eof(packet):
                return head[place + 1 :]
    raise AssertionError("blocks have no end")


def _is_eof(packet: bytes) -> bool:
    return packet[:1] == _EOF and len(packet) < _EOF_BYTES


def _packets(connection: Connection[Any]) -> Iterator[list[bytes]]:
    """Payloads of all packets, in blocks; those that were split at 16 MB are joined. Never ends."""
    file = incoming(connection)
    data = b""
    parts: list[bytes] = []
    while True:
        block = []
        place, end = 0, len(data)
        while place + _HEADER <= end:
            size = _header(data, place)[0] & _LONGEST
            next_place = place + _HEADER + size
            if next_place > end:
                break
            payload = data[place + _HEADER : next_place]
            place = next_place
            if size == _LONGEST or parts:
                parts.append(payload)
                if size == _LONGEST:
                    continue
                payload = b"".join(parts)
                parts = []
            block.append(payload)
        if block:
            yield block
        data = data[place:]
        missing = 0
        if len(data) >= _HEADER:
            missing = _HEADER + int.from_bytes(data[:3], "little") - len(data)
        more = file.read(missing) if missing > READ_BYTES else file.read1(READ_BYTES)
        if not more:
            raise pymysql.OperationalError(CR.CR_SERVER_LOST, "Lost connection to MySQL server during query")
        data += more
