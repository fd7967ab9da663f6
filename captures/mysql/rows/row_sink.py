"""The destination of the rows of an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.captures.mysql.terms.event_bytes import ByteText


@dataclass(slots=True)
class Sink:
    """The destination of an event's lines and keys.

    Attributes:
        lines: Captured lines, those of one event in one piece.
        touched: Takes the keys that the event touched; None if they are not recorded.
        incomplete: If keys are not recorded, takes those that rows got without all of their columns.
        split: The latest row became two events, with the numbers of two rows.
    """

    lines: list[bytes]
    touched: TouchedKeys | None
    incomplete: list[Key]
    split: bool = False


Write = Callable[[bytes, ByteText, int, int, tuple[str, str], int, list[str], Sink], tuple[int, int]]
"""Writes the rows between two places of an event.

Takes the event's ``data`` and ``text``, begin and end; the JSON of ``_meta.source`` before and after the number of a
row; the first row's number; where lines go, and the sink for keys. Returns where it ended, and the number of the row
after the last.
"""

WriteRow = Callable[[bytes, ByteText, int, str, list[str], Sink], int]
"""Writes one row, or the two images of one update.

Takes the event's ``data`` and ``text``, where the row begins, the JSON of ``_meta.source``, where lines go, and the
sink for keys. Returns where the row ends.
"""


def next_place(place: str) -> str:
    """``_meta.source`` with the number of the next row, from its beginning to any place behind the cursor."""
    head, mark, rest = place.partition('"cursor":"')
    cursor, quote, tail = rest.partition('"')
    position, colon, row = cursor.rpartition(":")
    return f"{head}{mark}{position}{colon}{int(row) + 1}{quote}{tail}"


def one_by_one(write: WriteRow) -> Write:
    """Writes an event's rows by a function for each."""

    def rows(
        data: bytes,
        text: ByteText,
        at: int,
        end: int,
        source: tuple[str, str],
        row: int,
        documents: list[str],
        sink: Sink,
    ) -> tuple[int, int]:
        before, after = source
        while at < end:
            at = write(data, text, at, f"{before}{row}{after}", documents, sink)
            row += 2 if sink.split else 1
            sink.split = False
        return at, row

    return rows
