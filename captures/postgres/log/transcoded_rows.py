"""Row messages of pgoutput, of a database whose encoding is not UTF-8, with their texts in UTF-8."""

from __future__ import annotations

import struct

from tidemark.captures.postgres.catalog.encodings import Transcoder

_HEAD = 5
"""Bytes of the kind and the relation."""

_TUPLE_HEAD = 3
"""A marker, and how many columns follow."""

_TEXT = ord("t")
_LENGTH = struct.Struct(">i")


def transcoded_row(message: bytes, texts: Transcoder) -> bytes:
    """An Insert, Update or Delete; one that is not as it must be stays as it is, which its decoder finds.

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
