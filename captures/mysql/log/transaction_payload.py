"""TRANSACTION_PAYLOAD events (MySQL 8.0.20, ``binlog_transaction_compression``): a transaction's events, compressed.

Format: MySQL's ``Transaction_payload_event``: fields of a type, a length and a value, and then the payload, by default
a zstd stream. It is decompressed piece by piece: a payload may hold gigabytes.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator

from captures.mysql.log.events import HEADER, Event, lenenc
from protocol.errors import SourceError

_END, _SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NONE = 0, 255
_PIECE = 256 * 1024
_HEADER = struct.Struct("<IBIIIH").unpack_from


def payload_events(body: bytes | memoryview) -> Iterator[Event]:
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
    payload = memoryview(body)[at:]
    pieces = (payload[start : start + _PIECE] for start in range(0, len(payload), _PIECE))
    if compression == _NONE:
        return _events(map(bytes, pieces))
    if compression == _ZSTD:
        return _events(_decompressed(pieces))
    raise SourceError("TM-MY-044", f"a transaction that is compressed by method {compression}")


def _decompressed(payload: Iterable[memoryview]) -> Iterator[bytes]:
    """What comes of a payload, handed over a piece at a time: a decompressor copies what it does not use yet."""
    # Only compressed transactions need it: a server without them is read without it.
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    frame = zstd.ZstdDecompressor()
    begun = False
    try:
        for piece in payload:
            rest: bytes | memoryview = piece
            while rest:
                if frame.eof:
                    frame = zstd.ZstdDecompressor()
                begun = True
                yield frame.decompress(rest, _PIECE)
                while not frame.eof and not frame.needs_input:
                    yield frame.decompress(b"", _PIECE)
                rest = frame.unused_data if frame.eof else b""
    except zstd.ZstdError:
        raise SourceError("TM-MY-049", "a compressed transaction does not decompress") from None
    if begun and not frame.eof:
        raise SourceError("TM-MY-049", "a compressed transaction ends in the middle")


def _events(pieces: Iterator[bytes]) -> Iterator[Event]:
    data, held, needed = b"", 0, HEADER
    waiting: list[bytes] = []
    for piece in pieces:
        waiting.append(piece)
        held += len(piece)
        if len(data) + held < needed:
            continue  # An event may be as large as a row: it is put together once.
        data = b"".join((data, *waiting))
        waiting.clear()
        held = 0
        text = data.decode("latin-1")
        at, needed = 0, HEADER
        while len(data) - at >= HEADER:
            timestamp, kind, server_id, size, log_position, flags = _HEADER(data, at)
            end = at + size
            if end > len(data):
                needed = size
                break
            yield data, text, at + HEADER, end, kind, timestamp, server_id, size, log_position, flags
            at = end
        data = data[at:]
    if data or waiting:
        raise SourceError("TM-MY-049", "a compressed transaction ends in the middle of an event")
