"""The hidden set: transactions that were emitted, and that no snapshot is known to see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemark.backfill.fence import Fence, TransactionId
from tidemark.backfill.keys import Key, TouchedKeys

HIDDEN_LIMIT = 1_000_000
"""The most keys that all hidden transactions together hold."""


@dataclass(frozen=True, slots=True)
class HiddenTransaction:
    """An emitted transaction and the keys that it touched.

    Attributes:
        txn: Its id in the source, as fences use it.
        touched: Touched keys by table; they must no longer change.
        tracked: The tables whose touched keys were recorded from the transaction's first event on. A tracked table that
            is not in ``touched`` was not touched; the touched keys of any other table are unknown.
    """

    txn: TransactionId
    touched: Mapping[str, TouchedKeys]
    tracked: frozenset[str]

    def keys_of(self, table: str) -> TouchedKeys | None:
        """The keys that it touched in ``table``; None if unknown."""
        touched = self.touched.get(table)
        return TouchedKeys() if touched is None and table in self.tracked else touched

    def amended(self, lost: frozenset[str], incomplete: Mapping[str, list[Key]]) -> HiddenTransaction:
        """A copy without the tables ``lost``, in which the keys ``incomplete`` are incomplete."""
        touched = {table: keys for table, keys in self.touched.items() if table not in lost}
        for table, keys in incomplete.items():
            if table in touched:
                touched[table] = touched[table].with_incomplete(keys)
        return HiddenTransaction(self.txn, touched, self.tracked - lost)


_UNKNOWN: Mapping[str, TouchedKeys] = {}


class HiddenSet:
    """Transactions emitted by the reader but not yet known visible, in log order.

    A transaction is added when its last event was emitted, before any chunk is started, and removed by the first fence
    that shows it. A fence also hides transactions of which it is unsure, so they are removed in another order than that
    of the log. Therefore the entry of an earlier transaction includes the effects of all later ones, whether they are
    still in the set or not: a key that it gave whole and that a later one left incomplete is incomplete, and a table
    whose touched keys are unknown for a later one is unknown for it, too.

    Args:
        limit: The most keys in all. A transaction beyond it has unknown keys: chunks wait until it is visible.
    """

    def __init__(self, limit: int = HIDDEN_LIMIT) -> None:
        self._limit = limit
        self._held = 0
        self._known: frozenset[str] = frozenset()  # Tables for which some transaction has touched keys.
        self._transactions: dict[TransactionId, HiddenTransaction] = {}

    def add(
        self, txn: TransactionId, touched: Mapping[str, TouchedKeys] | None, tracked: frozenset[str] = frozenset()
    ) -> None:
        """Adds a transaction that was just emitted.

        Args:
            txn: Its id.
            touched: Touched keys by table id; None if unknown. They must not be changed afterwards.
            tracked: Tables whose keys were recorded throughout the transaction, touched or not. The keys of a table
                that is neither here nor in ``touched`` are unknown.
        """
        if touched is None or txn in self._transactions or (touched and self._held + _size(touched) > self._limit):
            touched, tracked = _UNKNOWN, frozenset()
        if touched or not self._known <= tracked:
            self._amend(touched, tracked)
        else:  # Nearly always, and there may be very many: earlier transactions stay as they are.
            self._known = tracked
        self._remove(txn)
        self._transactions[txn] = HiddenTransaction(txn, dict(touched), tracked)
        if touched:
            self._held += _size(touched)

    def purge(self, fence: Fence) -> None:
        """Removes the transactions that the fence shows: every later snapshot shows them too."""
        for transaction in [each for each in self._transactions.values() if not fence.hides(each.txn)]:
            self._remove(transaction.txn)

    def ids(self) -> list[TransactionId]:
        """The transactions' ids, for the checkpoint."""
        return list(self._transactions)

    def restore(self, ids: Iterable[TransactionId]) -> None:
        """Adds transactions of a checkpoint; the keys they touched are unknown."""
        for txn in ids:
            self.add(txn, None)

    def entries(self) -> tuple[HiddenTransaction, ...]:
        """The transactions in log order, as they are now.

        A chunk keeps them: the newer fence of another chunk may remove some from the set meanwhile, but the chunk must
        know which ones its own, older snapshot does not see.
        """
        return tuple(self._transactions.values())

    def __len__(self) -> int:
        return len(self._transactions)

    def _amend(self, touched: Mapping[str, TouchedKeys], tracked: frozenset[str]) -> None:
        """Applies the effects of a later transaction to the earlier ones."""
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
                amended = self._transactions[each.txn] = each.amended(lost, incomplete)
                self._held += _size(amended.touched) - _size(each.touched)
        self._known = (self._known - lost).union(tracked, touched)

    def _remove(self, txn: TransactionId) -> None:
        removed = self._transactions.pop(txn, None)
        if removed is not None and removed.touched:
            self._held -= _size(removed.touched)


def _size(touched: Mapping[str, TouchedKeys]) -> int:
    return sum(map(len, touched.values()))
