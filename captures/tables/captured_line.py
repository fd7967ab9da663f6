"""The head and the tail of a captured line.

::

    {"captured":{"binding":0,"doc":{"_meta":{"op":"c","source":{…}},"id":1}}}

What stands between them decoders write, mostly by functions that they generate. So a line is never put together from
texts that have to fit each other in two places.
"""

from __future__ import annotations

import orjson

from protocol.codec import CAPTURED_SUFFIX, captured_prefix

END = "}" + CAPTURED_SUFFIX.decode()
"""The tail: what follows the last member of the document."""


def opening(binding: int, op: str) -> str:
    """The head: all before the value of ``source``."""
    return f'{captured_prefix(binding).decode()}{{"_meta":{{"op":"{op}","source":'


def origin_members(schema: str, table: str) -> bytes:
    """The members of ``source`` that say which table a document is of."""
    return b'"schema":%b,"table":%b' % (orjson.dumps(schema), orjson.dumps(table))


def chunk_head(binding: int, op: str, path: tuple[str, str], place: bytes) -> bytes:
    """The head of what comes from no event of the log, into its ``source``.

    Args:
        op: ``c`` for the rows of a chunk.
        path: Schema and name of the table.
        place: The member of ``source`` that orders events, up to where it tells the rows of a chunk apart.
    """
    return b'%b{"snapshot":true,%b,%b' % (opening(binding, op).encode(), origin_members(*path), place)


def without_columns(head: bytes) -> bytes:
    """The line of a document that has ``_meta`` and nothing else; ``head`` ends with its ``source``."""
    return b"%b}%b" % (head, END.encode())
