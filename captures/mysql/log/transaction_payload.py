"""TRANSACTION_PAYLOAD events (MySQL 8.0.20, ``binlog_transaction_compression``): a transaction's events, compressed.

Format: MySQL's ``Transaction_payload_event``: fields of a type, a length and a value, and then the payload, by default
a zstd stream. It is decompressed piece by piece, as it arrives: a payload may hold gigabytes.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from itertools import chain

from tidemark.captures.mysql.log.events import HEADER, DamagedEvent, Event
from tidemark.captures.mysql.terms.event_bytes import byte_text, lenenc
from tidemark.protocol.errors import SourceError

_END, _SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NONE = 0, 255
_PIECE = 256 * 1024
_HEADER = struct.Struct("<IBIIIH").unpack_from


def payload_events(body: Iterator[bytes | memoryview | None]) -> Iterator[Event | None]:
    """The events of a payload, which have no checksums; None while the next one has not arrived. ``body`` comes in
    pieces, the first of which has everything before the payload. Raises DamagedEvent, and SourceError ``TM-MY-044`` for
    an unknown compression.
    """
    first = next((piece for piece in body if piece is not None), b"")
    compression, at = _ZSTD, 0
    try:
        while (kind := lenenc(first, at)[0]) != _END:
            size, start = lenenc(first, lenenc(first, at)[1])
            at = start + size
            if kind == _COMPRESSION:
                compression = lenenc(first, start)[0]
        at += 1
    except (LookupError, ValueError):
        raise DamagedEvent("a compressed transaction without a begin") from None
    pieces = _pieces(chain((memoryview(first)[at:],), body))
    if compression == _NONE:
        return _events(piece if piece is None else bytes(piece) for piece in pieces)
    if compression == _ZSTD:
        return _events(_decompressed(pieces))
    raise SourceError("TM-MY-044", f"a transaction that is compressed by method {compression}")


def _pieces(body: Iterable[bytes | memoryview | None]) -> Iterator[memoryview | None]:
    """Smaller pieces: a decompressor copies what it has not used yet."""
    for piece in body:
        if piece is None:
            yield None
        else:
            for start in range(0, len(piece), _PIECE):
                yield memoryview(piece)[start : start + _PIECE]


def _decompressed(payload: Iterable[memoryview | None]) -> Iterator[bytes | None]:
    """The decompressed payload."""
    # Imported here: only compressed transactions need it.
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    frame = zstd.ZstdDecompressor()
    begun = False
    try:
        for piece in payload:
            if piece is None:
                yield None
                continue
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
        raise DamagedEvent("a compressed transaction does not decompress") from None
    if begun and not frame.eof:
        raise DamagedEvent("a compressed transaction ends in the middle")


def _events(pieces: Iterable[bytes | None]) -> Iterator[Event | None]:
    data, held, needed = b"", 0, HEADER
    waiting: list[bytes] = []
    last: Event | None = None  # Held back: it ends the transaction, so the whole payload must be undamaged.
    for piece in pieces:
        if piece is None:
            yield None
            continue
        waiting.append(piece)
        held += len(piece)
        if len(data) + held < needed:
            continue  # An event may be as large as a row: it is joined once.
        data = b"".join((data, *waiting))
        waiting.clear()
        held = 0
        text = byte_text(data)
        at, needed = 0, HEADER
        while len(data) - at >= HEADER:
            timestamp, kind, server_id, size, log_position, flags = _HEADER(data, at)
            end = at + size
            if end > len(data):
                needed = size
                break
            if last is not None:
                yield last
            last = data, text, at + HEADER, end, kind, timestamp, server_id, size, log_position, flags
            at = end
        data = data[at:]
    if data or waiting:
        raise DamagedEvent("a compressed transaction ends in the middle of an event")
    if last is not None:
        yield last
