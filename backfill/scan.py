"""The backfill of one table, chunk by chunk: which rows may be emitted, and where to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from backfill.fence import Fence
from backfill.hidden import HiddenSet
from backfill.keys import WINDOW_LIMIT, Key, TouchedKeys, key_from_texts, key_texts
from backfill.window import Window
from protocol.errors import ProtocolError
from protocol.messages import Json, JsonObject

REREAD_LIMIT = 50
"""Rows that chunks may put on the reread list, and that one chunk reads of it. While it is full, chunks do not scan."""

REQUEST_LIMIT = 10_000
"""Length of the reread list, with the rows that the log puts on it, beyond which the table is scanned again instead."""


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """What the next chunk reads, in one snapshot.

    Attributes:
        cursor: The scan's rows come after this key; None for the first ones.
        rereads: Keys of rows to select besides. The scan's condition (a WHERE of the configuration) is not for them.
        scan: Whether the chunk scans at all, or reads only ``rereads``.
    """

    cursor: Key | None
    rereads: tuple[Key, ...]
    scan: bool


@dataclass(frozen=True, slots=True)
class Emission:
    """What to emit of a chunk.

    Attributes:
        keep: The scan's rows to emit, as slices in order; None for all of them.
        keep_rereads: Indices of the reread rows to emit.
        dropped: Scan rows left out because the log has given them, or was given too much to tell.
        dropped_rereads: Reread rows left out for the same reasons.
        cut: Scan rows at the end that the next chunk reads again, because the reread list was full.
        progressed: Whether the backfill is further than before. When not, a smaller chunk may help: it takes less time.
    """

    keep: tuple[slice, ...] | None
    keep_rereads: tuple[int, ...]
    dropped: int
    dropped_rereads: int
    cut: int
    progressed: bool


@dataclass(slots=True)
class _Rows:
    keys: Sequence[Key]
    reread_keys: Sequence[Key]
    end: bool


@dataclass(slots=True)
class _Chunk:
    """A chunk in flight."""

    plan: ChunkPlan
    position: int
    window: Window
    high: int | None = None
    rows: _Rows | None = None
    requested: set[Key] = field(default_factory=set)


class TableScan:
    """The backfill of one table: scanning, then perhaps reading some rows again, then done.

    Of one chunk: ``start``, then in any order ``fenced`` and ``read``, then ``emit`` once ``ready``; or ``abandon`` at
    any time. Everything the log shows of the table from ``start`` to ``emit`` is told by ``observe``,
    ``observe_all`` or ``truncate``, in log order. A chunk that is started in the middle of a transaction is told the
    keys which that transaction has touched so far as well. Calls in a wrong order raise RuntimeError.

    One chunk is in flight at a time; scans of several tables, or of several ranges of one, need not know of each other.

    Args:
        table: The table's id, as in the hidden set.
        reread_limit: Rows that chunks may put on the reread list, and rows of it that one chunk reads.
        window_limit: Keys remembered one by one during a chunk; when the log touches more, the chunk is read again.
        request_limit: Length of the reread list beyond which the table is scanned from the start instead.
    """

    def __init__(
        self,
        table: str,
        *,
        reread_limit: int = REREAD_LIMIT,
        window_limit: int = WINDOW_LIMIT,
        request_limit: int = REQUEST_LIMIT,
    ) -> None:
        if not 1 <= reread_limit <= request_limit:
            raise ValueError("the reread list must hold a row, and request_limit is its longest length")
        self.table = table
        self._reread_limit = reread_limit
        self._window_limit = window_limit
        self._request_limit = request_limit
        self._cursor: Key | None = None
        self._rows = 0
        self._rereads: dict[Key, None] = {}  # Ordered, unlike a set: the state must not depend on hashing.
        self._scanned = False
        self._chunk: _Chunk | None = None

    @classmethod
    def from_state(
        cls,
        table: str,
        state: Json,
        *,
        reread_limit: int = REREAD_LIMIT,
        window_limit: int = WINDOW_LIMIT,
        request_limit: int = REQUEST_LIMIT,
    ) -> Self:
        """Goes on from ``to_state()``; members that a merge patch removed have their first values.

        Raises:
            ProtocolError: TM-BKF-001, the state is not one.
        """
        scan = cls(table, reread_limit=reread_limit, window_limit=window_limit, request_limit=request_limit)
        state = state if isinstance(state, dict) else {"": state}
        cursor, rows = state.get("cursor"), state.get("rows", 0)
        rereads, scanned, done = state.get("rereads", []), state.get("scanned", False), state.get("done", False)
        if (
            not state.keys() <= {"cursor", "rows", "rereads", "scanned", "done"}
            or not (cursor is None or _is_key(cursor))
            or not (type(rows) is int and rows >= 0)
            or not (isinstance(rereads, list) and all(map(_is_key, rereads)))
            or type(scanned) is not bool
            or type(done) is not bool
        ):
            raise ProtocolError("TM-BKF-001", f"the stored backfill state of table {table} is malformed")
        scan._cursor = None if cursor is None else key_from_texts(cursor)
        scan._rows = rows
        scan._rereads = dict.fromkeys(map(key_from_texts, rereads))
        scan._scanned = scanned or done
        return scan

    def to_state(self) -> JsonObject:
        """The state as JSON, without the chunk in flight. A null cursor makes a merge patch remove an old one."""
        return {
            "cursor": None if self._cursor is None else key_texts(self._cursor),
            "rows": self._rows,
            "rereads": [key_texts(key) for key in self._rereads],
            "scanned": self._scanned,
            "done": self.done,
        }

    @property
    def done(self) -> bool:
        """Whether the emitted stream, replayed key by key, gives the table: the log alone keeps it so."""
        return self._scanned and not self._rereads

    @property
    def in_flight(self) -> bool:
        """Whether a chunk was started and neither emitted nor abandoned."""
        return self._chunk is not None

    @property
    def rows(self) -> int:
        """Rows that the scan has covered, emitted or given by the log."""
        return self._rows

    # One chunk.

    def start(self, position: int, hidden: HiddenSet) -> ChunkPlan:
        """Starts a chunk, before its snapshot is opened.

        Args:
            position: How far the reader has emitted the log.
            hidden: The transactions emitted up to there and not known visible.
        """
        if self._chunk is not None or self.done:
            raise RuntimeError(f"table {self.table}: a chunk is in flight, or there is nothing to read")
        rereads = tuple(islice(self._rereads, self._reread_limit))
        plan = ChunkPlan(self._cursor, rereads, not self._scanned and self._has_room())
        self._chunk = _Chunk(plan, position, Window(hidden.entries(), self._window_limit))
        return plan

    def fenced(self, fence: Fence) -> bool:
        """Takes the snapshot's fence, before the rows are read or after.

        Returns:
            False when the chunk cannot be emitted, because every row counts as touched or the fence hides a transaction
            whose keys are unknown: close the snapshot, ``abandon``, and try later.
        """
        chunk = self._in_flight()
        if not chunk.window.take(fence, self.table):
            return False
        self._request_hidden(chunk.window)
        if chunk.window.everything:
            return False
        chunk.high = fence.high
        return True

    def read(self, keys: Sequence[Key], reread_keys: Sequence[Key], end: bool) -> None:
        """Takes what the chunk read in its snapshot.

        Args:
            keys: Keys of the scan's rows, in scan order.
            reread_keys: Keys of the rows that were found again; those not found were deleted.
            end: The scan read fewer rows than it asked for, because there are no more.
        """
        chunk = self._in_flight()
        if not chunk.plan.scan and (keys or end):
            raise RuntimeError(f"table {self.table}: the chunk was to scan nothing")
        chunk.rows = _Rows(keys, reread_keys, end)

    def ready(self, position: int) -> bool:
        """Whether the chunk may be emitted now.

        Args:
            position: Where the reader stands. It must stand between transactions.
        """
        chunk = self._chunk
        if chunk is None or chunk.high is None or chunk.rows is None:
            return False
        return self._passed(position, max(chunk.position, chunk.high))

    def emit(self) -> Emission:
        """Ends a chunk that is ready: what to emit now, with the cursor and the log position in one checkpoint."""
        chunk = self._in_flight()
        rows = chunk.rows
        if rows is None or chunk.high is None:
            raise RuntimeError(f"table {self.table}: the chunk is not ready")
        self._chunk = None
        touched = chunk.window.touched()
        if chunk.window.everything:
            return Emission((), (), len(rows.keys), len(rows.reread_keys), 0, progressed=False)
        came_through = self._settle_rereads(chunk, touched)
        keep_rereads = self._keep_rereads(rows.reread_keys, touched)
        keep, dropped, covered = self._keep(rows.keys, touched)
        self._rows += covered
        if covered:
            self._cursor = rows.keys[covered - 1]
        ended = rows.end and covered == len(rows.keys)
        self._scanned = self._scanned or ended
        return Emission(
            keep=keep,
            keep_rereads=keep_rereads,
            dropped=dropped,
            dropped_rereads=len(rows.reread_keys) - len(keep_rereads),
            cut=len(rows.keys) - covered,
            progressed=covered > 0 or ended or came_through,
        )

    def abandon(self) -> None:
        """Forgets the chunk in flight, if there is one: it is read again later."""
        self._chunk = None

    def restart(self) -> None:
        """Scans the table again from the start, because its identity or key changed. Forgets the chunk in flight."""
        self.abandon()
        self._scan_again()

    # What the log shows of the table.

    def observe(self, key: Key, partial: bool, inserted: bool = False) -> None:
        """The log touched a row; arguments as in ``TouchedKeys.add``."""
        if self._chunk is not None:
            self._chunk.window.observe(key, partial, inserted)
        if partial and inserted:
            self.request_reread(key)

    def observe_all(self, touched: TouchedKeys) -> None:
        """The log touched these rows, all of a transaction or what it has touched so far."""
        if self._chunk is not None:
            self._chunk.window.observe_all(touched)
        if touched.incomplete_forgotten:
            self._scan_again()
        for key in touched.incomplete():
            self.request_reread(key)

    def truncate(self) -> None:
        """The log truncated the table."""
        if self._chunk is not None:
            self._chunk.window.truncate()

    def request_reread(self, key: Key) -> None:
        """A consumer lacks columns of this row, whether a chunk is in flight or not: it must be read again.

        So it is where a change of the key left a large value untouched: the row may have come from where the scan has
        not been to where it has. The same goes for any partial event during a scan in physical order.
        """
        if self._chunk is not None:
            self._chunk.requested.add(key)
        self._request(key)

    def _request(self, key: Key) -> None:
        self._rereads[key] = None
        if len(self._rereads) > self._request_limit:
            self._scan_again()

    # The rules.

    def _passed(self, position: int, high: int) -> bool:
        """Nothing that the snapshot sees is still to come in the log."""
        return position >= high

    def _request_hidden(self, window: Window) -> None:
        """Rows that came to their keys without all columns, unseen by the snapshot, are read again later.

        The log requested them already, but a scan that began again since has forgotten that, and this snapshot shows it
        no row there to drop.
        """
        for key in window.incomplete():
            self._request(key)

    def _has_room(self) -> bool:
        return len(self._rereads) < self._reread_limit

    def _remember(self, key: Key) -> bool:
        """Puts a dropped row on the reread list, if the log did not give all of it; False when the list is full."""
        if key in self._rereads:
            return True
        if not self._has_room():
            return False
        self._rereads[key] = None
        return True

    def _settle_rereads(self, chunk: _Chunk, touched: TouchedKeys) -> bool:
        """Takes off the list what came through: found and emitted, found deleted, or given whole by the log.

        What did not moves to the list's end, so that rows which change all the time do not hold up the others.
        """
        settled = False
        for key in chunk.plan.rereads:
            del self._rereads[key]
            if key not in chunk.requested and (key not in touched or chunk.window.settles(key)):
                settled = True
            else:
                self._rereads[key] = None
        return settled

    def _keep_rereads(self, keys: Sequence[Key], touched: TouchedKeys) -> tuple[int, ...]:
        keep = []
        for index, key in enumerate(keys):
            if key not in touched:
                keep.append(index)
            elif touched.partial(key):
                # Already on the list, unless the server's collation found a row under another spelling of its key.
                self._rereads[key] = None
        return tuple(keep)

    def _keep(self, keys: Sequence[Key], touched: TouchedKeys) -> tuple[tuple[slice, ...] | None, int, int]:
        """Slices of rows to emit, the number of dropped rows, and the number of rows covered by either."""
        if touched.isdisjoint(keys):
            return None, 0, len(keys)
        slices: list[slice] = []
        first = dropped = 0
        covered = len(keys)
        for index, key in enumerate(keys):
            if key not in touched:
                continue
            if touched.partial(key) and not self._remember(key):
                covered = index
                break
            if first < index:
                slices.append(slice(first, index))
            first = index + 1
            dropped += 1
        if first < covered:
            slices.append(slice(first, covered))
        return tuple(slices), dropped, covered

    def _scan_again(self) -> None:
        self._cursor = None
        self._rows = 0
        self._rereads.clear()
        self._scanned = False
        if self._chunk is not None:
            # Its rows come from where the scan no longer is.
            self._chunk.window.spoil()

    def _in_flight(self) -> _Chunk:
        if self._chunk is None:
            raise RuntimeError(f"table {self.table}: no chunk is in flight")
        return self._chunk


def _is_key(texts: Json) -> bool:
    return isinstance(texts, list) and bool(texts) and all(isinstance(text, str) for text in texts)
