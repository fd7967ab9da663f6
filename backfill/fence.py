"""The part of the log that a chunk's snapshot sees."""

from __future__ import annotations

from typing import Protocol

TransactionId = int | str
"""A transaction's id in the source, such as a PostgreSQL xid or a GTID."""


class Fence(Protocol):
    """What is known of a chunk's snapshot in terms of the log.

    Positions are integers that grow with the log. Once one fence shows a transaction, every snapshot opened later on
    the same server shows it too.
    """

    @property
    def high(self) -> int:
        """A log position at or after every transaction that the snapshot sees. Taken after the snapshot was opened."""

    def hides(self, txn: TransactionId) -> bool:
        """Whether the snapshot does not see transaction ``txn``, which the log has given; True if that is unknown."""
