"""A model of a database whose transactions enter the log and become visible to snapshots in separate steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

TABLES = ("a", "b")
KEYS = range(1, 7)


@dataclass(frozen=True)
class Row:
    """A row of a model table: ``version`` grows with every change of anything, ``large`` only when it is written."""

    version: int
    large: int


@dataclass(frozen=True)
class Put:
    """A row's state after an insert or update. The event lacks ``large`` when ``partial``; ``inserted``: new here."""

    table: str
    key: int
    row: Row
    partial: bool = False
    inserted: bool = False


@dataclass(frozen=True)
class Delete:
    table: str
    key: int
    version: int


@dataclass(frozen=True)
class Truncate:
    table: str
    version: int


Event = Put | Delete | Truncate


class Change(Enum):
    """What a writer may do to a key; impossible wishes become possible ones, so that none is wasted."""

    WRITE = "an insert, or an update of all columns"
    UPDATE = "an update whose event lacks the large column"
    DELETE = "a delete"
    MOVE = "an update of the key: a delete and an insert"
    MOVE_PARTIAL = "an update of the key whose event lacks the large column"
    TRUNCATE = "TRUNCATE"


@dataclass(frozen=True)
class Wish:
    table: str
    change: Change
    key: int
    target: int = 0
    """The key that a MOVE moves to."""


@dataclass
class Transaction:
    xid: int
    events: list[Event]


@dataclass(frozen=True)
class Snapshot:
    """What one snapshot sees.

    Attributes:
        tables: The rows.
        unfinished: Transactions that were running, or in the log and not visible.
        horizon: The smallest of these.
        next_xid: No transaction from here on had begun.
        lowest_high: The end of the last transaction in the log that it sees.
        truncates: TRUNCATEs it sees, per table.
    """

    tables: dict[str, dict[int, Row]]
    unfinished: frozenset[int]
    horizon: int
    next_xid: int
    lowest_high: int
    truncates: dict[str, int]


@dataclass
class Database:
    """Rows are locked from a transaction's entry into the log until it becomes visible, as in every database."""

    log: list[Transaction] = field(default_factory=list)
    states: list[dict[str, dict[int, Row]]] = field(default_factory=list)
    """The tables after the first n transactions of the log."""
    invisible: list[int] = field(default_factory=list)
    """Indices into the log."""
    running: list[int] = field(default_factory=list)
    """xids that were given out and have not committed."""

    def __post_init__(self) -> None:
        self._version = 0
        self._xid = 100
        self.visible: dict[str, dict[int, Row]] = {table: {} for table in TABLES}
        self.truncates = dict.fromkeys(TABLES, 0)
        self.last_truncate = dict.fromkeys(TABLES, 0)

    def fill(self, keys: Iterable[int]) -> None:
        """The rows that were there before the capture."""
        for key in keys:
            for table in TABLES:
                version = self._next_version()
                self.visible[table][key] = Row(version, version)
        self.states.append({table: dict(rows) for table, rows in self.visible.items()})

    def begin(self) -> None:
        """A transaction takes its xid now and commits at some time, or never."""
        self.running.append(self._next_xid())

    def commit(self, wishes: Iterable[Wish], *, oldest: bool = False) -> None:
        """A transaction enters the log: a new one, or the ``oldest`` that runs. Nobody sees it yet."""
        tables = {table: dict(rows) for table, rows in self.states[-1].items()}
        events: list[Event] = []
        locked = {(event.table, _key(event)) for index in self.invisible for event in self.log[index].events}
        for wish in wishes:
            events += self._fulfil(wish, tables[wish.table], locked)
        if not events:
            return
        xid = self.running.pop(0) if oldest and self.running else self._next_xid()
        for event in events:
            apply(event, tables[event.table])
        self.invisible.append(len(self.log))
        self.log.append(Transaction(xid, events))
        self.states.append(tables)

    def reveal(self, choice: int) -> None:
        """One of the transactions that are in the log becomes visible, in any order."""
        if not self.invisible:
            return
        index = self.invisible.pop(choice % len(self.invisible))
        for event in self.log[index].events:
            apply(event, self.visible[event.table])
            if isinstance(event, Truncate):
                self.truncates[event.table] += 1
                self.last_truncate[event.table] = index + 1

    def snapshot(self) -> Snapshot:
        unfinished = [*self.running, *(self.log[index].xid for index in self.invisible)]
        visible = set(range(len(self.log))).difference(self.invisible)
        return Snapshot(
            tables={table: dict(rows) for table, rows in self.visible.items()},
            unfinished=frozenset(unfinished),
            horizon=min([*unfinished, self._xid]),
            next_xid=self._xid,
            lowest_high=max(visible, default=-1) + 1,
            truncates=dict(self.truncates),
        )

    def select(self, snapshot: Snapshot, table: str) -> dict[int, Row] | None:
        """The rows that a snapshot shows; None when the read waits for the lock of a TRUNCATE.

        TRUNCATE is not MVCC-safe (PostgreSQL manual, 13.6): snapshots that are older find the table empty.
        """
        for index in self.invisible:
            if any(isinstance(event, Truncate) and event.table == table for event in self.log[index].events):
                return None
        return snapshot.tables[table] if self.truncates[table] == snapshot.truncates[table] else {}

    def _fulfil(self, wish: Wish, rows: dict[int, Row], locked: set[tuple[str, int | None]]) -> list[Event]:
        table, key = wish.table, wish.key
        if wish.change is Change.TRUNCATE:
            if any(table == other for other, _ in locked):
                return []
            events: list[Event] = [Truncate(table, self._next_version())]
        elif (table, None) in locked or (table, key) in locked:
            return []
        elif key not in rows:
            version = self._next_version()
            events = [Put(table, key, Row(version, version), inserted=True)]
        elif wish.change is Change.DELETE:
            events = [Delete(table, key, self._next_version())]
        elif wish.change is Change.UPDATE:
            events = [Put(table, key, Row(self._next_version(), rows[key].large), partial=True)]
        elif wish.change is not Change.WRITE and wish.target not in rows and (table, wish.target) not in locked:
            version = self._next_version()
            partial = wish.change is Change.MOVE_PARTIAL
            row = Row(version, rows[key].large if partial else version)
            events = [Delete(table, key, version), Put(table, wish.target, row, partial, inserted=True)]
        else:
            version = self._next_version()
            events = [Put(table, key, Row(version, version))]
        for event in events:
            apply(event, rows)
        return events

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
