"""A model of a database whose transactions enter the log and become visible to snapshots in separate steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

KEYED = ("a", "b")
KEYLESS = "k"
TABLES = (*KEYED, KEYLESS)
KEYS = range(1, 7)
PAGES = range(5)


class Row(NamedTuple):
    """A row of a model table.

    Attributes:
        version: Grows with every change of anything.
        large: The version that last wrote the large column.
        page: Where it lies; consumers know nothing of it.
        writer: The place in the log of the transaction that wrote it, -1 before the log began.
    """

    version: int
    large: int
    page: int
    writer: int

    def columns(self) -> dict[str, int]:
        return {"version": self.version, "large": self.large}


class Put(NamedTuple):
    """A row's state after an insert or update. The event lacks ``large`` when ``partial``; ``inserted``: new here."""

    table: str
    key: int
    row: Row
    partial: bool = False
    inserted: bool = False


class Delete(NamedTuple):
    table: str
    key: int
    version: int


class Truncate(NamedTuple):
    table: str
    version: int


Event = Put | Delete | Truncate


class Change(Enum):
    """What a writer may do to a key; impossible wishes become possible ones, so that none is wasted.

    In a table without a key, keys are only the model's: a row that is updated is another one. Most changes insert a
    row, a DELETE deletes some row, and a MOVE updates one.
    """

    WRITE = "an insert, or an update of all columns"
    UPDATE = "an update whose event lacks the large column"
    DELETE = "a delete"
    MOVE = "an update of the key: a delete and an insert"
    MOVE_PARTIAL = "an update of the key whose event lacks the large column"
    TRUNCATE = "TRUNCATE"


class Wish(NamedTuple):
    table: str
    change: Change
    key: int
    target: int = 0
    """The key that a MOVE moves to."""
    page: int = 0
    """Where the row comes to lie."""


class Transaction(NamedTuple):
    xid: int
    events: list[Event]
    two_phase: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one snapshot sees.

    Attributes:
        tables: The rows.
        unfinished: Transactions that were running, or in the log and not visible.
        horizon: The smallest of these.
        next_xid: No transaction from here on had begun.
        lowest_high: The end of the last transaction in the log that it sees.
        truncates: TRUNCATEs it sees, per table.
        position: MariaDB's of the snapshot: every one-phase transaction up to there is visible, and no other.
    """

    tables: dict[str, dict[int, Row]]
    unfinished: frozenset[int]
    horizon: int
    next_xid: int
    lowest_high: int
    truncates: dict[str, int]
    position: int


@dataclass
class Database:
    """Rows are locked from a transaction's events until it becomes visible, as in every database.

    Attributes:
        ordered: Transactions become visible in the order of the log, as in MariaDB, but for two-phase ones, which do
            some time after those before them.
    """

    ordered: bool = False

    log: list[Transaction] = field(default_factory=list)
    states: list[dict[str, dict[int, Row]]] = field(default_factory=list)
    """The tables after the first n transactions of the log."""
    invisible: list[int] = field(default_factory=list)
    """Indices into the log."""
    running: list[int] = field(default_factory=list)
    """xids that were given out and have not committed."""
    prepared: list[Transaction] = field(default_factory=list)
    """Two-phase transactions that have done their work and not committed."""

    def __post_init__(self) -> None:
        self._version = 0
        self._xid = 100
        self.visible: dict[str, dict[int, Row]] = {table: {} for table in TABLES}
        self.truncates = dict.fromkeys(TABLES, 0)
        self.last_truncate = dict.fromkeys(TABLES, 0)
        self.pages = dict.fromkeys(TABLES, len(PAGES))
        self.files = dict.fromkeys(TABLES, 1)

    def fill(self, keys: Iterable[int]) -> None:
        """The rows that were there before the capture."""
        for key in keys:
            for table in TABLES:
                version = self._next_version()
                self.visible[table][key] = Row(version, version, key * 3 % len(PAGES), -1)
        self.states.append({table: dict(rows) for table, rows in self.visible.items()})

    def begin(self) -> None:
        """A transaction takes its xid now and commits at some time, or never."""
        self.running.append(self._next_xid())

    def commit(self, wishes: Iterable[Wish], *, oldest: bool = False) -> None:
        """A transaction enters the log: a new one, or the ``oldest`` that runs. Nobody sees it yet."""
        events = self._work(wishes)
        if events:
            self._enter_log(self.running.pop(0) if oldest and self.running else self._next_xid(), events)

    def prepare(self, wishes: Iterable[Wish]) -> None:
        """PREPARE TRANSACTION: the first phase of two."""
        events = self._work(wishes)
        if events:
            self.prepared.append(Transaction(self._next_xid(), events, two_phase=True))

    def commit_prepared(self, choice: int) -> None:
        """COMMIT PREPARED: it enters the log, with the xid that it has had all along."""
        if self.prepared:
            self._enter_log(*self.prepared.pop(choice % len(self.prepared)))

    def reveal(self, choice: int) -> None:
        """One of the transactions that are in the log becomes visible, in any order that there may be."""
        able = self._revealable()
        if not able:
            return
        index = able[choice % len(able)]
        self.invisible.remove(index)
        for event in self.log[index].events:
            apply(event, self.visible[event.table])
            if isinstance(event, Truncate):
                self.truncates[event.table] += 1
                self.last_truncate[event.table] = index + 1
                self.files[event.table] += 1
                self.pages[event.table] = 0
            self._extend(event)

    def _revealable(self) -> list[int]:
        if not self.ordered:
            return self.invisible
        first = next((index for index in self.invisible if not self.log[index].two_phase), len(self.log))
        return [index for index in self.invisible if index <= first]

    def listed(self) -> frozenset[int]:
        """XA RECOVER: what is prepared, and what is being committed and not visible yet."""
        committing = (self.log[index] for index in self.invisible)
        return frozenset(each.xid for each in [*self.prepared, *committing] if each.two_phase)

    def rewrite(self, table: str) -> None:
        """VACUUM FULL: the rows lie elsewhere, in another file; the log says nothing of it. Waits for every lock."""
        if any(name == table for name, _ in self._locked()):
            return
        rows = self.visible[table]
        moved = {key: row._replace(page=index // 2) for index, (key, row) in enumerate(sorted(rows.items()))}
        self.visible[table] = moved
        self.states[-1][table] = dict(moved)
        self.files[table] += 1
        self.pages[table] = (len(moved) + 1) // 2

    def snapshot(self) -> Snapshot:
        committed = (self.log[index].xid for index in self.invisible)
        unfinished = [*self.running, *(transaction.xid for transaction in self.prepared), *committed]
        last = len(self.log)
        while last - 1 in self.invisible:
            last -= 1
        hidden = (index for index in self.invisible if not self.log[index].two_phase)
        return Snapshot(
            tables={table: dict(rows) for table, rows in self.visible.items()},
            unfinished=frozenset(unfinished),
            horizon=min([*unfinished, self._xid]),
            next_xid=self._xid,
            lowest_high=last,
            truncates=dict(self.truncates),
            position=min(hidden, default=len(self.log)),
        )

    def select(self, snapshot: Snapshot, table: str) -> dict[int, Row] | None:
        """The rows that a snapshot shows; None when the read waits for the lock of a TRUNCATE.

        TRUNCATE is not MVCC-safe (PostgreSQL manual, 13.6): snapshots that are older find the table empty.
        """
        if (table, None) in self._locked():
            return None
        return snapshot.tables[table] if self.truncates[table] == snapshot.truncates[table] else {}

    def _locked(self) -> set[tuple[str, int | None]]:
        transactions = [*self.prepared, *(self.log[index] for index in self.invisible)]
        return {(event.table, _key(event)) for transaction in transactions for event in transaction.events}

    def _work(self, wishes: Iterable[Wish]) -> list[Event]:
        tables = {table: dict(rows) for table, rows in self.states[-1].items()}
        locked = self._locked()
        events: list[Event] = []
        for wish in wishes:
            fulfilled = self._fulfil(wish, tables[wish.table], locked)
            for event in fulfilled:
                apply(event, tables[event.table])
                self._extend(event)
            events += fulfilled
        return events

    def _enter_log(self, xid: int, events: list[Event], two_phase: bool = False) -> None:
        index = len(self.log)
        events = [
            event._replace(row=event.row._replace(writer=index)) if isinstance(event, Put) else event
            for event in events
        ]
        tables = {table: dict(rows) for table, rows in self.states[-1].items()}
        for event in events:
            apply(event, tables[event.table])
        self.invisible.append(index)
        self.log.append(Transaction(xid, events, two_phase))
        self.states.append(tables)

    def _fulfil(self, wish: Wish, rows: dict[int, Row], locked: set[tuple[str, int | None]]) -> list[Event]:
        table, key = wish.table, wish.key
        version = self._next_version()
        row = Row(version, version, wish.page, -1)
        if wish.change is Change.TRUNCATE:
            return [] if any(table == other for other, _ in locked) else [Truncate(table, version)]
        if (table, None) in locked or (table, key) in locked:
            return []
        if table == KEYLESS:
            added = Put(table, 1_000 + version, row, inserted=True)
            free = sorted(each for each in rows if (table, each) not in locked)
            if wish.change not in (Change.DELETE, Change.MOVE) or not free:
                return [added]
            gone = Delete(table, free[key % len(free)], version)
            return [gone] if wish.change is Change.DELETE else [gone, added]
        if key not in rows:
            return [Put(table, key, row, inserted=True)]
        if wish.change is Change.DELETE:
            return [Delete(table, key, version)]
        old = row._replace(large=rows[key].large)
        if wish.change is Change.UPDATE:
            return [Put(table, key, old, partial=True)]
        if wish.change is not Change.WRITE and wish.target not in rows and (table, wish.target) not in locked:
            partial = wish.change is Change.MOVE_PARTIAL
            return [
                Delete(table, key, version),
                Put(table, wish.target, old if partial else row, partial, inserted=True),
            ]
        return [Put(table, key, row)]

    def _extend(self, event: Event) -> None:
        """The file has a row's page before its transaction commits."""
        if isinstance(event, Put):
            self.pages[event.table] = max(self.pages[event.table], event.row.page + 1)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    def _next_xid(self) -> int:
        self._xid += 1
        return self._xid - 1


def apply(event: Event, rows: dict[int, Row]) -> None:
    """What an event does to its table's rows."""
    if isinstance(event, Truncate):
        rows.clear()
    elif isinstance(event, Delete):
        rows.pop(event.key, None)
    else:
        rows[event.key] = event.row


def _key(event: Event) -> int | None:
    return None if isinstance(event, Truncate) else event.key
