"""MySQL's binary JSON (``json_binary.h``, ``json_dom.cc``), to the text that the server prints.

A value is a type and, for containers, counts and offsets from their begin. It becomes a tree first: a dict, a list, or
the byte text of a scalar's JSON, so that partial updates can be applied to it (``binlog_row_value_options =
PARTIAL_JSON``; MySQL's ``Json_diff_vector``): an operation, a path and a value each.
"""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from typing import TypeAlias

from tidemark.captures.mysql.terms.event_bytes import lenenc
from tidemark.captures.mysql.values.binary_values import decimal_reader
from tidemark.captures.mysql.values.json_values import string

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str"
"""Keys are byte texts without quotes; a scalar is its JSON."""

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = range(4)
_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(4, 13)
_OPAQUE = 15

_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {
    _INT16: struct.Struct("<h"),
    _UINT16: struct.Struct("<H"),
    _INT32: struct.Struct("<i"),
    _UINT32: struct.Struct("<I"),
    _INT64: struct.Struct("<q"),
    _UINT64: struct.Struct("<Q"),
}
_DOUBLE_VALUE = struct.Struct("<d")
_PACKED = struct.Struct("<q")

# Types of opaque values, by the numbers of the column types.
_TIMESTAMP, _DATE, _TIME, _DATETIME, _NEWDECIMAL = 7, 10, 11, 12, 246

_LAST_PLAIN_EXPONENT = 15
"""The server writes doubles without an exponent while the point is at most so many digits from the first one."""


def json_text(data: bytes) -> str:
    """A stored value as the server prints it, as a byte text. Raises ValueError, IndexError or struct.error."""
    return print_tree(read_tree(data))


def read_tree(data: bytes) -> Tree:
    """A stored value. Nothing at all stands for null: a row from before the column was added NOT NULL."""
    return _value(data, data[0], 1) if data else "null"


def print_tree(tree: Tree) -> str:
    """As the server prints JSON: a blank after each comma and colon."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, list):
        return f"[{', '.join(map(print_tree, tree))}]"
    return "{" + ", ".join([f"{string(key)}: {print_tree(value)}" for key, value in tree.items()]) + "}"


def _value(data: bytes, kind: int, at: int) -> Tree:
    if kind <= _LARGE_ARRAY:
        return _container(data, kind, at)
    if kind == _STRING:
        size, start = _length(data, at)
        return string(data[start : start + size].decode("latin-1"))
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        return str(_NUMBERS[kind].unpack_from(data, at)[0])
    if kind == _DOUBLE:
        return double_text(_DOUBLE_VALUE.unpack_from(data, at)[0])
    if kind == _OPAQUE:
        size, start = _length(data, at + 1)
        return _opaque(data[at], data[start : start + size])
    raise ValueError("an unknown type in JSON")


def _container(data: bytes, kind: int, begin: int) -> Tree:
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    width = 4 if large else 2
    inline = (_LITERAL, _INT16, _UINT16, _INT32, _UINT32) if large else (_LITERAL, _INT16, _UINT16)
    count = int.from_bytes(data[begin : begin + width], "little")
    at = begin + 2 * width
    keys = []
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        for _ in range(count):
            start = begin + int.from_bytes(data[at : at + width], "little")
            size = int.from_bytes(data[at + width : at + width + 2], "little")
            keys.append(data[start : start + size].decode("latin-1"))
            at += width + 2
    values = []
    for _ in range(count):
        child = data[at]
        place = at + 1 if child in inline else begin + int.from_bytes(data[at + 1 : at + 1 + width], "little")
        values.append(_value(data, child, place))
        at += 1 + width
    return dict(zip(keys, values, strict=True)) if kind in (_SMALL_OBJECT, _LARGE_OBJECT) else values


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A length of seven bits a byte, the lowest first, and where it ends."""
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 127) << shift
        at += 1
        shift += 7
        if byte < 128:
            return size, at


def _opaque(kind: int, data: bytes) -> str:
    """A value of an SQL type: decimals are numbers, dates and times strings, all else its base64 with the type."""
    if kind == _NEWDECIMAL:
        return decimal_reader(data[0], data[1])(data[2:])
    if kind in (_DATE, _DATETIME, _TIMESTAMP, _TIME):
        (packed,) = _PACKED.unpack(data)
        return f'"{_time(packed) if kind == _TIME else _datetime(packed, date_only=kind == _DATE)}"'
    return f'"base64:type{kind}:{b64encode(data).decode()}"'


def _datetime(packed: int, *, date_only: bool) -> str:
    """From the top: 17 bits of ``year * 13 + month``, 5 of day, 5 of hour, 6, 6, and 24 of microseconds."""
    clock = packed >> 24
    year, month = divmod(clock >> 22, 13)
    day = f"{year:04d}-{month:02d}-{clock >> 17 & 31:02d}"
    if date_only:
        return day
    return f"{day} {clock >> 12 & 31:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}.{packed & 0xFFFFFF:06d}"


def _time(packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    clock = packed >> 24
    return f"{sign}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}.{packed & 0xFFFFFF:06d}"


def double_text(value: float) -> str:
    """The shortest digits of a double in the server's form (``my_gcvt``), with ``.0`` where it would look whole."""
    sign = "-" if repr(value)[0] == "-" else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    # Where the point is, counted from the first digit.
    point = len(whole) + int(exponent or 0)
    if whole == "0":
        point = len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    if -_LAST_PLAIN_EXPONENT < point <= _LAST_PLAIN_EXPONENT:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        if point >= len(digits):
            return f"{sign}{digits.ljust(point, '0')}.0"
        return f"{sign}{digits[:point]}.{digits[point:]}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"


_REPLACE, _INSERT, _REMOVE = range(3)

_LEG = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\[]+)|\[(\d+)\]')


def apply_changes(tree: Tree, changes: bytes) -> Tree:
    """The value after the changes. Raises ValueError, LookupError or struct.error when they do not fit."""
    at = 0
    while at < len(changes):
        operation = changes[at]
        size, start = lenenc(changes, at + 1)
        at = start + size
        path = _legs(changes[start:at].decode("latin-1"))
        value: Tree = "null"
        if operation != _REMOVE:
            size, start = lenenc(changes, at)
            at = start + size
            value = read_tree(changes[start:at])
        tree = _changed(tree, operation, path, value)
    return tree


def _legs(path: str) -> list[str | int]:
    """The steps of a path: member names and array positions."""
    legs: list[str | int] = []
    at = 1
    if not path.startswith("$"):
        raise ValueError("not a path")
    while at < len(path):
        match = _LEG.match(path, at)
        if match is None:
            raise ValueError("not a path")
        at = match.end()
        name, place = match.groups()
        if place is not None:
            legs.append(int(place))
        elif name.startswith('"'):
            text: str = json.loads(name.encode("latin-1"))
            legs.append(text.encode().decode("latin-1"))
        else:
            legs.append(name)
    return legs


def _changed(tree: Tree, operation: int, path: list[str | int], value: Tree) -> Tree:
    if operation not in (_REPLACE, _INSERT, _REMOVE):
        raise ValueError("an unknown operation")
    if not path:
        if operation != _REPLACE:
            raise ValueError("the whole value can only be replaced")
        return value
    parent = tree
    for leg in path[:-1]:
        parent = _child(parent, leg)
    last = path[-1]
    if operation != _INSERT:
        _child(parent, last)  # Raises if there is none.
    if isinstance(parent, dict) and isinstance(last, str):
        if operation == _REMOVE:
            del parent[last]
        else:
            parent[last] = value
        if operation == _INSERT:
            # The server keeps members by the length of their names, then by their bytes.
            members = sorted(parent.items(), key=lambda member: (len(member[0]), member[0]))
            parent.clear()
            parent.update(members)
    elif isinstance(parent, list) and isinstance(last, int):
        # A slice takes the place of one element, or of none.
        parent[last : last + (operation != _INSERT)] = [] if operation == _REMOVE else [value]
    else:
        raise ValueError("a path that does not match the value")
    return tree


def _child(parent: Tree, leg: str | int) -> Tree:
    if isinstance(parent, dict) and isinstance(leg, str):
        return parent[leg]
    if isinstance(parent, list) and isinstance(leg, int):
        return parent[leg]
    raise ValueError("a path that does not match the value")
