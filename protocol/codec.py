"""Bytes on the pipe: one JSON object and a newline per message, in both directions.

Control messages are msgspec structs. ``captured``, which is nearly every line, never becomes an object on either side:
a writer joins a prefix, the document's bytes and a suffix; a reader cuts them apart again.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from tidemark.protocol.envelope import INTERNAL, MAX_LINE_BYTES, kind_and_fields, members, too_long, unknown_kind
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.fields import message_of
from tidemark.protocol.messages import MAX_UINT32, REQUESTS, RESPONSES, Message, Request, Response
from tidemark.protocol.text.nesting import MESSAGE_NESTING, nested_deeper

CAPTURED_SUFFIX = b"}}\n"
"""What follows the document in a ``captured`` line."""


class _Captured(msgspec.Struct, forbid_unknown_fields=True):
    doc: msgspec.Raw = msgspec.Raw()
    binding: Annotated[int, msgspec.Meta(ge=0, le=MAX_UINT32)] | None = 0
    doc_json: msgspec.Raw = msgspec.Raw()


class _CapturedLine(msgspec.Struct, forbid_unknown_fields=True):
    captured: _Captured
    internal: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name=INTERNAL)


_captured_line = msgspec.json.Decoder(_CapturedLine).decode


def captured_prefix(binding: int) -> bytes:
    """The bytes of a ``captured`` line before the document."""
    return b'{"captured":{"binding":%d,"doc":' % binding


def verified_prefix(binding: int) -> bytes:
    """The bytes of a ``verified`` line before the document: a row that is compared, and is no event."""
    return b'{"verified":{"binding":%d,"doc":' % binding


def encode(message: Message) -> bytes:
    """One line, newline included. An absent part is left out; nothing outside the protocol is written."""
    # Only the top level: nulls deeper down belong to raw JSON (in a state patch they remove a member).
    names = zip(message.__struct_fields__, message.__struct_encode_fields__, strict=True)
    parts = [(written, getattr(message, name)) for name, written in names]
    omits = message.__struct_config__.omit_defaults  # Then what is absent is left out already.
    absent = not omits and any(part is None for _, part in parts)
    body = {written: part for written, part in parts if part is not None} if absent else message
    return b'{"%s":%s}\n' % (message.kind.encode(), _encoded(body))


def _text(value: Any) -> str:
    """A text of a class of its own as what it is. Raises TypeError for what is no text."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return value[:]


_encoded = msgspec.json.Encoder(enc_hook=_text).encode


def decode_request(line: bytes) -> Request:
    """Reads one request.

    Raises:
        ProtocolError: ``TM-PRO-001`` not JSON, ``TM-PRO-002`` unknown kind, ``TM-PRO-003`` a wrong field,
            ``TM-PRO-005`` too long.
    """
    return request_of(*kind_and_fields(line, "request"))


def request_of(kind: str, fields: Any) -> Request:
    """The request of a kind with these fields.

    Raises:
        ProtocolError: ``TM-PRO-002`` unknown kind, ``TM-PRO-003`` a wrong field.
    """
    return _message(kind, fields, REQUESTS, "request")  # type: ignore[return-value]


def decode_response(line: bytes) -> Response:
    """Reads one response other than ``captured``. Raises as ``decode_request`` does."""
    return _message(*kind_and_fields(line, "response"), RESPONSES, "response")  # type: ignore[return-value]


def split_captured(line: bytes) -> tuple[int, bytes] | None:
    """The binding and the document's bytes of a ``captured`` line, or None when the line is another message.

    The document is walked over to find its end and to be sure that it is JSON, and handed on byte for byte: white
    space, order of members and digits of numbers stay as the connector wrote them.

    Raises:
        ProtocolError: As ``decode_request`` does.
    """
    if not line.startswith(b'{"captured"') and b'"captured"' not in line:
        return None
    if len(line) > MAX_LINE_BYTES:
        raise too_long(line, "response")
    if line.count(b"[") + line.count(b"{") > MESSAGE_NESTING and nested_deeper(str(line, "latin-1"), MESSAGE_NESTING):
        raise ProtocolError(
            "TM-PRO-001", f"a response of {len(line)} bytes is nested deeper than {MESSAGE_NESTING} levels"
        )
    try:
        captured = _captured_line(line).captured
        if not line.isascii():
            str(line, "utf-8")  # walking over a string does not look at its bytes
    except (msgspec.DecodeError, UnicodeDecodeError):
        _other_message(line)
        return None
    doc = bytes(captured.doc) or bytes(captured.doc_json)
    if doc[:1] != b"{" or (len(captured.doc) and len(captured.doc_json)):
        _other_message(line)
        return None
    return captured.binding or 0, doc


def _other_message(line: bytes) -> None:
    """Returns when ``captured`` only occurs inside another message, and otherwise says what is wrong with it."""
    body = members(line, "response")
    if "captured" not in body:
        return
    if len(body) != 1:
        raise unknown_kind(body, "response")
    raise ProtocolError("TM-PRO-003", "captured must have a doc (an object) and a binding (a number), and nothing else")


def _message(kind: str, fields: Any, kinds: dict[str, type[Message]], what: str) -> Message:
    model = kinds.get(kind)
    if model is None:
        raise unknown_kind({kind: fields}, what)
    return message_of(model, fields)
