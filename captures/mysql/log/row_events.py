"""Row events: what their kinds do, and where in them the rows are."""

from __future__ import annotations

from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.rows.log_decoder import DELETE, INSERT, PARTIAL_UPDATE, UPDATE
from tidemark.captures.mysql.terms.event_bytes import ByteText, byte_text, lenenc
from tidemark.protocol.errors import SourceError

ROW_EVENTS = {
    events.WRITE_ROWS: (INSERT, 2, False),
    events.UPDATE_ROWS: (UPDATE, 2, False),
    events.DELETE_ROWS: (DELETE, 2, False),
    events.WRITE_ROWS_V1: (INSERT, 1, False),
    events.UPDATE_ROWS_V1: (UPDATE, 1, False),
    events.DELETE_ROWS_V1: (DELETE, 1, False),
    events.PARTIAL_UPDATE_ROWS: (PARTIAL_UPDATE, 2, False),
    events.WRITE_ROWS_COMPRESSED_V1: (INSERT, 1, True),
    events.UPDATE_ROWS_COMPRESSED_V1: (UPDATE, 1, True),
    events.DELETE_ROWS_COMPRESSED_V1: (DELETE, 1, True),
    events.WRITE_ROWS_COMPRESSED: (INSERT, 2, True),
    events.UPDATE_ROWS_COMPRESSED: (UPDATE, 2, True),
    events.DELETE_ROWS_COMPRESSED: (DELETE, 2, True),
}
"""By kind: what is done to rows, the version of the head, and whether MariaDB compressed the rows."""

WITHOUT_TABLE = b"\xff\xff\xff\x00\x00\x00"
"""The table number of an event without rows, which only ends a statement."""

_HEAD = 8
"""Bytes of the table's number and the flags."""


def row_event(kind: int, data: bytes, text: ByteText, start: int, end: int) -> tuple[str, bytes, ByteText, int, int]:
    """What an event does, and where the count of its columns begins and its rows end: in ``data`` and ``text``, or in
    others when it is compressed. Raises SourceError ``TM-MY-049`` when it does not decompress.
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
        whole = data[at:rows] + events.inflate(data[rows:end])
    except (ValueError, LookupError):
        raise SourceError("TM-MY-049", "compressed rows in the log do not decompress") from None
    return what, whole, byte_text(whole), 0, len(whole)
