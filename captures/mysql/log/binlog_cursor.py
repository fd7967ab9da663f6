"""The reading position: the file and offset of the present event, and the end of the last whole transaction."""

from __future__ import annotations

from zlib import crc32

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.log.events import FINGERPRINT, HEADER, ROW_EVENTS
from tidemark.captures.mysql.log.open_transaction import Prepared
from tidemark.captures.mysql.terms.gtid import Gtids, MariadbGtids, MysqlGtids
from tidemark.captures.mysql.terms.position import FIRST_EVENT, LastEvent, LogPosition, PreparedPlace, position
from tidemark.protocol.errors import SourceError

_FILE_EVENTS = frozenset((events.ROTATE, events.FORMAT_DESCRIPTION))
_WITHIN_TRANSACTIONS = frozenset((events.TABLE_MAP, *ROW_EVENTS))

_UNCHANGING = 13
"""Bytes of an event's header that never change: its position and flags differ when the event is sent."""

_SIZE = 9
"""Where in an event's header its size is."""

_LARGE = 1 << 24
"""Only the beginning of an event of this size is compared, because the event does not arrive as a whole."""


class LogPlace:
    """The position of the latest event of one connection.

    Attributes:
        offset: Where in it the event ends.
        base: The file's begin, as ``tidemark.captures.mysql.terms.position.position`` has it.
    """

    def __init__(self, start: LogPosition) -> None:
        self.file = start.file
        self.offset = self.event_start = start.offset
        self.base = position(start.file, 0)
        # The server may send events from before the position: its protocol has no room for large offsets.
        self._passed_to = start.order if start.file and not start.gtids else 0
        self._silence = (0, 0)
        self._expected = None if start.gtids else start.last
        self._created = 0
        self._noted = b"", 0, 0

    @property
    def last(self) -> LastEvent:
        """The event that was noted last."""
        data, start, end = self._noted
        if not data or self.event_start <= FIRST_EVENT:
            return LastEvent(0, 0, self._created)
        view = memoryview(data)
        if int.from_bytes(view[start + _SIZE : start + _SIZE + 4], "little") >= _LARGE:
            end = min(end, start + HEADER + FINGERPRINT)
        checksum = crc32(view[start + HEADER : end], crc32(view[start : start + _UNCHANGING]))
        return LastEvent(self.event_start, checksum, self._created)

    def __str__(self) -> str:
        return f"{self.file}:{self.event_start}"

    @property
    def order(self) -> int:
        """The event's end, as the engine knows it."""
        return self.base + self.offset

    def move(self, kind: int, size: int, log_position: int) -> bool:
        """An event of ``size`` bytes ends at ``log_position``, which has the lower 32 bits of its offset.

        It is 0 for events that are not in the log, and, unless ``binlog_legacy_event_pos`` is set, within transactions
        of MariaDB 11.4 and later. Those events follow one another, except for some that replicas are not sent.

        Returns:
            Whether to skip it: it lies before the requested position, and does not describe its file.
        """
        if log_position:
            if kind == events.FORMAT_DESCRIPTION and self.offset > log_position:
                return False  # The file's first event is sent again before one in its middle.
            self.offset += log_position - self.offset & 0xFFFFFFFF
        elif kind in _WITHIN_TRANSACTIONS:
            self.offset += size
        else:
            return False
        self.event_start = self.offset - size
        return self._passed_to > self.base + self.event_start and kind not in _FILE_EVENTS

    def note(self, kind: int, data: bytes, start: int, end: int, *, passed: bool) -> None:
        """Notes an event, whose header is at ``start`` of ``data``; ``passed``: it lies before the requested position.

        Raises LostPosition ``TM-MY-016`` when the event before that position is not the one that was read.
        """
        self._noted = data, start, end
        expected = self._expected
        if expected is None or not expected.start or kind in _FILE_EVENTS or self.event_start < expected.start:
            return
        self._expected = None
        if not passed or self.last[:2] != expected[:2]:
            raise self._another()

    def created(self, timestamp: int) -> None:
        """Notes when the file was created. Raises LostPosition ``TM-MY-016`` when it is not the file that was read."""
        self._created = timestamp
        expected = self._expected
        if expected is not None and expected.created not in (0, timestamp):
            raise self._another()

    def _another(self) -> LostPosition:
        return LostPosition("TM-MY-016", f"the log at {self} is not the log that the capture has read: it was reset")

    def rotate(self, file: str, offset: int) -> None:
        """The log continues in another file."""
        if file != self.file:
            self._expected, self._created, self._noted = None, 0, (b"", 0, 0)
        self.file, self.offset = file, offset
        self.base = position(file, 0)

    def sent_up_to(self, file: str, offset: int) -> None:
        """The server skipped events that are not for replicas."""
        if file == self.file and offset > self.offset:
            self.offset = offset

    def silent(self, end: int) -> None:
        """The server says that it has nothing to send, while its log ends at ``end``: here, or slightly further.

        After RESET MASTER it keeps saying so at the end of a deleted file, while it writes a new one. Raises
        SourceError ``TM-MY-020`` then: the log is opened again, and the server says whether it has the position.
        """
        here = self.order
        was_here, was_end = self._silence
        self._silence = here, end
        if end < here or was_here == here < was_end:
            raise SourceError(
                "TM-MY-020", f"the server sends nothing after {self}, although its log does not end there"
            )


class ReadTo:
    """The end of the last whole transaction, for the state.

    Attributes:
        gtids: Of all transactions before.
        keeps_gtids: They are followed. They are not on MySQL if GTIDs were switched on or off during the capture: a set
            that lacks the transactions before would request them again.
        prepared: XA transactions by their xids, until they are committed or rolled back.
    """

    def __init__(self, start: LogPosition, *, mariadb: bool) -> None:
        self.gtids: Gtids = (MariadbGtids if mariadb else MysqlGtids)(start.gtids)
        self.keeps_gtids = mariadb or bool(start.gtids)
        self.prepared = {xid: Prepared(place, None) for xid, place in start.prepared.items()}
        self._order = start.order
        self._boundary = self.begun = start.file, start.offset
        self._last = start.last

    def forget_gtids(self) -> None:
        """GTIDs do not say what was read any more."""
        self.gtids, self.keeps_gtids = type(self.gtids)(), False

    @property
    def log_position(self) -> LogPosition:
        """For the state."""
        prepared = {xid: prepared.place for xid, prepared in self.prepared.items()}
        return LogPosition(*self._boundary, str(self.gtids), prepared, None if self.keeps_gtids else self._last)

    def boundary(self, place: LogPlace) -> int:
        """A transaction ends here. Returns the position as the engine knows it."""
        order = place.order
        if order > self._order:
            self._order = order
            self._boundary = place.file, place.offset
            if not self.keeps_gtids:
                self._last = place.last
        return self._order

    def prepared_here(self, gtid: str) -> Prepared:
        """The present transaction as one that is prepared."""
        before = str(self.gtids) if isinstance(self.gtids, MariadbGtids) else ""
        return Prepared(PreparedPlace(*self.begun, gtid, before))

    def over(self, gtid: str, ends: str) -> None:
        """A transaction has ended; ``ends`` is the xid of the prepared one that it commits or rolls back."""
        if gtid and self.keeps_gtids:
            self.gtids.add(gtid)
        self.prepared.pop(ends, None)
