"""Reads the fields of messages leniently: every spelling of a name, and proto3's zero values left out or null."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import Acknowledge, Message

M = TypeVar("M", bound=Message)

_PLACE = re.compile(r"(.*) - at `\$(.*?)`", re.DOTALL)


class _Field(NamedTuple):
    """A field of a message.

    Attributes:
        name: On the wire.
        spellings: The names by which it is read; the first of them that is there counts.
        part: The kind of messages that its value, or each item of its value, is; None if it is none.
    """

    name: str
    spellings: Sequence[str]
    part: type[Message] | None


def message_of(kind: type[M], fields: Any) -> M:
    """A message from its fields, as they came.

    Raises:
        ProtocolError: ``TM-PRO-003`` a wrong field. It is named by its place, without its value, which may be secret.
    """
    try:
        return msgspec.convert(_exact({} if fields is None else fields, kind), kind)
    except msgspec.ValidationError as error:
        said = str(error)
        match = _PLACE.fullmatch(said)
        what, place = (match[1], match[2].replace("[", ".").replace("]", "")) if match else (said, "")
        if what.startswith("Invalid enum value"):
            what = "none of its values"
        raise ProtocolError("TM-PRO-003", f"{kind.kind}{place}: {what}") from None


def _exact(fields: Any, kind: type[Message]) -> Any:
    """The fields under their names on the wire, without nulls and unknown ones. What is no object stays as it is."""
    if not isinstance(fields, dict):
        return fields
    found = {}
    for name, spellings, part in _fields(kind):
        spelt = next((spelling for spelling in spellings if spelling in fields), None)
        if spelt is None or (value := fields[spelt]) is None:
            continue
        if part is not None:
            value = [_exact(item, part) for item in value] if isinstance(value, list) else _exact(value, part)
        found[name] = value
    if kind is Acknowledge and found.get("checkpoints") == 0 and found["checkpoints"] is not False:
        del found["checkpoints"]  # A zero that was not left out: it stands for one.
    return found


@cache
def _fields(kind: type[Message]) -> list[_Field]:
    types = get_type_hints(kind)
    fields = []
    for name, written in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        spellings = [*_spellings(written, name)]
        if other := kind.other_names.get(name):
            spellings += _spellings(other, other)
        fields.append(_Field(written, spellings, _part(types[name])))
    return fields


def _spellings(written: str, name: str) -> list[str]:
    """A field in JSON, as the proto calls it, and as it calls a field that holds JSON."""
    return [written, name, f"{name}_json", f"{written}Json"]


def _part(type_: Any) -> type[Message] | None:
    """The kind of messages in a field's type: itself, in a list, or beside None."""
    if isinstance(type_, type) and issubclass(type_, Message):
        return type_
    return next((part for inner in get_args(type_) if (part := _part(inner)) is not None), None)
