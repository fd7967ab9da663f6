"""Writes MySQL's binary JSON, by its documentation (``json_binary.h``), for tests."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

SMALL_LIMIT = 65535


@dataclass(frozen=True)
class Opaque:
    """A value of an SQL type: the type's number and its bytes."""

    kind: int
    data: bytes


def stored(value: Any, *, large: bool = False) -> bytes:
    """A whole value: its type and its bytes. ``large`` has four-byte offsets where two would do."""
    kind, data = _value(value, large=large)
    return bytes([kind]) + data


def _length(size: int) -> bytes:
    out = bytearray()
    while True:
        out.append(size & 127 | (128 if size > 127 else 0))
        size >>= 7
        if not size:
            return bytes(out)


def _value(value: Any, *, large: bool) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return 4, bytes([{None: 0, True: 1, False: 2}[value]])
    if isinstance(value, int):
        for kind, code, low, high in (
            (5, "<h", -(1 << 15), (1 << 15) - 1),
            (6, "<H", 0, (1 << 16) - 1),
            (7, "<i", -(1 << 31), (1 << 31) - 1),
            (8, "<I", 0, (1 << 32) - 1),
            (9, "<q", -(1 << 63), (1 << 63) - 1),
            (10, "<Q", 0, (1 << 64) - 1),
        ):
            if low <= value <= high:
                return kind, struct.pack(code, value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value)
    if isinstance(value, str):
        text = value.encode()
        return 12, _length(len(text)) + text
    if isinstance(value, Opaque):
        return 15, bytes([value.kind]) + _length(len(value.data)) + value.data
    small = _container(value, large=False) if not large else b""
    if small and len(small) <= SMALL_LIMIT:
        return (0 if isinstance(value, dict) else 2), small
    return (1 if isinstance(value, dict) else 3), _container(value, large=True)


def _container(value: Any, *, large: bool) -> bytes:
    """Count, size, entries of keys, entries of values, keys, values; offsets are from the count on."""
    width, code = (4, "<I") if large else (2, "<H")
    members = (
        sorted(value.items(), key=lambda m: (len(m[0].encode()), m[0].encode())) if isinstance(value, dict) else []
    )
    keys = [key.encode() for key, _ in members]
    children = [child for _, child in members] if isinstance(value, dict) else list(value)
    at = 2 * width + len(keys) * (width + 2) + len(children) * (1 + width)
    key_entries, value_entries, tail = b"", b"", b""
    for key in keys:
        key_entries += struct.pack(code, at & (1 << 8 * width) - 1) + struct.pack("<H", len(key))
        at += len(key)
        tail += key
    for child in children:
        kind, data = _value(child, large=large)
        if kind in (4, 5, 6) or (large and kind in (7, 8)):
            value_entries += bytes([kind]) + data.ljust(width, b"\0")
            continue
        value_entries += bytes([kind]) + struct.pack(code, at & (1 << 8 * width) - 1)
        at += len(data)
        tail += data
    head = struct.pack(code, len(children)) + struct.pack(code, at & (1 << 8 * width) - 1)
    return head + key_entries + value_entries + tail
