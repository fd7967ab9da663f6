"""A line of the protocol as far as it can be read without its message's type: the kind, and the fields as they came.

Importing this imports no message. A connector answers some requests by their kind alone.
"""

from __future__ import annotations

from typing import Any

import orjson

from tidemark.protocol.errors import ProtocolError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line either side accepts, in bytes, newline included."""

INTERNAL = "$internal"
"""A member that a runtime may put beside the message, for itself."""


class NotJson(ProtocolError):
    """A line is not JSON: what came before its newline, or before the end of the stream, may be a part of it only."""


def kind_and_fields(line: bytes, what: str) -> tuple[str, Any]:
    """The only key of a line's object, and what stands under it.

    Args:
        what: ``request`` or ``response``, for messages.

    Raises:
        ProtocolError: ``TM-PRO-001`` not JSON, ``TM-PRO-002`` not one key, ``TM-PRO-005`` too long.
    """
    body = members(line, what)
    if len(body) != 1:
        raise unknown_kind(body, what)
    return next(iter(body.items()))


def members(line: bytes, what: str) -> dict[str, Any]:
    """The members of a line's object, without ``INTERNAL``. Raises as ``kind_and_fields``."""
    return {name: part for name, part in _object(line, what).items() if name != INTERNAL}


def too_long(line: bytes, what: str) -> ProtocolError:
    """The error for a line over the limit."""
    return ProtocolError("TM-PRO-005", f"a {what} of {len(line)} bytes exceeds the limit of {MAX_LINE_BYTES}")


def unknown_kind(body: dict[str, Any], what: str) -> ProtocolError:
    """The error for an object whose members are no message."""
    keys = ", ".join(repr(key[:40]) for key in list(body)[:4]) or "none"
    return ProtocolError("TM-PRO-002", f"a {what} must have exactly one known key; this one has {keys}")


def _object(line: bytes, what: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise too_long(line, what)
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise NotJson(
            "TM-PRO-001", f"a {what} line of {len(line)} bytes is not JSON (at character {error.pos})"
        ) from None
    if not isinstance(body, dict):
        raise ProtocolError("TM-PRO-002", f"a {what} is a JSON object, not {_json_type(body)}")
    return body


def _json_type(value: object) -> str:
    return {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}.get(type(value), "a number")
