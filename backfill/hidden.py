"""Transactions that the reader has emitted, and that no snapshot is known to see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from backfill.fence import Fence, TransactionId
from backfill.keys import Key, TouchedKeys

HIDDEN_LIMIT = 1_000_000
"""Keys that all hidden transactions together may hold."""


@dataclass(frozen=True, slots=True)
class HiddenTransaction:
    """An emitted transaction and what it touched.

    Attributes:
        txn: Its id in the source, as fences use it.
        touched: Touched keys by table; they must no longer change.
        tracked: The tables whose touched keys were recorded from the transaction's first event on. A tracked table that
            is not in ``touched`` was not touched; of any other table nothing is known.
    """

    txn: TransactionId
    touched: Mapping[str, TouchedKeys]
    tracked: frozenset[str]

    def keys_of(self, table: str) -> TouchedKeys | None:
        """What it touched in ``table``; None if unknown."""
        touched = self.touched.get(table)
        return TouchedKeys() if touched is None and table in self.tracked else touched

    def amended(self, lost: frozenset[str], incomplete: Mapping[str, list[Key]]) -> HiddenTransaction:
        """The same, without the tables ``lost``, and with those of its keys ``incomplete`` that are named so."""
        touched = {table: keys for table, keys in self.touched.items() if table not in lost}
        for table, keys in incomplete.items():
            if table in touched:
                touched[table] = touched[table].with_incomplete(keys)
        return HiddenTransaction(self.txn, touched, self.tracked - lost)


_UNKNOWN: Mapping[str, TouchedKeys] = {}


class HiddenSet:
    """Transactions emitted by the reader but not yet known visible, in log order.

    A transaction is added when its last event was emitted, before any chunk is started, and leaves by the first fence
    that shows it. A fence that hides what it is not sure of lets them leave in another order than that of the log. So
    what is said of an earlier transaction holds also after all later ones, whether they are still here or not: a key
    that it gave whole and that a later one left incomplete is incomplete, and of a table that a later one knows
    nothing of it knows nothing either.

    Args:
        limit: Keys held in all. What would exceed it is kept with unknown keys: chunks wait until it is visible.
    """

    def __init__(self, limit: int = HIDDEN_LIMIT) -> None:
        self._limit = limit
        self._held = 0
        self._known: frozenset[str] = frozenset()  # Tables for which some transaction has its touched keys.
        self._transactions: dict[TransactionId, HiddenTransaction] = {}

    def add(
        self, txn: TransactionId, touched: Mapping[str, TouchedKeys] | None, tracked: frozenset[str] = frozenset()
    ) -> None:
        """Adds a transaction that was just emitted.

        Args:
            txn: Its id.
            touched: Touched keys by table id; None when nothing is known. They must not be changed afterwards.
            tracked: Tables whose keys were recorded throughout the transaction, touched or not. A table that is neither
                here nor in ``touched`` has unknown keys.
        """
        if touched is None or txn in self._transactions or self._held + _size(touched) > self._limit:
            touched, tracked = _UNKNOWN, frozenset()
        self._amend(touched, tracked)
        self._keep(HiddenTransaction(txn, dict(touched), tracked))

    def purge(self, fence: Fence) -> None:
        """Removes what the fence shows: every later snapshot shows it too."""
        for transaction in [each for each in self._transactions.values() if not fence.hides(each.txn)]:
            del self._transactions[transaction.txn]
            self._held -= _size(transaction.touched)

    def ids(self) -> list[TransactionId]:
        """The transactions' ids, for the checkpoint."""
        return list(self._transactions)

    def restore(self, ids: Iterable[TransactionId]) -> None:
        """Adds transactions of a checkpoint; the keys they touched are unknown."""
        for txn in ids:
            self.add(txn, None)

    def entries(self) -> tuple[HiddenTransaction, ...]:
        """The transactions in log order, as they are now.

        A chunk holds on to them: another chunk's newer fence may purge the set meanwhile, but this one's older snapshot
        must still know what it does not see.
        """
        return tuple(self._transactions.values())

    def __len__(self) -> int:
        return len(self._transactions)

    def _amend(self, touched: Mapping[str, TouchedKeys], tracked: frozenset[str]) -> None:
        """Brings the earlier transactions up to what one that follows them has done."""
        if not self._transactions:
            self._known = frozenset()
        lost = self._known.difference(tracked, touched)
        incomplete: dict[str, list[Key]] = {}
        for table in self._known.intersection(touched):
            if touched[table].incomplete_forgotten:
                lost |= {table}
            elif keys := touched[table].incomplete():
                incomplete[table] = keys
        if lost or incomplete:
            for each in list(self._transactions.values()):
                self._replace(each, each.amended(lost, incomplete))
        self._known = (self._known - lost).union(tracked, touched)

    def _replace(self, old: HiddenTransaction, new: HiddenTransaction) -> None:
        self._transactions[old.txn] = new
        self._held += _size(new.touched) - _size(old.touched)

    def _keep(self, transaction: HiddenTransaction) -> None:
        replaced = self._transactions.pop(transaction.txn, None)
        if replaced is not None:
            self._held -= _size(replaced.touched)
        self._transactions[transaction.txn] = transaction
        self._held += _size(transaction.touched)


def _size(touched: Mapping[str, TouchedKeys]) -> int:
    return sum(map(len, touched.values()))
