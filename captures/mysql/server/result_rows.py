"""Streams the rows of a query as raw packets (MySQL internals, "Text Resultset").

PyMySQL reads packet by packet, with two reads and several objects for each row. Here blocks are read as they arrive,
and split into payloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import COMMAND, CR
from pymysql.err import raise_mysql_exception

from tidemark.captures.mysql.server.wire import incoming, send_command

READ_BYTES = 256 * 1024
_HEADER = 4
_LONGEST = 0xFFFFFF
"""Bytes of a packet that continues in the next one."""

_EOF = 0xFE
_ERROR = 0xFF
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
    packets = _packets(connection)
    rows: list[bytes] = []
    head = 2  # EOF packets that come before the rows: of the columns, then of the rows
    columns = 0
    for block in packets:
        for payload in block:
            if payload[0] == _ERROR:
                if rows:
                    yield rows
                raise_mysql_exception(payload)
            if columns == 0:
                columns = payload[0]  # The number itself does not matter: an EOF packet ends the columns.
                continue
            if payload[0] == _EOF and len(payload) < _EOF_BYTES:
                head -= 1
                if head == 0:
                    if rows:
                        yield rows
                    return
            elif head == 1:
                rows.append(payload)
        if rows:
            yield rows
            rows = []


def _packets(connection: Connection[Any]) -> Iterator[list[bytes]]:
    """Payloads of all packets, in blocks; those that were split at 16 MB are joined. Never ends."""
    file = incoming(connection)
    data = b""
    parts: list[bytes] = []
    while True:
        block = []
        place, end = 0, len(data)
        while place + _HEADER <= end:
            size = int.from_bytes(data[place : place + 3], "little")
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
