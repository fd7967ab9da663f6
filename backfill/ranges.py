"""The backfill of one table: scans over its ranges, rows to read again, and the state to resume from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Self

from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.backfill.limits import LIMITS, Limits
from tidemark.backfill.range_scan import Range, RangeScan
from tidemark.backfill.range_state import Pages, TableState, room
from tidemark.backfill.rereads import RereadList
from tidemark.backfill.window import Window
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Json, JsonObject

_FINISHED = attrgetter("finished")


class TableRanges:
    """The backfill of one table.

    Chunks are started with the scans in ``idle()``, as many at a time as there are readers. The caller passes all keys
    that the log touches in the table, in log order, to ``observe_all`` or ``truncate``, before a chunk is
    emitted at a later position. This includes the keys that a transaction touched before a chunk was started in its
    middle. The reread list belongs to the table and not to a range: keys are not compared here, so the range of a key
    is unknown. Any chunk reads them.

    Attributes:
        rewritten: The state given to ``from_state`` was of another file, so the table is scanned again.
        comparison: The scan whose rows are compared; None without one.
        named: The scan of rows whose keys somebody named; None without one. It ends when the table is scanned again.

    Args:
        table: The table's id, as in the hidden set.
        pages: Scan by pages of this file; None: by key. If the end is fixed here, every event that lacks columns counts
            from now on, and not only from the first chunk.
        keyless: The table's rows have no keys. Then the window has only TRUNCATE, and no row is read again. The SELECT
            must leave out rows that come from the log, by their inserting transaction.
        limits: The limits of the table.
    """

    def __init__(
        self, table: str, *, pages: Pages | None = None, keyless: bool = False, limits: Limits = LIMITS
    ) -> None:
        if keyless and pages is None:
            raise ValueError(f"table {table}: rows without a key can only be scanned by pages")
        self.table = table
        self.rewritten = False
        self._pages = pages
        self._keyless = keyless
        self._limits = limits
        self._rows = 0
        self._overflows = 0
        self._rereads = RereadList(self._overflow, limits)
        self._rereader = self._scan(Range(), finished=True)
        self._scans = [self._scan(self._whole())]
        self.comparison: RangeScan | None = None
        self.named: RangeScan | None = None

    @classmethod
    def from_state(
        cls,
        table: str,
        state: Json,
        *,
        pages: Pages | None = None,
        keyless: bool = False,
        limits: Limits = LIMITS,
    ) -> Self:
        """Resumes from ``to_state()``, or from the state of the single scan of earlier versions.

        A physical scan of another file than ``pages`` starts again. A scan by key continues by key, whatever ``pages``.

        Raises:
            ProtocolError: ``TM-BKF-001`` the state is invalid.
        """
        ranges = cls(table, pages=pages, keyless=keyless, limits=limits)
        stored = TableState.parse(table, state)
        if stored is None:
            return ranges
        ranges.rewritten = ranges._reads_another_file(stored.ranges)
        if ranges.rewritten:
            return ranges
        ranges._rows, ranges._overflows = stored.rows, stored.overflows
        ranges._scans = [ranges._scan(each) for each in stored.ranges]
        ranges.comparison = None if stored.compared is None else ranges._scan(stored.compared)
        for key in stored.rereads:
            ranges._rereads.request(key)
        return ranges

    def to_state(self) -> JsonObject:
        """The state as JSON, without the chunks in flight.

        While the reread list is too long for the state, which only the log can cause, this is the state of a table that
        must be scanned again, because a session that resumed from it would lack some rereads.
        """
        self._prune()
        if not self._rereads.fits:
            return TableState(0, (Range(),), (), self._overflows + 1).to_json()
        unfinished = tuple(scan.range for scan in self._scans if not scan.finished)
        compared = self.comparison.range if self.comparison is not None and self.compares else None
        return TableState(self.rows, unfinished, tuple(self._rereads), self._overflows, compared).to_json()

    @property
    def done(self) -> bool:
        """Whether the emitted events, replayed by key, give the whole table: from then on the log is enough."""
        return self.scanned and not self._rereads

    @property
    def scanned(self) -> bool:
        """Whether every scan is finished; some rows may still have to be read again by their keys."""
        # Asked of every table in every step of an engine: a generator would take twice as long.
        return all(map(_FINISHED, self._scans))

    @property
    def compares(self) -> bool:
        """Whether a scan is unfinished whose rows are compared."""
        return self.comparison is not None and not self.comparison.finished

    @property
    def reads_more(self) -> bool:
        """Whether rows are to be read that the backfill does not need: to be compared, or named by somebody."""
        return self.compares or self.reads_named

    @property
    def reads_named(self) -> bool:
        """Whether rows that somebody named are still to be read, or to come through."""
        return self.named is not None and self.named.awaits_rereads

    @property
    def by_pages(self) -> bool:
        """Whether a scan by pages is unfinished."""
        return any(scan.physical and not scan.finished for scan in self._scans)

    @property
    def rows(self) -> int:
        """Rows that scans have covered, emitted or given by the log."""
        return self._rows + sum(scan.rows for scan in self._scans)

    @property
    def scans(self) -> tuple[RangeScan, ...]:
        """All unfinished scans, in the table's order, and others with a chunk in flight."""
        self._prune()
        return (*self._scans, *([self._rereader] if self._rereader.in_flight else ()))

    @property
    def failure(self) -> SourceError | None:
        """Why no chunk may be started, until ``retry`` or ``restart``; None without a failure."""
        if self._overflows <= self._limits.overflows:
            return None
        return SourceError(
            "TM-BKF-003",
            f"in {self._overflows} scans in a row, events that lacked columns gave too many rows new keys",
        )

    def idle(self) -> list[RangeScan]:
        """The scans that may start a chunk now.

        First those that a command asked for, then the others in order, then that of named rows, and the one whose rows
        are compared.
        """
        self._prune()
        if self.failure is not None:
            return []
        unfinished = [scan for scan in self._scans if not scan.finished]
        if unfinished:
            idle = [scan for scan in unfinished if not scan.in_flight]
            return sorted(idle, key=lambda scan: not scan.range.asked)
        if self._rereads.idle and not self._rereader.in_flight:
            return [self._rereader]
        return [scan for scan in (self.named, self.comparison) if scan is not None and scan.startable][:1]

    # Steering.

    def split(self, scan: RangeScan, bounds: Sequence[Key]) -> list[RangeScan]:
        """Cuts the rest of a scan's range, also while a chunk of it is in flight.

        The scan keeps its chunk and the part up to the first bound. If that bound is not after ``scan.ahead``, the
        chunk may reach beyond it. Then the next scan emits some of its rows a second time, which is correct and costs
        at most that one chunk; no keys are compared to prevent it. Rows without keys must not be emitted twice: then
        nothing is split.

        Args:
            scan: One of ``scans``. A scan that is no longer among them is not split: its range is finished.
            bounds: Keys, beginnings of keys, or pages, in the table's order, between cursor and until of
                ``scan.range``. If the state has no room for all of these ranges, only some of the bounds are used.

        Returns:
            The new scans.
        """
        self._prune()
        if scan not in self._scans or scan.finished or not self._may_split(scan):
            return []
        room = self._room(scan.range, bounds)
        if room < len(bounds):
            bounds = [bounds[(index + 1) * len(bounds) // (room + 1)] for index in range(room)]
        if not bounds:
            return []
        what = scan.range
        ends = [*bounds[1:], what.until]
        rest = replace(what, inclusive=False)
        parts = [self._scan(replace(rest, cursor=each, until=end)) for each, end in zip(bounds, ends, strict=True)]
        scan.range = replace(what, until=bounds[0])
        place = self._scans.index(scan) + 1
        self._scans[place:place] = parts
        return parts

    def add(self, first: Key | None = None, until: Key | None = None, where: str | None = None) -> RangeScan:
        """Scans some rows, or all, in addition to other scans, even if the table is done.

        The scan is by key. Rows that other scans read as well are emitted again.

        Args:
            first: The first key, with all its columns; its row is read even if it does not meet ``where``.
            until: As ``Range.until``.
            where: As ``Range.where``.

        Raises:
            SourceError: ``TM-BKF-004`` the state has no room for it now.
        """
        self._prune()
        what = Range(first, until, where, inclusive=first is not None, asked=True)
        if self._keyless:
            raise ValueError(f"table {self.table}: rows without a key cannot be scanned partially")
        if self._room(what, ()) < 1:
            raise SourceError("TM-BKF-004", f"table {self.table}: there is no room for another range in its state")
        scan = self._scan(what)
        self._scans.append(scan)
        return scan

    def compare(self) -> None:
        """Scans all rows once more, by key, so that they can be compared with what consumers have.

        It ends with ``restart``, and whenever the table is scanned again: see ``compares``.
        """
        if self._keyless:
            raise ValueError(f"table {self.table}: rows without a key cannot be compared")
        self.end_comparison()
        self.comparison = self._scan(Range(asked=True, compared=True))

    def read_named(self, keys: Iterable[Key]) -> None:
        """Reads these rows again: see ``Emission.gone``. The state does not have their keys."""
        self.end_named()
        rereads = RereadList(self._overflow, self._limits)
        self.named = RangeScan(self.table, Range(), rereads, finished=True, limits=self._limits)
        for key in keys:
            rereads.request(key)

    def end_named(self) -> None:
        """Reads no more of the rows that were named."""
        if self.named is not None:
            self.named.cancel()
        self.named = None

    def end_comparison(self) -> None:
        """Discards the scan whose rows are compared, and its chunk."""
        if self.comparison is not None:
            self.comparison.cancel()

    def restart(self, pages: Pages | None = None) -> None:
        """Scans the whole table again: on request, or because its identity, key or file changed.

        Discards the chunks in flight, the reread list, and any failure.

        Args:
            pages: As for a new table.
        """
        self.abandon()
        self._pages = pages
        self._overflows = 0
        self._begin(self._whole())

    def retry(self) -> None:
        """Retries after a ``failure``, whose cause may have been fixed."""
        self._overflows = 0

    def abandon(self) -> None:
        """Discards all chunks in flight: they are read again later."""
        for scan in self._all():
            scan.abandon()

    # Events of the log.

    def observe_all(self, touched: TouchedKeys) -> None:
        """The log touched these rows: those of a whole transaction, or of its events so far."""
        for window in self._windows():
            window.observe_all(touched)
        if self._keyless or not self._begun:
            return
        if touched.incomplete_forgotten or (touched.partial_forgotten and self._may_move):
            self._overflow()
            return
        for key in touched.partials() if self._may_move else touched.incomplete():
            self.request_reread(key)

    def truncate(self) -> None:
        """The log truncated the table, or it is unknown which rows it touched."""
        for window in self._windows():
            window.truncate()

    def request_reread(self, key: Key) -> None:
        """A consumer lacks columns of this row: it is read again, in a snapshot that is opened from now on.

        For example, a change of the key left a large value untouched: the row may have moved from a part not yet
        scanned to one already scanned. ``observe_all`` handles this case itself. This method is for
        a transaction whose other keys are unknown, after ``truncate``.
        """
        if not self._keyless and self._begun:
            self._rereads.request(key)

    def _windows(self) -> list[Window]:
        """The windows of all chunks in flight."""
        windows = (scan.window for scan in self._all())
        return [window for window in windows if window is not None]

    def _all(self) -> list[RangeScan]:
        others = [scan for scan in (self.named, self.comparison) if scan is not None]
        return [*self._scans, self._rereader, *others]

    # The rules.

    @property
    def _begun(self) -> bool:
        """Whether scans may miss rows of which the log gives only a part from now on.

        Before the first chunk of a scan of the whole table they do not: the scan will find such rows. A physical scan
        with a fixed last page does not find rows that move beyond that page.
        """
        unfinished = [scan for scan in self._scans if not scan.finished]
        if len(unfinished) != 1 or unfinished[0].in_flight:
            return True
        what = unfinished[0].range
        return what.cursor is not None or what.until is not None or what.where is not None

    @property
    def _may_move(self) -> bool:
        """Whether an update may move a row from an unscanned place to a scanned one: in physical order any update may.

        So every partial event during a physical scan requests a reread of its row.
        """
        return not self._keyless and self.by_pages

    def _may_split(self, scan: RangeScan) -> bool:
        """Whether a scan may be split: without keys not while a chunk is in flight, which may reach beyond a bound."""
        return not (self._keyless and scan.in_flight)

    def _overflow(self) -> None:
        """The reread list is full: only a scan of the whole table finds all such rows.

        It is a scan by key, in which only a change of the key moves a row. The number of repetitions is limited.
        """
        self._overflows += 1
        self._begin(Range())

    def _begin(self, whole: Range) -> None:
        for scan in self._all():
            scan.cancel()
        self.named = None
        self._rows = 0
        self._rereads.clear()
        self._scans = [*(scan for scan in self._scans if scan.in_flight), self._scan(whole)]

    def _room(self, what: Range, bounds: Sequence[Key]) -> int:
        ranges = [scan.range for scan in self._scans if not scan.finished]
        return room(what, bounds, ranges, self._limits.range_bytes)

    def _reads_another_file(self, ranges: Sequence[Range]) -> bool:
        """Whether ranges by pages are of another file, or must not be read by pages any more."""
        file = None if self._pages is None else self._pages.file
        return any(each.file not in (None, file) for each in ranges)

    def _whole(self) -> Range:
        return Range() if self._pages is None else Range(until=self._pages.end, file=self._pages.file)

    def _scan(self, what: Range, *, finished: bool = False) -> RangeScan:
        return RangeScan(
            self.table,
            what,
            self._rereads,
            keyless=self._keyless,
            finished=finished,
            limits=self._limits,
        )

    def _prune(self) -> None:
        """Removes finished ranges: they need no entry in the state."""
        left = []
        for scan in self._scans:
            if scan.finished and not scan.in_flight:
                self._rows += scan.rows
            else:
                left.append(scan)
        self._scans = left
        if not left and not self._rereads:
            self._overflows = 0
        if self.comparison is not None and self.comparison.finished and not self.comparison.in_flight:
            self.comparison = None
