"""Which rows of a table without a key come from its scan, and which from the log.

Nothing identifies such rows, so no window can hold them: consumers count them, and each has to come from exactly one of
the two. A snapshot decides it, the scan's *base*. The log leaves out every transaction that the base shows, and gives
all others. The scan gives the rows that the base shows, in one of two ways:

- Chunks are read in snapshots of their own, and leave out rows that were inserted by a transaction which the base does
  not show. This is right while rows are only added: one that is updated or deleted may be gone before the scan reaches
  it, and then the log takes away what never came.
- Chunks are read in a snapshot that is *held* open, and show the table as it was.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from tidemark.backfill.fence import Fence, TransactionId


class Base(Protocol):
    """The snapshot that divides a table's rows between its scan and the log."""

    def shows(self, txn: TransactionId, position: int) -> bool | None:
        """Whether it shows a transaction that the log has at ``position``; None if unknown."""

    def ran(self, txn: TransactionId) -> bool:
        """Whether a transaction that it does not show may have been running when it was taken.

        A row may have the id of a subtransaction, which a snapshot does not name. So rows of such a transaction cannot
        be told from those that the base shows.
        """


B = TypeVar("B", bound=Base)


class CountedRows(Generic[B]):
    """The decision for one table.

    Attributes:
        base: None until there is one. The log then leaves out everything, and the base must show it.
        held: The snapshot in which all chunks are read; None if they have their own.
        changed: Only a snapshot that was held all the time shows the rows right: another one cannot take its place.
    """

    def __init__(self, base: B | None = None, *, changed: bool = False) -> None:
        self.base = base
        self.held: Fence | None = None
        self.changed = changed

    def from_scan(self, txn: TransactionId, position: int) -> bool | None:
        """Whether the scan gives what a transaction did, so that the log leaves it out; None if unknown: then the table
        must be emptied and read again.

        Args:
            txn: The transaction.
            position: Where the log has it.
        """
        return True if self.base is None else self.base.shows(txn, position)

    def follow(self, txn: TransactionId, *, removes: bool) -> bool:
        """Takes note of a change that the log gives.

        Args:
            txn: Its transaction, which the base does not show.
            removes: It updates or deletes a row.

        Returns:
            Whether the scan remains right. If not, the table must be emptied and read again in a held snapshot.
        """
        assert self.base is not None
        if not removes and not self.base.ran(txn):
            return True
        self.changed = True
        return self.held is not None and self.held.hides(txn)
