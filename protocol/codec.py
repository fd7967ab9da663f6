"""Bytes on the pipe: one JSON object and a newline per message, in both directions.

Control messages are pydantic models. ``captured``, which is nearly every line, never becomes an object on either side:
a writer joins a prefix, the document's bytes and a suffix; a reader cuts them apart again.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from pydantic import ValidationError

from protocol.errors import ProtocolError
from protocol.messages import MAX_LINE_BYTES, REQUESTS, RESPONSES, Message, Request, Response

CAPTURED_SUFFIX = b"}}\n"
"""What follows the document in a ``captured`` line."""

_CAPTURED = re.compile(rb'\{"captured":\{(?:"binding":(0|[1-9][0-9]{0,9}),)?"doc":(?=\{)')


def captured_prefix(binding: int) -> bytes:
    """The bytes of a ``captured`` line before the document."""
    return b'{"captured":{"binding":%d,"doc":' % binding


def encode(message: Message) -> bytes:
    """One line, newline included. An absent part is left out; nothing outside the protocol is written."""
    # Only the top level: nulls deeper down belong to raw JSON (in a state patch they remove a member).
    body = {name: part for name, part in message.model_dump(by_alias=True).items() if part is not None}
    return orjson.dumps({message.kind: body}, option=orjson.OPT_APPEND_NEWLINE)


def decode_request(line: bytes) -> Request:
    """Reads one request.

    Raises:
        ProtocolError: ``TM-PRO-001`` not JSON, ``TM-PRO-002`` unknown kind, ``TM-PRO-003`` a wrong field,
            ``TM-PRO-005`` too long.
    """
    return _decode(line, REQUESTS, "request")  # type: ignore[return-value]


def decode_response(line: bytes) -> Response:
    """Reads one response other than ``captured``. Raises as ``decode_request`` does."""
    return _decode(line, RESPONSES, "response")  # type: ignore[return-value]


def split_captured(line: bytes) -> tuple[int, bytes] | None:
    """The binding and the document's bytes of a ``captured`` line, or None when the line is another message.

    The usual spelling is cut by position. Any other (white space, another order of fields, an omitted ``binding``)
    is parsed and the document written anew, so that every connector's lines are understood.

    Raises:
        ProtocolError: As ``decode_request`` does.
    """
    match = _CAPTURED.match(line)
    if match is not None and line.endswith(CAPTURED_SUFFIX):
        return int(match[1] or 0), line[match.end() : -3]
    if b'"captured"' not in line:
        return None
    body = _object(line, "response")
    if "captured" not in body:
        return None
    if len(body) != 1:
        raise _unknown_kind(body, "response")
    captured = body["captured"]
    binding = captured.get("binding", 0) if isinstance(captured, dict) else None
    if not isinstance(binding, int) or not isinstance(captured.get("doc"), dict):
        raise ProtocolError("TM-PRO-003", "captured: needs a binding (a number) and a doc (an object)")
    return binding, orjson.dumps(captured["doc"])


def _decode(line: bytes, kinds: dict[str, type[Message]], what: str) -> Message:
    body = _object(line, what)
    if len(body) != 1:
        raise _unknown_kind(body, what)
    kind, fields = next(iter(body.items()))
    model = kinds.get(kind)
    if model is None:
        raise _unknown_kind(body, what)
    try:
        return model.model_validate(fields if fields is not None else {})
    except ValidationError as error:
        # The input itself may hold a password: name the places, not the values.
        places = "; ".join(
            ".".join([kind, *map(str, e["loc"])]) + ": " + e["msg"] for e in error.errors(include_input=False)
        )
        raise ProtocolError("TM-PRO-003", places) from None


def _object(line: bytes, what: str) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError("TM-PRO-005", f"a {what} of {len(line)} bytes is over the limit of {MAX_LINE_BYTES}")
    try:
        body = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(
            "TM-PRO-001", f"a {what} line of {len(line)} bytes is not JSON (at character {error.pos})"
        ) from None
    if not isinstance(body, dict):
        raise ProtocolError("TM-PRO-002", f"a {what} is a JSON object, not {_json_type(body)}")
    return body


def _json_type(value: object) -> str:
    return {type(None): "null", bool: "a boolean", str: "a string", list: "an array"}.get(type(value), "a number")


def _unknown_kind(body: dict[str, Any], what: str) -> ProtocolError:
    keys = ", ".join(repr(key[:40]) for key in list(body)[:4]) or "none"
    return ProtocolError("TM-PRO-002", f"a {what} has exactly one known key; this one has {keys}")
