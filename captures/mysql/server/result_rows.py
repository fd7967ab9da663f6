"""Streams the rows of a query as raw packets (MySQL internals, "Text Resultset").

PyMySQL reads packet by packet, with two reads and several objects for each row. Here blocks are read as they arrive,
and split into payloads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND, CR
from pymysql.err import raise_mysql_exception

from tidemark.captures.mysql.server.wire import incoming, send_command

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

    A caller that does not take all of it must close the connection.

    Raises:
        pymysql.Error: The server refuses or breaks off the query; what was yielded before are rows of it.
        OSError: The connection broke.
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
