"""Messages of pgoutput, protocol version 1, that are not rows (PostgreSQL docs §55.9, logical replication formats).

Rows are read by generated functions (``tidemark.captures.postgres.rows``). Here they are only transcoded, of a database
whose encoding is not UTF-8.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from tidemark.captures.postgres.catalog.encodings import Transcoder, name_of
from tidemark.captures.postgres.rows.log_decoder import Relation, RelationColumn
from tidemark.protocol.errors import SourceError

BEGIN = ord("B")
COMMIT = ord("C")
INSERT = ord("I")
UPDATE = ord("U")
DELETE = ord("D")
TRUNCATE = ord("T")
RELATION = ord("R")
MESSAGE = ord("M")
IGNORED = frozenset(b"YO")
"""Type (what an oid is called) and Origin: nothing that a document shows depends on them."""

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_COLUMN = struct.Struct(">Ii")

_HEAD = 5
"""Bytes of a row's kind and its relation."""
_TUPLE_HEAD = 3
"""A marker, and how many columns follow."""
_TEXT = ord("t")
_LENGTH = struct.Struct(">i")


class Begin(NamedTuple):
    """``commit_lsn`` is where the commit record lies, ``commit_time`` microseconds since 2000-01-01 UTC."""

    commit_lsn: int
    commit_time: int
    xid: int


def read_begin(message: bytes) -> Begin:
    """A Begin message."""
    return Begin(*_BEGIN.unpack_from(message, 1))


def read_commit_end(message: bytes) -> int:
    """The position just after the commit record: where a reader that has this transaction goes on."""
    return int(_COMMIT.unpack_from(message, 1)[2])


def read_relation(message: bytes, texts: Transcoder | None = None) -> Relation:
    """A Relation message, with ``texts`` of a database whose encoding is not UTF-8."""
    oid = int.from_bytes(message[1:5], "big")
    schema, offset = _string(message, 5, texts)
    table, offset = _string(message, offset, texts)
    identity = chr(message[offset])
    count = int.from_bytes(message[offset + 1 : offset + 3], "big")
    offset += 3
    columns = []
    for _ in range(count):
        in_key = bool(message[offset] & 1)
        name, offset = _string(message, offset + 1, texts)
        type_oid, typmod = _COLUMN.unpack_from(message, offset)
        offset += _COLUMN.size
        columns.append(RelationColumn(name, type_oid, typmod, in_key))
    # An empty namespace stands for pg_catalog.
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def read_truncate(message: bytes) -> tuple[bytes, ...]:
    """The truncated relations, each as the four bytes that name it in row messages."""
    count = int.from_bytes(message[1:5], "big")
    return tuple(message[6 + 4 * i : 10 + 4 * i] for i in range(count))


def unknown_message(message: bytes) -> SourceError:
    """The error for a message that protocol version 1 does not have."""
    kind = chr(message[0]) if message else "empty"
    return SourceError("TM-PG-021", f"pgoutput sent a message of kind {kind!r} that protocol version 1 does not have")


def _string(message: bytes, offset: int, texts: Transcoder | None) -> tuple[str, int]:
    end = message.index(0, offset)
    name = message[offset:end]
    if texts is not None:
        name = texts.utf8(name)
    return name_of(name), end + 1


def transcoded_row(message: bytes, texts: Transcoder) -> bytes:
    """A row with its texts in UTF-8; one that is not as it must be stays as it is, which its decoder finds.

    Raises:
        psycopg.Error: The server cannot be asked for a character.
    """
    if message.isascii():
        return message
    made = [message[:_HEAD]]
    at = _HEAD
    try:
        while at < len(message):
            made.append(message[at : at + _TUPLE_HEAD])
            (count,) = struct.unpack_from(">H", message, at + 1)
            at += _TUPLE_HEAD
            for _ in range(count):
                kind = message[at]
                at += 1
                if kind != _TEXT:
                    made.append(bytes((kind,)))
                    continue
                start = at + _LENGTH.size
                at = start + _LENGTH.unpack_from(message, at)[0]
                text = texts.utf8(message[start:at])
                made += (b"t", _LENGTH.pack(len(text)), text)
    except (IndexError, struct.error):
        return message
    return b"".join(made)
