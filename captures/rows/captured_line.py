"""The head and the tail of a captured line.

::

    {"captured":{"binding":0,"doc":{"_meta":{"op":"c","source":{…}},"id":1}}}

Decoders write the text between them, mostly in generated functions. Head and tail are made only here, so that no line
is composed of texts in two modules that must match.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import orjson

from tidemark.protocol.codec import CAPTURED_SUFFIX, captured_prefix

if TYPE_CHECKING:  # Readers' processes import this module, and are to start soon.
    from tidemark.protocol.messages import Json

END = "}" + CAPTURED_SUFFIX.decode()
"""The tail: the text after the last member of the document."""


def opening(binding: int, op: str) -> str:
    """The head: the text before the value of ``source``."""
    return f'{captured_prefix(binding).decode()}{{"_meta":{{"op":"{op}","source":'


def origin_members(schema: str, table: str) -> bytes:
    """The members of ``source`` that name a document's table."""
    return b'"schema":%b,"table":%b' % (orjson.dumps(schema), orjson.dumps(table))


def chunk_head(binding: int, op: str, path: tuple[str, str], place: bytes) -> bytes:
    """The head of a document that comes from no event of the log, up to a part of its ``source``.

    Args:
        op: ``c`` for the rows of a chunk.
        path: Schema and name of the table.
        place: The member of ``source`` that orders events, up to the part that distinguishes the rows of a chunk.
    """
    return b'%b{"snapshot":true,%b,%b' % (opening(binding, op).encode(), origin_members(*path), place)


def without_columns(head: bytes) -> bytes:
    """The line of a document that has only ``_meta``; ``head`` ends with its ``source``."""
    return b"%b}%b" % (head, END.encode())


def deletion(head: bytes, key: Mapping[str, Json]) -> bytes:
    """The line of a document that has only ``_meta`` and a key; ``head`` ends with its ``source``."""
    return b"%b},%b%b" % (head, orjson.dumps(key)[1:-1], END.encode())


class Emissions:
    """Numbers of chunks: together with a row's place in its chunk they distinguish rows emitted at one position.

    Each is greater than all earlier ones, those of earlier sessions included: milliseconds since 1970.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last = max(self._last + 1, time.time_ns() // 1_000_000)
        return self._last
