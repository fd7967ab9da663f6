"""Serves a log that a test wrote, over the wire protocol: what a MySQL that cannot be had here would send.

It answers what a replica asks before the dump, and keeps what the replica asked for.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tidemark.captures.mysql.log import events

SERVER_UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

_ANSWERS = {
    "@@version,": ["8.4.0", "0"],
    "binlog_checksum": ["NONE"],
    "@@server_uuid": [SERVER_UUID],
    "binlog_row_metadata": ["binlog_row_metadata", "FULL"],
}
_OK = b"\x00\x00\x00\x02\x00\x00\x00"
_EOF = b"\xfe\x00\x00\x02\x00"
_QUIT, _QUERY, _REGISTER, _DUMP, _DUMP_GTID = 0x01, 0x03, 0x15, 0x12, 0x1E
_LARGEST = 0xFFFFFF


class LogWriter:
    """Events one after another, in one file.

    Attributes:
        packets: Each event as it is sent.
    """

    def __init__(self, file: str = "binlog.000001") -> None:
        self.packets: list[bytes] = []
        self.offset = 4
        self.add(events.ROTATE, struct.pack("<Q", 4) + file.encode(), flags=events.ARTIFICIAL, log_position=0)
        self.add(events.FORMAT_DESCRIPTION, b"\x04\x00" + b"8.4.0".ljust(50, b"\0") + bytes(50) + b"\x00" + bytes(4))

    def add(self, kind: int, body: bytes, *, flags: int = 0, log_position: int | None = None) -> None:
        data = event(kind, body, flags=flags)
        if log_position is None:
            self.offset += len(data)
            log_position = self.offset & 0xFFFFFFFF
        self.packets.append(data[:13] + struct.pack("<I", log_position) + data[17:])


def event(kind: int, body: bytes, *, flags: int = 0) -> bytes:
    """An event without a checksum and without a position."""
    return struct.pack("<IBIIIH", 1_700_000_000, kind, 1, events.HEADER + len(body), 0, flags) + body


def query(text: bytes, schema: bytes = b"shop") -> bytes:
    """The body of a QUERY event."""
    return struct.pack("<IIBHH", 7, 0, len(schema), 0, 0) + schema + b"\0" + text


class BinlogServer:
    """One listening server.

    Attributes:
        dumps: The dump commands that were asked, without their first byte.
        settings: The SET statements.
    """

    def __init__(self, packets: Sequence[bytes], error: bytes = b"", version: str = "") -> None:
        self._answers = _ANSWERS | ({"@@version,": [version, "0"]} if version else {})
        self._packets = packets
        self._error = error
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.dumps: list[bytes] = []
        self.settings: list[str] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._connections: list[socket.socket] = []
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._send(connection, 0, _greeting())
            sequence, _ = self._receive(connection)
            self._send(connection, sequence + 1, _OK)
            while (request := self._receive(connection)[1])[0] != _QUIT:
                if request[0] in (_DUMP, _DUMP_GTID):
                    self.dumps.append(request)
                    for packet in self._packets:
                        self._send(connection, 1, b"\x00" + packet)
                    if self._error:
                        self._send(connection, 1, self._error)
                elif request[0] == _QUERY:
                    self._answer(connection, request[1:].decode())
                else:
                    self._send(connection, 1, _OK)
        except OSError:
            return  # the other side is gone

    def _answer(self, connection: socket.socket, text: str) -> None:
        if text.startswith("SET"):
            self.settings.append(text)
            self._send(connection, 1, _OK)
            return
        row = next((row for part, row in self._answers.items() if part in text), None)
        if row is None:
            self._send(connection, 1, _OK)
            return
        name = b"\x03def\x00\x00\x00\x01c\x01c\x0c\x2d\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"
        packets = [bytes([len(row)]), *[name] * len(row), _EOF]
        packets += [b"".join(bytes([len(value)]) + value.encode() for value in row), _EOF]
        for sequence, packet in enumerate(packets, 1):
            self._send(connection, sequence, packet)

    @staticmethod
    def _send(connection: socket.socket, sequence: int, payload: bytes) -> None:
        """A packet, or as many as a long payload takes."""
        at = 0
        while True:
            piece = payload[at : at + _LARGEST]
            connection.sendall(len(piece).to_bytes(3, "little") + bytes([sequence & 255]) + piece)
            at += len(piece)
            sequence += 1
            if len(piece) < _LARGEST:
                return

    @staticmethod
    def _receive(connection: socket.socket) -> tuple[int, bytes]:
        stream = connection.makefile("rb", buffering=0)
        head = stream.read(4)
        if head is None or len(head) < 4:
            raise OSError("closed")
        data = b""
        while len(data) < int.from_bytes(head[:3], "little"):
            data += stream.read(int.from_bytes(head[:3], "little") - len(data)) or b""
        return head[3], data

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):  # the other side was first
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        for thread in self._threads:
            thread.join(10)


def _greeting() -> bytes:
    capabilities = 0x00080000 | 0x8000 | 0x0200 | 0x0008 | 0x0001 | 0x4
    low, high = struct.pack("<HH", capabilities & 0xFFFF, capabilities >> 16)[:2], struct.pack("<H", capabilities >> 16)
    return (
        b"\x0a8.4.0\0"
        + struct.pack("<I", 1)
        + b"12345678\0"
        + low
        + b"\x2d\x02\x00"
        + high
        + b"\x15"
        + bytes(10)
        + b"123456789012\0"
        + b"mysql_native_password\0"
    )


@contextmanager
def binlog_server(packets: Sequence[bytes], error: bytes = b"", version: str = "") -> Iterator[BinlogServer]:
    """Serves ``packets`` and then ``error``, as a server of this version."""
    server = BinlogServer(packets, error, version)
    try:
        yield server
    finally:
        server.close()
