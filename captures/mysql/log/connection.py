"""The replication connection: a session that registers as a replica, and to which the server sends the log.

MySQL client/server protocol, "Replication protocol"; MariaDB knowledge base, "Replication protocol". PyMySQL connects
and authenticates; from COM_BINLOG_DUMP on the packets are read here, many at a time.
"""

from __future__ import annotations

import hashlib
import select
import ssl
import struct
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from typing import Any
from zlib import crc32

import pymysql

from tidemark.captures.mysql.log.events import (
    CHECKSUM,
    FINGERPRINT,
    FORMAT_DESCRIPTION,
    HEADER,
    TRANSACTION_PAYLOAD,
    DamagedEvent,
    Event,
)
from tidemark.captures.mysql.server.replication import FORBIDDEN, server_name, stream_failure
from tidemark.captures.mysql.server.session import Session, asking, error_of
from tidemark.captures.mysql.server.wire import read_packet, send_command, socket_of
from tidemark.captures.mysql.terms.event_bytes import byte_text
from tidemark.captures.mysql.terms.gtid import MysqlGtids
from tidemark.captures.mysql.terms.position import FIRST_EVENT, LogPosition
from tidemark.captures.server.shutdown_watch import HangUpWatch
from tidemark.protocol.errors import SourceError

_RECEIVE = 256 * 1024
_TAKE = 1024 * 1024
"""The most bytes that are received before they are decoded."""

_COM_BINLOG_DUMP = 0x12
_COM_REGISTER_SLAVE = 0x15
_COM_BINLOG_DUMP_GTID = 0x1E
_THROUGH_GTID = 0x04
_MAX_OFFSET = (1 << 32) - 1
"""The largest offset that COM_BINLOG_DUMP has room for."""

_WHOLE = 0xFFFFFF
"""The length of a packet that continues in the next one."""

_WHOLE_BYTES = _WHOLE.to_bytes(3, "little")

_OK, _ERROR = 0x00, 0xFF
_FRAME_BYTES = 5
"""Bytes before a packet's event: length, sequence number, status."""

_CRC32 = 1
"""The checksum algorithm, in a format description."""

_UNDAMAGED = 0x2144DF1C
"""The CRC32 of anything that ends in its own CRC32."""

_FRAME = struct.Struct("<IB").unpack_from
_EVENT = struct.Struct("<IBIBIIIH").unpack_from
"""The frame, and the header of the event."""

_ERROR_PACKET = struct.Struct("<H")


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How long a server may be silent, in seconds, and what a stream holds in memory.

    Attributes:
        heartbeat: The server sends something at least this often.
        silence: A connection that brings nothing for so long counts as lost.
        held_bytes: Rows of all prepared XA transactions. The log is read again for further ones.
    """

    heartbeat: float = 10
    silence: float = 60
    held_bytes: int = 64 * 1024 * 1024


LIMITS = StreamLimits()


class BinlogConnection:
    """A started stream of events.

    Args:
        session: It belongs to the stream from here on, which closes it.
        position: Where to start: by its GTIDs if it has any, otherwise by its file and offset.
        beside: The descriptor of a session with the same server. The stream breaks when the server ends that session.

    Attributes:
        checksums: Events end in a CRC32. The log says so in each file's format description.
        heard_at: When the server last sent something, by the monotonic clock.

    Raises:
        SourceError: As ``stream_failure`` says.
    """

    def __init__(
        self,
        session: Session,
        server_id: int,
        position: LogPosition,
        beside: int | None = None,
        limits: StreamLimits = LIMITS,
    ) -> None:
        self._session = session
        self._limits = limits
        self._server_id = server_id
        self._buffer = b""
        self._buffer_text: str | None = ""  # None until it is needed.
        self._at = 0
        self._arrived: list[bytes] = []
        self._arriving: Iterator[bytes | None] | None = None
        self._held = 0
        self._needed = 0
        self.heard_at = time.monotonic()
        self._closed = ""
        try:
            with asking("registering as a replica"):
                self.server = server_name(self._session)
                self.names_columns = self._session.variable("binlog_row_metadata") == "FULL"
                self._account = self._session.account()
                self.checksums = self._prepare(position)
                self._dump(position)
            self._socket: Any = socket_of(self._session.connection)
            self._socket.setblocking(False)
            self._watch = None if beside is None else HangUpWatch(beside, self._socket.fileno())
        except BaseException:
            self._session.close()
            raise

    def _prepare(self, position: LogPosition) -> bool:
        """Tells the server what this replica understands. Returns whether events will have checksums."""
        session = self._session
        algorithm = str(session.value("SELECT @@GLOBAL.binlog_checksum"))
        nanoseconds = round(self._limits.heartbeat * 1_000_000_000)
        # Derived from the server_id: the server then detects two captures with the same one.
        replica = uuid.UUID(bytes=hashlib.sha256(b"tidemark %d" % self._server_id).digest()[:16], version=4)
        settings: dict[str, object] = {}
        for role in ("master", "source"):
            settings[f"{role}_binlog_checksum"] = algorithm
            settings[f"{role}_heartbeat_period"] = nanoseconds
        settings["slave_uuid"] = settings["replica_uuid"] = str(replica)
        if session.mariadb:
            # Understands GTIDs: the server does not replace events by older kinds.
            settings["mariadb_slave_capability"] = 4
            if position.gtids or not position.file:
                settings["slave_connect_state"] = position.gtids
                # A GTID that the server's log lacks is an error: the server must not guess a position.
                settings["slave_gtid_strict_mode"] = 1
                settings["slave_gtid_ignore_duplicates"] = 0
        for name, value in settings.items():
            session.rows(f"SET @{name} = %s", value)
        return algorithm.upper() not in ("NONE", "0")

    def _dump(self, position: LogPosition) -> None:
        connection = self._session.connection
        host = b"tidemark"
        registration = struct.pack("<IB", self._server_id, len(host)) + host + struct.pack("<BBHII", 0, 0, 0, 0, 0)
        send_command(connection, _COM_REGISTER_SLAVE, registration)
        try:
            read_packet(connection)
        except pymysql.Error as error:
            number, reason = error_of(error)
            if number in FORBIDDEN:
                raise stream_failure(number, reason, self._server_id, self._account) from None
            raise
        file = position.file.encode()
        if self._session.mariadb and (position.gtids or not file):
            send_command(connection, _COM_BINLOG_DUMP, struct.pack("<IHI", FIRST_EVENT, 0, self._server_id))
        elif position.gtids or not file:
            encoded = MysqlGtids(position.gtids).encode()
            head = struct.pack("<HIIQI", _THROUGH_GTID, self._server_id, 0, FIRST_EVENT, len(encoded))
            send_command(connection, _COM_BINLOG_DUMP_GTID, head + encoded)
        else:
            # From the event before, which shows whether this is the log that was read. Beyond four gigabytes the file
            # is read from its beginning, and skipped up to there.
            start = position.last.start if position.last is not None and position.last.start else position.offset
            offset = start if start <= _MAX_OFFSET else FIRST_EVENT
            head = struct.pack("<IHI", offset, 0, self._server_id)
            send_command(connection, _COM_BINLOG_DUMP, head + file)

    # Packets.

    def events(self) -> Iterator[Event | None]:
        """The events, without their checksums; None each time that no whole one has arrived. Raises SourceError as
        ``stream_failure`` says, and ``TM-MY-049`` where an event is damaged.
        """
        while True:
            data, at = self._buffer, self._at
            last = len(data)
            if self._buffer_text is None:
                self._buffer_text = data.decode("latin-1")
            text = self._buffer_text
            while at + _FRAME_BYTES + HEADER <= last:
                word, status, timestamp, kind, server_id, size, log_position, flags = _EVENT(data, at)
                length = word & _WHOLE
                end = at + 4 + length
                if end > last or status != _OK or length == _WHOLE:
                    break
                start, at = at + _FRAME_BYTES, end
                if kind == FORMAT_DESCRIPTION:
                    # It always has room for a checksum, and says before it whether the events of its file have one.
                    self.checksums = data[end - CHECKSUM - 1] == _CRC32
                if self.checksums and crc32(data[start:end]) != _UNDAMAGED:
                    raise DamagedEvent()
                if self.checksums or kind == FORMAT_DESCRIPTION:
                    end -= CHECKSUM
                yield data, text, start + HEADER, end, kind, timestamp, server_id, size, log_position, flags
            self._at = at
            del data, text  # Only the receiver holds a large event.
            if self._buffer[self._at : self._at + 3] == _WHOLE_BYTES:
                yield from self._divided()
                continue
            self._check_packet()
            if not self.fill():
                yield None

    def payload(self, data: bytes, start: int, end: int) -> Iterator[bytes | memoryview | None]:
        """The body of the latest event in pieces; None each time that no more of it has arrived.

        What the caller does not take is skipped. Raises SourceError as ``events``.
        """
        return iter((memoryview(data)[start:end],)) if self._arriving is None else self._arriving

    def _check_packet(self) -> None:
        """Raises if the next packet is no event; otherwise notes how much of it is missing."""
        at = self._at
        available = len(self._buffer) - at
        self._needed = _FRAME_BYTES
        if available < _FRAME_BYTES:
            return
        word, status = _FRAME(self._buffer, at)
        size = word & _WHOLE
        self._needed = size + 4
        if available < self._needed:
            return
        if status != _OK:
            raise self._ended(self._buffer[at + 4 : at + 4 + size])
        raise DamagedEvent()

    def _divided(self) -> Iterator[Event | None]:
        """The next event, of 16 MB or more, in several packets. Only the last one is shorter than 16 MB.

        Of a compressed transaction it yields the beginning; ``payload`` has the rest. Other events are whole.
        """
        pieces = self._pieces()
        beginning = bytearray()
        for piece in pieces:
            if piece is None:
                yield None
                continue
            beginning += piece
            if len(beginning) > HEADER + FINGERPRINT:
                break
        head = bytes(beginning)
        del beginning, piece
        _, _, *header = _EVENT(b"\0\0\0\0" + head[: 1 + HEADER])
        timestamp, kind, server_id, size, log_position, flags = header
        length = size - HEADER - (CHECKSUM if self.checksums else 0)
        body = self._body(head, pieces, length)
        if kind == TRANSACTION_PAYLOAD:
            self._arriving = body
            end = min(len(head), 1 + HEADER + length)
            yield head, "", 1 + HEADER, end, kind, timestamp, server_id, size, log_position, flags
            for piece in body:
                if piece is None:
                    yield None
            self._arriving = None
            return
        whole = BytesIO()  # One buffer, so that the event is in memory once.
        whole.write(head[: 1 + HEADER])
        del head
        for piece in body:
            if piece is None:
                yield None
            else:
                whole.write(piece)
        found = [(whole.getvalue(), kind, timestamp, server_id, size, log_position, flags)]
        del whole
        yield _whole_event(*found.pop())

    def _pieces(self) -> Iterator[bytes | None]:
        """The content of the packets of the next event; None each time that no more has arrived."""
        size = _WHOLE
        while size == _WHOLE:
            self._needed = 4
            while len(self._buffer) - self._at < 4:
                if not self.fill():
                    yield None
            size = left = int.from_bytes(self._buffer[self._at : self._at + 3], "little")
            self._at += 4
            self._needed = 1
            while left:
                piece = self._buffer[self._at : self._at + left]
                self._at += len(piece)
                left -= len(piece)
                if piece:
                    yield piece
                elif not self.fill():
                    yield None

    def _body(self, head: bytes, pieces: Iterator[bytes | None], length: int) -> Iterator[bytes | None]:
        """An event's body without its checksum, which is compared at the end. ``head``: status, header, and what came
        with them.
        """
        checksum = crc32(memoryview(head)[1 : 1 + HEADER])
        first = (head[1 + HEADER :],)
        del head
        for piece in chain(first, pieces):
            if piece is None:
                yield None
                continue
            if self.checksums:
                checksum = crc32(piece, checksum)
            if length > 0:
                yield piece[:length]
                length -= len(piece)
        if self.checksums and checksum != _UNDAMAGED:
            raise DamagedEvent()

    def fill(self) -> bool:
        """Receives what has arrived on the socket, without waiting. Returns whether anything had."""
        taken = 0
        while taken < _TAKE:
            try:
                data = self._socket.recv(_RECEIVE)
            except (BlockingIOError, ssl.SSLWantReadError):
                break
            except OSError as error:
                data, self._closed = b"", str(error)
            if not data:
                if taken:
                    break  # What came before may say why.
                raise self._broken(self._closed or "the server closed the connection")
            self._arrived.append(data)
            taken += len(data)
        if not taken:
            return False
        self.heard_at = time.monotonic()
        self._held += taken
        rest = len(self._buffer) - self._at
        if rest + self._held >= self._needed:
            self._buffer = b"".join((memoryview(self._buffer)[self._at :], *self._arrived))
            self._buffer_text = None
            self._arrived.clear()
            self._at = self._held = 0
        return True

    def wait(self, seconds: float, wakeup: int) -> None:
        """Waits for data, for ``wakeup``, or for the time to pass. Raises SourceError after a long silence."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return
        ready, _, _ = select.select([self._socket, wakeup], [], [], max(seconds, 0.0))
        if self._socket not in ready and time.monotonic() - self.heard_at > self._limits.silence:
            raise self._broken(f"the server sent nothing for {self._limits.silence} s, not even a heartbeat")

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._session.close()

    def _broken(self, reason: str) -> SourceError:
        return SourceError("TM-MY-020", f"the stream of the binary log broke: {reason}")

    def _ended(self, packet: bytes) -> SourceError:
        if packet[0] == _ERROR:
            (number,) = _ERROR_PACKET.unpack_from(packet, 1)
            # A marker and the SQLSTATE stand before the message.
            return stream_failure(number, packet[9:].decode("utf-8", "replace"), self._server_id, self._account)
        return self._broken("the server closed it without a reason")


def _whole_event(data: bytes, *header: int) -> Event:
    """An event that arrived in several packets, from its status, header and body."""
    kind, timestamp, server_id, size, log_position, flags = header
    return data, byte_text(data), 1 + HEADER, len(data), kind, timestamp, server_id, size, log_position, flags
