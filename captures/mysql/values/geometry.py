"""Geometries as well-known text (OGC 06-103r4, 7) from the form in which MySQL and MariaDB store them.

That is four bytes of SRID and then well-known binary (8.2 there). Coordinates stay in the order in which they are
stored, x before y; MySQL's own ``ST_AsText`` swaps them for some reference systems.
"""

from __future__ import annotations

import struct

_SRID_BYTES = 4
_NAMES = {
    1: "POINT",
    2: "LINESTRING",
    3: "POLYGON",
    4: "MULTIPOINT",
    5: "MULTILINESTRING",
    6: "MULTIPOLYGON",
    7: "GEOMETRYCOLLECTION",
}
_POINT, _LINESTRING, _POLYGON, _COLLECTION = 1, 2, 3, 7


def geometry(text: str) -> str:
    """A string in well-known text, from a value's bytes as a byte text.

    Raises ValueError or struct.error where that is not a geometry.
    """
    data = text.encode("latin-1")
    reader = _Reader(data, _SRID_BYTES)
    written = reader.tagged()
    if reader.place != len(data):
        raise ValueError("bytes after the geometry")
    return f'"{written}"'


class _Reader:
    def __init__(self, data: bytes, place: int) -> None:
        self._data = data
        self.place = place

    def tagged(self) -> str:
        """A geometry with its name."""
        order, kind = self._header()
        return f"{_NAMES[kind]}{self._body(order, kind)}"

    def _header(self) -> tuple[str, int]:
        order = "<" if self._data[self.place] else ">"
        (kind,) = struct.unpack_from(f"{order}I", self._data, self.place + 1)
        if kind not in _NAMES:
            raise ValueError("an unknown kind of geometry")
        self.place += 5
        return order, kind

    def _body(self, order: str, kind: int) -> str:
        if kind == _POINT:
            return f"({self._points(order, 1)})"
        (count,) = struct.unpack_from(f"{order}I", self._data, self.place)
        self.place += 4
        if kind == _LINESTRING:
            return f"({self._points(order, count)})" if count else " EMPTY"
        if kind == _POLYGON:
            parts = [self._ring(order) for _ in range(count)]
        elif kind == _COLLECTION:
            parts = [self.tagged() for _ in range(count)]
        else:
            parts = [self._body(*self._header()) for _ in range(count)]
        return f"({','.join(parts)})" if parts else " EMPTY"

    def _ring(self, order: str) -> str:
        (count,) = struct.unpack_from(f"{order}I", self._data, self.place)
        self.place += 4
        return f"({self._points(order, count)})"

    def _points(self, order: str, count: int) -> str:
        values = struct.unpack_from(f"{order}{2 * count}d", self._data, self.place)
        self.place += 16 * count
        numbers = [repr(value + 0.0).removesuffix(".0") for value in values]
        return ",".join(f"{x} {y}" for x, y in zip(numbers[::2], numbers[1::2], strict=True))
