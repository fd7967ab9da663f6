"""How the model's connector reads: what a fence says, and the rows of a chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tests.backfill.database import Database, Row, Snapshot, Transaction
from tidemark.backfill.fence import TransactionId
from tidemark.backfill.keys import Key, join_key, key_texts
from tidemark.backfill.range_scan import ChunkPlan
from tidemark.captures.mysql.chunks.fence import PositionFence
from tidemark.captures.mysql.terms.gtid import transaction_id

WHERE: Mapping[str | None, int] = {None: 0, "odd": 1, "even": 2}
"""Conditions: rows whose version is so."""


def rows_by_key(plan: ChunkPlan, found: dict[int, Row], limit: int) -> tuple[list[int], bool, int | None]:
    """The next rows in key order, whether there are no more, and nothing about the cursor."""
    if not plan.scan:
        return [], False, None
    after, until, parity = place(plan.cursor, 0), place(plan.until, 1_000), WHERE[plan.where]
    rest = [k for k in sorted(found) if after < k <= until and (not parity or found[k].version % 2 == parity % 2)]
    return rest[:limit], len(rest) < limit, None


def rows_by_page(plan: ChunkPlan, found: dict[int, Row], limit: int, pages: int) -> tuple[list[int], bool, int | None]:
    """The rows of the next pages in the order in which they lie, whether there are no more, and the page after."""
    if not plan.scan:
        return [], False, None
    first, end = place(plan.cursor, 0), place(plan.until, pages)
    last = max(first, min(first + limit, end))
    rows = sorted((row.page, key) for key, row in found.items() if first <= row.page < last)
    return [key for _, key in rows], last >= end, last


def place(key: Key | None, otherwise: int) -> int:
    return otherwise if key is None else number_of(key)


def key_of(number: int) -> Key:
    return join_key([str(number).encode()])


def number_of(key: Key) -> int:
    return int(key_texts(key)[0])


@dataclass(frozen=True)
class SnapshotFence:
    """A snapshot's fence: exact, or as on a standby, where all from the oldest running transaction on are doubtful."""

    snapshot: Snapshot
    high: int
    conservative: bool

    def hides(self, txn: TransactionId) -> bool:
        assert isinstance(txn, int)
        if self.conservative:
            return txn >= self.snapshot.horizon
        return txn >= self.snapshot.next_xid or txn in self.snapshot.unfinished


class Questions:
    """What MariaDB is asked for a fence, one question after another; the database goes on between them."""

    ORDER: ClassVar[Sequence[str]] = ("position", "prepared", "snapshot")
    """The end of the log, XA RECOVER, and what the snapshot says of itself when it is open."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._left = list(self.ORDER)
        self._position = 0
        self._prepared: frozenset[str] = frozenset()
        self._snapshot: Snapshot | None = None

    def ask(self) -> Snapshot | None:
        """Asks the next one; after the last one the snapshot."""
        match self._left.pop(0):
            case "position":
                self._position = len(self._database.log)
            case "prepared":
                self._prepared = frozenset(map(_xid, self._database.listed()))
            case _:
                self._snapshot = self._database.snapshot()
        return None if self._left else self._snapshot

    def fence(self) -> PositionFence:
        """Of that snapshot."""
        assert self._snapshot is not None
        visible = self._snapshot.position
        return PositionFence(visible, visible, _SERVER, None, self._position, self._prepared)


_SERVER = "1:here:3306"


def mariadb_id(transaction: Transaction, end: int) -> str:
    """What the log calls a transaction that ends there."""
    xid = _xid(transaction.xid) if transaction.two_phase else ""
    return transaction_id(f"0-1-{end}", _SERVER, end, xid)


def _xid(number: int) -> str:
    return f"x'{number:x}',x'',1"


class SeenBase(NamedTuple):
    """The base of the model's table without a key. Rows have ids of subtransactions, which no snapshot names."""

    snapshot: Snapshot
    high: int

    def shows(self, txn: TransactionId, position: int) -> bool | None:
        xid = int(txn)
        hidden = xid >= self.snapshot.next_xid or xid in self.snapshot.unfinished
        return position <= self.high and not hidden

    def ran(self, txn: TransactionId) -> bool:
        return int(txn) < self.snapshot.next_xid


class AllVisible(NamedTuple):
    high: int

    def hides(self, txn: TransactionId) -> bool:
        return False


class Kept(NamedTuple):
    """Attributes: ``lost``: no session can resume the scan."""

    base: SeenBase | None = None
    lost: bool = False
