"""TRANSACTION_PAYLOAD events (MySQL 8.0.20, ``binlog_transaction_compression``): a transaction's events, compressed.

Format: MySQL's ``Transaction_payload_event``: fields of a type, a length and a value, and then the payload, by default
a zstd stream. It is decompressed piece by piece: a payload may hold gigabytes.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

from captures.mysql.events import HEADER, Event, lenenc
from protocol.errors import SourceError

_END, _SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NONE = 0, 255
_PIECE = 256 * 1024
_HEADER = struct.Struct("<IBIIIH").unpack_from


def payload_events(body: bytes) -> Iterator[Event]:
    """The events of a payload, which have no checksums.

    Raises SourceError ``TM-MY-044`` for a compression that is not known,
    ``TM-MY-049`` when the payload is damaged.
    """
    compression, at = _ZSTD, 0
    try:
        while (kind := lenenc(body, at)[0]) != _END:
            size, start = lenenc(body, lenenc(body, at)[1])
            at = start + size
            if kind == _COMPRESSION:
                compression = lenenc(body, start)[0]
        at += 1
    except (LookupError, ValueError):
        raise SourceError("TM-MY-049", "a compressed transaction without a begin") from None
    if compression == _NONE:
        pieces: Iterator[bytes] = iter((body[at:],))
    elif compression == _ZSTD:
        pieces = _decompressed(body[at:])
    else:
        raise SourceError("TM-MY-044", f"a transaction that is compressed by method {compression}")
    return _events(pieces)


def _decompressed(payload: bytes) -> Iterator[bytes]:
    # Only compressed transactions need it: a server without them is read without it.
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    while payload:
        frame = zstd.ZstdDecompressor()
        try:
            yield frame.decompress(payload, _PIECE)
            while not frame.eof:
                piece = frame.decompress(b"", _PIECE)
                if not piece and frame.needs_input:
                    raise SourceError("TM-MY-049", "a compressed transaction ends in the middle")
                yield piece
        except zstd.ZstdError:
            raise SourceError("TM-MY-049", "a compressed transaction does not decompress") from None
        payload = frame.unused_data


def _events(pieces: Iterator[bytes]) -> Iterator[Event]:
    rest = b""
    for piece in pieces:
        data = rest + piece
        text = data.decode("latin-1")
        at = 0
        while len(data) - at >= HEADER:
            timestamp, kind, server_id, size, log_position, flags = _HEADER(data, at)
            end = at + size
            if end > len(data):
                break
            yield data, text, at + HEADER, end, kind, timestamp, server_id, size, log_position, flags
            at = end
        rest = data[at:]
    if rest:
        raise SourceError("TM-MY-049", "a compressed transaction ends in the middle of an event")
