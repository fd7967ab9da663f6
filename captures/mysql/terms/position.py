"""Positions in the log, and their text in the state."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from tidemark.protocol.errors import SourceError

OFFSET_BITS = 40
"""An offset's share of a position as an integer: files of up to a terabyte."""

FIRST_EVENT = 4
"""Where a file's first event begins, which has the time when the file was created."""

_NUMBERED = re.compile(r".*\.(\d+)")
_TEXT = re.compile(r"([^;]*):(\d+);([^;]*)(?:;([^;]*))?(?:;(\d+)-(\d+)-(\d+))?")
_PREPARED = re.compile(r"(x'[0-9a-f]*',x'[0-9a-f]*',-?\d+)@([^;@]*):(\d+)@([^ @]*)@([^ @]*)")


class PreparedPlace(NamedTuple):
    """Where a prepared XA transaction begins in the log.

    Attributes:
        file: Of the server whose log it was read from; empty after a move to another one.
        gtid: Of the group that prepares it; empty without GTIDs.
        before: MariaDB: the last GTIDs before it.
    """

    file: str
    offset: int
    gtid: str = ""
    before: str = ""


class LastEvent(NamedTuple):
    """Identifies, without GTIDs, the log that was read.

    Attributes:
        start: Where the event before a position begins in its file; 0 if there is none.
        checksum: CRC32 of its header up to its size, and of its body.
        created: When the server created the file, in seconds since 1970; 0 if it was not read from its beginning.
    """

    start: int
    checksum: int
    created: int


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position between two transactions.

    Attributes:
        file: Of the binary log; empty when only the GTIDs are known, as after a move to another server.
        offset: In bytes, in that file.
        gtids: The set of every transaction before (MySQL), the last one of each domain (MariaDB); empty without GTIDs.
        prepared: Where the XA transactions begin that were prepared before this position and have not ended: their rows
            are before it, and become documents after it.
        last: The event before it; None with GTIDs, or if it is unknown.
    """

    file: str
    offset: int
    gtids: str = ""
    prepared: dict[str, PreparedPlace] = field(default_factory=dict)
    last: LastEvent | None = None

    @property
    def order(self) -> int:
        """The position as the engine knows it, which grows with the log of one server. 0 if the file is unknown."""
        return position(self.file, self.offset)

    def elsewhere(self) -> LogPosition:
        """The position by GTIDs, for another server, or for files that have other names now."""
        prepared = {xid: place._replace(file="", offset=0) for xid, place in self.prepared.items()}
        return LogPosition("", 0, self.gtids, prepared)

    def __str__(self) -> str:
        text = f"{self.file}:{self.offset};{self.gtids}"
        prepared = " ".join(
            f"{xid}@{file}:{offset}@{gtid}@{before}" for xid, (file, offset, gtid, before) in self.prepared.items()
        )
        if self.last is not None:
            return f"{text};{prepared};{'-'.join(map(str, self.last))}"
        return f"{text};{prepared}" if prepared else text


def position(file: str, offset: int) -> int:
    """The number of the file and the offset as one integer. Raises SourceError ``TM-MY-055`` for a file without one."""
    if not file:
        return 0
    number = _NUMBERED.fullmatch(file)
    if number is None:
        raise SourceError("TM-MY-055", f"{file[:80]!r} is not the name of a binary log file")
    return int(number[1]) << OFFSET_BITS | offset


def parse_position(text: str) -> LogPosition:
    """The inverse of ``str``. Raises SourceError ``TM-MY-055``."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise SourceError("TM-MY-055", f"{text[:80]!r} is not a position in a binary log")
    file, offset, gtids, prepared, *event = match.groups()
    found = _PREPARED.findall(prepared or "")
    if prepared and len(found) != prepared.count(" ") + 1:
        raise SourceError("TM-MY-055", f"{text[:80]!r} is not a position in a binary log")
    places = {xid: PreparedPlace(at, int(place), gtid, before) for xid, at, place, gtid, before in found}
    last = None if event[0] is None else LastEvent(*map(int, event))
    return LogPosition(file, int(offset), gtids, places, last)
