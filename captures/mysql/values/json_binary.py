"""MySQL's binary JSON (``json_binary.h``, ``json_dom.cc``), to the text that the server prints.

A value is a type and, for containers, counts and offsets from their begin. It becomes text at once; or a tree (a dict,
a list, or the byte text of a scalar's JSON), so that partial updates can be applied to it (``binlog_row_value_options
= PARTIAL_JSON``; MySQL's ``Json_diff_vector``): an operation, a path and a value each.
"""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import add
from typing import NamedTuple, TypeAlias, TypeVar

from tidemark.captures.mysql.terms.event_bytes import lenenc
from tidemark.captures.mysql.values.binary_values import decimal_reader
from tidemark.captures.mysql.values.json_values import string

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str"
"""Keys are byte texts without quotes; a scalar is its JSON."""

T = TypeVar("T", str, Tree)
_Object: TypeAlias = "Callable[[_Keys, Iterable[T]], T]"
_Array: TypeAlias = "Callable[[Iterable[T]], T]"
"""Make a container of its members, or of its elements."""

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY = range(4)
_LITERAL, _INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(4, 13)
_OPAQUE = 15

_LITERALS = {0: "null", 1: "true", 2: "false"}
_NUMBERS = {
    _INT16: struct.Struct("<h").unpack_from,
    _UINT16: struct.Struct("<H").unpack_from,
    _INT32: struct.Struct("<i").unpack_from,
    _UINT32: struct.Struct("<I").unpack_from,
    _INT64: struct.Struct("<q").unpack_from,
    _UINT64: struct.Struct("<Q").unpack_from,
}
_SMALL = 2, struct.Struct("<BH").iter_unpack, frozenset((_LITERAL, _INT16, _UINT16))
_LARGE = 4, struct.Struct("<BI").iter_unpack, frozenset((_LITERAL, _INT16, _UINT16, _INT32, _UINT32))
"""What containers with offsets of two bytes, or four, have: those bytes, what reads the types and offsets of values,
and the types of values that stand in the place of an offset.
"""
_KEY_SIZE = 2
"""Bytes of the size of a key."""
_DOUBLE_VALUE = struct.Struct("<d")
_PACKED = struct.Struct("<q")

# Types of opaque values, by the numbers of the column types.
_TIMESTAMP, _DATE, _TIME, _DATETIME, _NEWDECIMAL = 7, 10, 11, 12, 246

_LAST_PLAIN_EXPONENT = 15
"""The server writes doubles without an exponent while the point is at most so many digits from the first one."""


def json_text(data: bytes) -> str:
    """A stored value as the server prints it, as a byte text: a blank after each comma and colon.

    Raises ValueError, LookupError or struct.error.
    """
    return _value(data, data[0], 1, _printed, _joined) if data else "null"


def read_tree(data: bytes) -> Tree:
    """A stored value. Nothing at all stands for null: a row from before the column was added NOT NULL.

    Raises as ``json_text``.
    """
    return _value(data, data[0], 1, _branches, _listed) if data else "null"


def print_tree(tree: Tree) -> str:
    """The text that ``json_text`` prints of a value."""
    if isinstance(tree, str):
        return tree
    if isinstance(tree, list):
        return _joined(map(print_tree, tree))
    return _printed(_named(tree), map(print_tree, tree.values()))


class _Keys(NamedTuple):
    """The names of an object's members, and what stands before their values in JSON, as byte texts."""

    names: tuple[str, ...]
    labels: tuple[str, ...]


def _named(names: Iterable[str]) -> _Keys:
    each = tuple(names)
    return _Keys(each, tuple([f"{string(name)}: " for name in each]))


def _printed(keys: _Keys, values: Iterable[str]) -> str:
    return "{" + ", ".join(map(add, keys.labels, values)) + "}"


def _joined(values: Iterable[str]) -> str:
    return f"[{', '.join(values)}]"


def _branches(keys: _Keys, values: Iterable[Tree]) -> Tree:
    return dict(zip(keys.names, values, strict=True))


def _listed(values: Iterable[Tree]) -> Tree:
    return list(values)


def _value(data: bytes, kind: int, at: int, of_members: _Object[T], of_elements: _Array[T]) -> T:
    if kind == _STRING:
        size, start = data[at], at + 1
        if size > 127:
            size, start = _length(data, at)
        return string(_part(data, start, size).decode("latin-1"))
    if kind <= _LARGE_ARRAY:
        return _container(data, kind, at, of_members, of_elements)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        return str(_NUMBERS[kind](data, at)[0])
    if kind == _DOUBLE:
        return double_text(_DOUBLE_VALUE.unpack_from(data, at)[0])
    if kind == _OPAQUE:
        size, start = _length(data, at + 1)
        return _opaque(data[at], _part(data, start, size))
    raise ValueError("an unknown type in JSON")


def _container(data: bytes, kind: int, begin: int, of_members: _Object[T], of_elements: _Array[T]) -> T:
    width, entries, inline = _SMALL if kind in (_SMALL_OBJECT, _SMALL_ARRAY) else _LARGE
    at = begin + 2 * width
    count = int.from_bytes(_part(data, begin, 2 * width)[:width], "little")
    keys = None
    if kind <= _LARGE_OBJECT:
        heads = _part(data, at, count * (width + _KEY_SIZE))
        at += len(heads)
        keys = _keys(data, begin, heads, width)
    values: list[T] = []
    for child, value in entries(_part(data, at, count * (1 + width))):
        place = at + 1 if child in inline else begin + value
        values.append(_value(data, child, place, of_members, of_elements))
        at += 1 + width
    return of_elements(values) if keys is None else of_members(keys, values)


def _keys(data: bytes, begin: int, heads: bytes, width: int) -> _Keys:
    """The keys of an object, by the offset and the size of each in ``heads``, in their order. Between them there may be
    bytes of keys that were removed.
    """
    if not heads:
        return _NO_KEYS
    first = int.from_bytes(heads[:width], "little")
    last = len(heads) - width - _KEY_SIZE
    end = int.from_bytes(heads[last : last + width], "little") + int.from_bytes(heads[-_KEY_SIZE:], "little")
    texts = _part(data, begin + first, end - first)
    return _remembered_keys(heads, width, texts) if len(texts) <= _REMEMBERED else _read_keys(heads, width, texts)


def _read_keys(heads: bytes, width: int, texts: bytes) -> _Keys:
    """``texts`` begin with the first key."""
    first = int.from_bytes(heads[:width], "little")
    names = []
    for at in range(0, len(heads), width + _KEY_SIZE):
        start, size = heads[at : at + width], heads[at + width : at + width + _KEY_SIZE]
        name = _part(texts, int.from_bytes(start, "little") - first, int.from_bytes(size, "little"))
        names.append(name.decode("latin-1"))
    return _named(names)


_NO_KEYS = _named(())
_remembered_keys = lru_cache(maxsize=1_000)(_read_keys)  # Most objects in a column have the same keys.
_REMEMBERED = 500
"""The most bytes of an object's keys that are remembered."""


def _part(data: bytes, start: int, size: int) -> bytes:
    """So many bytes. Raises ValueError where there are fewer."""
    part = data[start : start + size]
    if start < 0 or len(part) != size:
        raise ValueError("JSON that ends too early")
    return part


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
