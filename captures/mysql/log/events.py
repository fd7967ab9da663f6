"""Events of the binary log: their kinds and their bodies, but for the rows in them.

Formats: MySQL internals, "Replication event types" (``libs/mysql/binlog/event``), and MariaDB's knowledge base,
"Replication protocol". Bodies are without the common header (19 bytes) and without a checksum; integers are little
endian.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple
from uuid import UUID

from tidemark.captures.mysql.rows.log_decoder import DELETE, INSERT, PARTIAL_UPDATE, UPDATE
from tidemark.captures.mysql.statements.tokens import NO_MODE, SqlMode
from tidemark.captures.mysql.terms.event_bytes import ByteText, byte_text, lenenc
from tidemark.captures.mysql.terms.gtid import xa_id
from tidemark.protocol.errors import SourceError

QUERY = 2
STOP = 3
ROTATE = 4
INTVAR = 5
APPEND_BLOCK, DELETE_FILE = 9, 11
RAND = 13
USER_VAR = 14
FORMAT_DESCRIPTION = 15
XID = 16
BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY = 17, 18
TABLE_MAP = 19
WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1 = 23, 24, 25
INCIDENT = 26
HEARTBEAT = 27
IGNORABLE = 28
ROWS_QUERY = 29
WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS = 30, 31, 32
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 33, 34, 35
TRANSACTION_CONTEXT, VIEW_CHANGE = 36, 37
XA_PREPARE = 38
PARTIAL_UPDATE_ROWS = 39
TRANSACTION_PAYLOAD = 40
HEARTBEAT_V2 = 41
GTID_TAGGED = 42
# MariaDB's own.
ANNOTATE_ROWS = 160
BINLOG_CHECKPOINT = 161
MARIADB_GTID = 162
GTID_LIST = 163
START_ENCRYPTION = 164
QUERY_COMPRESSED = 165
WRITE_ROWS_COMPRESSED_V1, UPDATE_ROWS_COMPRESSED_V1, DELETE_ROWS_COMPRESSED_V1 = 166, 167, 168
WRITE_ROWS_COMPRESSED, UPDATE_ROWS_COMPRESSED, DELETE_ROWS_COMPRESSED = 169, 170, 171

_RARE = (STOP, INTVAR, RAND, USER_VAR, IGNORABLE, ROWS_QUERY, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE)
_RARE_OF_MARIADB = (ANNOTATE_ROWS, BINLOG_CHECKPOINT, START_ENCRYPTION, GTID_LIST)
IGNORED = frozenset((*_RARE, *_RARE_OF_MARIADB, APPEND_BLOCK, DELETE_FILE, BEGIN_LOAD_QUERY))
"""Nothing that a document shows depends on these."""

THREAD_SPECIFIC = 0x4
"""Header flag: what a statement does depends on its session, which has temporary tables, perhaps."""

ARTIFICIAL = 0x20
"""Header flag: the server made the event for this reader, it is not in the log."""

IGNORABLE_FLAG = 0x80
"""Header flag: a reader that does not know the event may pass it over."""

HEADER = 19
"""Bytes of the common header."""

CHECKSUM = 4
"""Bytes of a CRC32 at the end of an event."""

FINGERPRINT = 64 * 1024
"""Bytes of the body of a large event by which it is told from others: so much is there when the event is given."""

# MariaDB's flags of a GTID event.
STANDALONE = 1
"""The group is one statement, with no commit after it."""
_GROUP_COMMIT = 2
"""Eight bytes of a commit's number follow."""
PREPARED_XA = 64
_COMPLETED_XA = 128
# More of them, in a byte behind the XID (MariaDB 10.8 and later).
_START_ALTER = 2
_ROLLBACK_ALTER = 8

Event = tuple[bytes, ByteText, int, int, int, int, int, int, int, int]
"""An event as it is read: bytes that hold it and the same as Latin-1, begin and end of its body in them, and of its
header: kind, timestamp, server's id, size, end in the log, flags.
"""

_ROTATE = struct.Struct("<Q")
_QUERY = struct.Struct("<IIBHH")
# Variables of a statement's session, by their codes: these, those that come before them, and bytes of each.
_CLIENT = 4
_SQL_MODE = 1
_DATABASES = 12
_FIXED = {0: 4, _SQL_MODE: 8, 3: 4, _CLIENT: 6, 7: 2, 8: 2, 9: 8, 10: 4}
_NAMES = {2: (1, 1), 5: (1, 0), 6: (1, 0), 11: (2, 0)}
"""Texts with their lengths: how many, and bytes that end them."""
_UNKNOWN_DATABASES = 254
"""Instead of their number: there are too many, or foreign keys refer to the tables."""
_GTID = struct.Struct("<B16sq")
_CREATED = 2 + 50
"""Where a FORMAT_DESCRIPTION event has its time: after the log's version and the server's. 0 for later files."""
_MARIADB_GTID = struct.Struct("<QIB")
_XID = struct.Struct("<iII")

_COMMIT_TIME = 1 + 16 + 8 + 1 + 8 + 8
"""Where a GTID event has its commit time: after flags, uuid, number, and the logical clock's type and two numbers."""


class DamagedEvent(SourceError):
    """``TM-MY-049``: an event is not what the server wrote."""

    def __init__(self, reason: str = "an event of the binary log does not match its checksum") -> None:
        super().__init__("TM-MY-049", reason)


class Query(NamedTuple):
    """A statement.

    Attributes:
        text: In the character set of its client.
        variables: Of its session; see ``client_collation``.
    """

    schema: str
    text: bytes
    variables: bytes = b""
    session: int = 0


class Gtid(NamedTuple):
    """The begin of a transaction.

    Attributes:
        text: ``uuid:n``, ``uuid:tag:n``, ``domain-server-n``; empty for an anonymous one.
        commit_time: Microseconds since 1970, None where the event does not say.
        undecided: MariaDB: the statement of its group is an ALTER that has only begun, or has failed. One that has
            ended follows in a group of its own (``binlog_alter_two_phase``).
    """

    text: str
    commit_time: int | None = None
    begins: bool = False
    prepares: bool = False
    undecided: bool = False


def read_rotate(body: bytes) -> tuple[str, int]:
    """The file that the log goes on in, and the offset there."""
    return body[8:].rstrip(b"\0").decode(), int(_ROTATE.unpack_from(body)[0])


def server_started(body: bytes) -> bool:
    """Whether a FORMAT_DESCRIPTION event is the first one since the server was started: its sessions have all ended."""
    return any(body[_CREATED : _CREATED + 4])


def read_gtid(body: bytes) -> Gtid:
    """MySQL's GTID and anonymous GTID events."""
    _, uuid, number = _GTID.unpack_from(body)
    time = None
    if len(body) >= _COMMIT_TIME + 7:
        # 55 bits of microseconds; the 56th says that the time of the first server's commit follows.
        time = int.from_bytes(body[_COMMIT_TIME : _COMMIT_TIME + 7], "little") & ((1 << 55) - 1)
    return Gtid(f"{UUID(bytes=uuid)}:{number}" if number else "", time or None)


def read_tagged_gtid(body: bytes) -> Gtid:
    """MySQL's GTID event with a tag (8.3 and later).

    By MySQL's serialization library: a version, the sizes of the message and of what must be understood, then fields,
    each after its number: 0 flags, 1 the uuid's bytes, 2 the number, 3 the tag, 4 and 5 the logical clock, 6 the commit
    time, and others that nothing here needs. Every integer has a variable length.
    """
    at = 0
    for _ in range(3):
        _, at = _variable(body, at)
    uuid, number, tag, time = b"", 0, "", None
    while at < len(body):
        field, at = _variable(body, at)
        if field == 1:
            octets = []
            for _ in range(16):
                octet, at = _variable(body, at)
                octets.append(octet)
            uuid = bytes(octets)
        elif field == 3:
            size, at = _variable(body, at)
            tag = body[at : at + size].decode()
            at += size
        else:
            value, at = _variable(body, at)
            if field == 2:
                number = _signed(value)
            elif field == 6:
                time = value
                break
    if not number:
        return Gtid("", time)
    return Gtid(f"{UUID(bytes=uuid)}:{tag}:{number}" if tag else f"{UUID(bytes=uuid)}:{number}", time)


def _variable(body: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer of variable length: as many low bits of the first byte are set as bytes follow it."""
    first = body[at]
    more = 0
    while more < 8 and first >> more & 1:
        more += 1
    if more == 8:
        return int.from_bytes(body[at + 1 : at + 9], "little"), at + 9
    return int.from_bytes(body[at : at + 1 + more], "little") >> (more + 1), at + 1 + more


def _signed(value: int) -> int:
    """A signed integer: the lowest bit is the sign."""
    return ~(value >> 1) if value & 1 else value >> 1


def read_mariadb_gtid(body: bytes, server_id: int) -> Gtid:
    """MariaDB's GTID event; the server is in the event's header. It stands for a BEGIN unless it is standalone."""
    number, domain, flags = _MARIADB_GTID.unpack_from(body)
    undecided = _extra_flags(body, flags) & (_START_ALTER | _ROLLBACK_ALTER) != 0
    return Gtid(f"{domain}-{server_id}-{number}", None, not flags & STANDALONE, flags & PREPARED_XA != 0, undecided)


def _extra_flags(body: bytes, flags: int) -> int:
    """MariaDB's second byte of flags; 0 from servers without it."""
    at = _MARIADB_GTID.size + (8 if flags & _GROUP_COMMIT else 0)
    if flags & (PREPARED_XA | _COMPLETED_XA):
        at += 6 + body[at + 4] + body[at + 5]
    return body[at] if at < len(body) else 0


def read_query(body: bytes) -> Query:
    """A statement."""
    session, _, schema, _, variables = _QUERY.unpack_from(body)
    start = _QUERY.size + variables
    name = body[start : start + schema].decode("utf-8", "replace")
    return Query(name, body[start + schema + 1 :], body[_QUERY.size : start], session)


def client_collation(variables: bytes) -> int | None:
    """The number of a collation of the character set in which a statement is; None where its event does not say."""
    at = _variable_at(variables, _CLIENT)
    return None if at is None else int.from_bytes(variables[at : at + 2], "little")


def sql_mode(variables: bytes) -> SqlMode:
    """That in which a statement was carried out; none where its event does not say."""
    at = _variable_at(variables, _SQL_MODE)
    return NO_MODE if at is None else SqlMode(int.from_bytes(variables[at : at + 8], "little"))


def used_databases(variables: bytes) -> list[str] | None:
    """The databases of all tables that a statement uses, by functions, triggers and views, too; None where the event
    does not say: MariaDB's never do, nor MySQL's where foreign keys refer to one of the tables.
    """
    at = _variable_at(variables, _DATABASES)
    if at is None or variables[at] == _UNKNOWN_DATABASES:
        return None
    names = variables[at + 1 :].split(b"\0", variables[at])[: variables[at]]
    return [name.decode("utf-8", "replace") for name in names]


def _variable_at(variables: bytes, wanted: int) -> int | None:
    """Where the value of a variable begins."""
    at = 0
    while at < len(variables):
        kind, at = variables[at], at + 1
        if kind == wanted:
            return at
        if kind in _NAMES:
            texts, ends = _NAMES[kind]
            for _ in range(texts):
                at += 1 + variables[at]
            at += ends
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            return None
    return None


def read_compressed_query(body: bytes) -> Query:
    """A statement that MariaDB compressed."""
    query = read_query(body)
    return query._replace(text=inflate(query.text))


def inflate(data: bytes) -> bytes:
    """What MariaDB compressed in an event: a byte whose low three bits count the bytes of the length, big endian, that
    follow it, then zlib. Raises ValueError when it is not that.
    """
    if data[0] & 0x70:
        raise ValueError("an unknown compression")
    start = 1 + (data[0] & 7)
    try:
        plain = zlib.decompress(data[start:])
    except zlib.error:
        raise ValueError("a compressed event does not decompress") from None
    if len(plain) != int.from_bytes(data[1:start], "big"):
        raise ValueError("a compressed event has a wrong length")
    return plain


def read_load_query(body: bytes) -> Query:
    """LOAD DATA in statement format: a statement, with 13 bytes about its file between the fixed part and the rest."""
    fixed, more = _QUERY.size, 13
    return read_query(body[:fixed] + body[fixed + more :])


def read_xa_prepare(body: bytes) -> tuple[bool, str]:
    """Whether the transaction is committed in one phase, and its xid as ``xa_id`` writes it."""
    form, first, second = _XID.unpack_from(body, 1)
    return bool(body[0]), xa_id(body[13 : 13 + first], body[13 + first : 13 + first + second], form)


def read_heartbeat_v2(body: bytes) -> tuple[str, int]:
    """The file and offset up to which the log has been sent: fields of a type, a length and a value each."""
    at, file, offset = 0, "", 0
    while at < len(body) and body[at]:
        size, start = lenenc(body, at + 1)
        if body[at] == 1:
            file = body[start : start + size].decode()
        elif body[at] == 2:
            offset, _ = lenenc(body, start)
        at = start + size
    return file, offset


ROW_EVENTS = {
    WRITE_ROWS: (INSERT, 2, False),
    UPDATE_ROWS: (UPDATE, 2, False),
    DELETE_ROWS: (DELETE, 2, False),
    WRITE_ROWS_V1: (INSERT, 1, False),
    UPDATE_ROWS_V1: (UPDATE, 1, False),
    DELETE_ROWS_V1: (DELETE, 1, False),
    PARTIAL_UPDATE_ROWS: (PARTIAL_UPDATE, 2, False),
    WRITE_ROWS_COMPRESSED_V1: (INSERT, 1, True),
    UPDATE_ROWS_COMPRESSED_V1: (UPDATE, 1, True),
    DELETE_ROWS_COMPRESSED_V1: (DELETE, 1, True),
    WRITE_ROWS_COMPRESSED: (INSERT, 2, True),
    UPDATE_ROWS_COMPRESSED: (UPDATE, 2, True),
    DELETE_ROWS_COMPRESSED: (DELETE, 2, True),
}
"""By kind: what is done to rows, the version of the head, and whether MariaDB compressed the rows."""

WITHOUT_TABLE = b"\xff\xff\xff\x00\x00\x00"
"""The table number of an event without rows, which only ends a statement."""

_HEAD = 8
"""Bytes of the table's number and the flags."""


def row_event(kind: int, data: bytes, text: ByteText, start: int, end: int) -> tuple[str, bytes, ByteText, int, int]:
    """What an event does, and where the count of its columns begins and its rows end: in ``data`` and ``text``, or in
    others when it is compressed. Raises ValueError when it does not decompress.
    """
    what, version, compressed = ROW_EVENTS[kind]
    at = start + _HEAD
    if version == 2:
        at += int.from_bytes(data[at : at + 2], "little")
    if not compressed:
        return what, data, text, at, end
    try:
        # What stands before the rows is not compressed: the count, and a bitmap of columns for each image.
        count, rows = lenenc(data, at)
        rows += (2 if what == UPDATE else 1) * ((count + 7) // 8)
        whole = data[at:rows] + inflate(data[rows:end])
    except LookupError:
        raise ValueError("compressed rows that end too early") from None
    return what, whole, byte_text(whole), 0, len(whole)
