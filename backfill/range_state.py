"""The backfill of one table as the connector's state holds it.

::

    {"rows": 120000,                                  rows that scans have covered
     "ranges": [{"cursor": ["17"], "until": ["40"]},  the ranges still to be scanned, in the table's order
                {"cursor": ["52"]}],                  up to the table's end
     "rereads": [["3"]],                              keys of rows to read again
     "overflows": 0,                                  times that too many of these caused a new scan of the table
     "compared": {"cursor": ["9"], "compared": true}, the range whose rows are still to be compared, if there is one
     "done": false}

A range may have a ``where``. A range that is scanned by pages has a ``file``, and pages for its cursor and until. A
range that a command asked for is ``asked``, and ``inclusive`` while the row with its cursor must be read, too. A key is
the list of its columns' texts. Every member but ``compared`` is always present.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from tidemark.backfill.keys import Key, key_from_texts, key_texts
from tidemark.backfill.range_scan import Range
from tidemark.backfill.rereads import state_size
from tidemark.protocol.errors import ProtocolError
from tidemark.protocol.messages import Json, JsonObject

ORDINARY_KEY = 46
"""Bytes in the state of a key of 40 bytes."""

_MEMBERS = {"rows", "ranges", "rereads", "overflows", "compared", "done"}
_MEMBERS_OF_A_SINGLE_SCAN = {"cursor", "scanned"}
_MEMBERS_OF_A_RANGE = {"cursor", "until", "where", "file", "inclusive", "asked", "compared"}


@dataclass(frozen=True, slots=True)
class Pages:
    """The file that a physical scan reads.

    Attributes:
        file: Its name (a PostgreSQL relfilenode), which changes when the table is rewritten.
        end: The page before which the scan ends: rows of newer pages come from the log. None if the reader knows it.
    """

    file: str
    end: Key | None


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table's backfill.

    Attributes:
        rows: Rows that scans have covered.
        ranges: The ranges still to be scanned.
        rereads: Keys of rows to read again.
        overflows: Times in a row that the table was scanned again because there were too many of these.
        compared: The range whose rows are still to be compared; None without one.
    """

    rows: int
    ranges: tuple[Range, ...]
    rereads: tuple[Key, ...]
    overflows: int
    compared: Range | None = None

    @classmethod
    def parse(cls, table: str, state: Json) -> Self | None:
        """Reads a state; None if it is empty, like a new table's.

        A state without ``ranges`` is of an earlier version, with one scan for a table. Its members stay beside the
        present ones after a merge patch.

        Raises:
            ProtocolError: ``TM-BKF-001`` the state is invalid.
        """
        try:
            return cls._parse(_object(state, _MEMBERS | _MEMBERS_OF_A_SINGLE_SCAN))
        except (TypeError, ValueError):
            raise ProtocolError("TM-BKF-001", f"the stored backfill state of table {table} is malformed") from None

    @classmethod
    def _parse(cls, state: JsonObject) -> Self | None:
        if not state:
            return None
        cursor = _optional_key(state.get("cursor"))
        done = _boolean(state.get("done", False))
        scanned = _boolean(state.get("scanned", False)) or done
        ranges: tuple[Range, ...] = () if scanned else (Range(cursor),)
        if "ranges" in state:
            ranges = tuple(map(_range, _list(state["ranges"])))
        rereads = tuple(map(_key, _list(state.get("rereads", []))))
        compared = None if state.get("compared") is None else _range(state["compared"])
        return cls(_count(state.get("rows", 0)), ranges, rereads, _count(state.get("overflows", 0)), compared)

    def to_json(self) -> JsonObject:
        return {
            "rows": self.rows,
            "ranges": [_range_json(each) for each in self.ranges],
            "rereads": [key_texts(key) for key in self.rereads],
            "overflows": self.overflows,
            **({} if self.compared is None else {"compared": _range_json(self.compared)}),
            "done": not self.ranges and not self.rereads,
        }


def range_size(what: Range, key_size: int) -> int:
    """The most bytes that a range takes in the state, with ``key_size`` bytes for each key."""
    return len(json.dumps(_range_json(replace(what, cursor=b"", until=b"")))) + 2 * key_size


def room(what: Range, bounds: Sequence[Key], others: Sequence[Range], limit: int) -> int:
    """The number of ranges like ``what``, cut at ``bounds``, for which the state still has room beside ``others``.

    The size of a range assumes that its cursor becomes as long as the longest key known here.

    Args:
        limit: Bytes of all ranges in the state.
    """
    ranges = [what, *others]
    keys = [*bounds, *(key for each in ranges for key in (each.cursor, each.until) if key is not None)]
    longest = max([ORDINARY_KEY, *map(state_size, keys)])
    taken = sum(range_size(each, longest) for each in others)
    return max(0, (limit - taken) // range_size(what, longest))


def _range_json(what: Range) -> JsonObject:
    members: JsonObject = {
        "cursor": None if what.cursor is None else key_texts(what.cursor),
        "until": None if what.until is None else key_texts(what.until),
        "where": what.where,
        "file": what.file,
        "inclusive": what.inclusive or None,
        "asked": what.asked or None,
        "compared": what.compared or None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _range(value: Json) -> Range:
    members = _object(value, _MEMBERS_OF_A_RANGE)
    return Range(
        _optional_key(members.get("cursor")),
        _optional_key(members.get("until")),
        _optional_text(members.get("where")),
        _optional_text(members.get("file")),
        _boolean(members.get("inclusive", False)),
        _boolean(members.get("asked", False)),
        _boolean(members.get("compared", False)),
    )


def _key(value: Json) -> Key:
    texts = _list(value)
    if not texts or not all(isinstance(text, str) and "\0" not in text for text in texts):
        raise TypeError("a key is a list of texts")
    return key_from_texts([str(text) for text in texts])


def _optional_key(value: Json) -> Key | None:
    return None if value is None else _key(value)


def _optional_text(value: Json) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _object(value: Json, members: set[str]) -> JsonObject:
    if not isinstance(value, dict) or not value.keys() <= members:
        raise TypeError("not an object with these members")
    return value


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _count(value: Json) -> int:
    if type(value) is not int or value < 0:
        raise TypeError("not a count")
    return value
