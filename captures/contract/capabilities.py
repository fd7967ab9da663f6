"""What some kinds of databases can, or need, and others do not; and how tables without a key are read.

A ``Source`` that can is a subclass of the protocol, and the engine asks with ``isinstance``. Every source is of the
last one.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import Protocol, runtime_checkable

from tidemark.backfill.fence import TransactionId
from tidemark.backfill.keys import Key


@runtime_checkable
class SplitsPages(Protocol):
    """Scans by pages can be cut into ranges. What is read in one transaction cannot."""

    def split_pages(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        """Splits as ``Source.split`` does, in places instead of keys: see ``ChunkRequest.physical``."""


@runtime_checkable
class RemembersLayouts(Protocol):
    """The log does not say what its rows look like, so the state has to."""

    def layout(self, binding: int, position: int) -> str:
        """What the rows of a table look like in the log from ``position`` on.

        It is kept in the state with the position; the database that opens the next session finds it there, as the
        member ``layout`` of the table's binding.
        """


class Begun(Enum):
    """The answer of ``ReadsInSnapshots.begin_snapshot``."""

    OPEN = auto()
    """The table's chunks can be read."""
    LATER = auto()
    """No snapshot shows yet what it has to show: ask again."""
    LOST = auto()
    """The scan cannot be resumed: the table has to be emptied and read again."""


class ReadsInSnapshots(Protocol):
    """Tables without a key are read in a snapshot that says which rows come from the scan, and which from the log.

    No window can hold rows without keys. So a consumer counts them, and each must come from exactly one of the two.
    """

    def await_snapshot(self, binding: int, kept: str | None) -> None:
        """Prepares the log for a table whose scan begins or is resumed, while it is between transactions.

        Args:
            kept: Of a scan that is resumed, what ``kept_snapshot`` said. None for a table of which nothing was emitted
                since it was emptied: the log leaves out all its changes until ``begin_snapshot``, whose snapshot has
                them.
        """

    def begin_snapshot(self, binding: int, unseen: Collection[TransactionId]) -> Begun:
        """Opens the snapshot, with the log between two transactions; does nothing while it is open.

        From here on the log leaves out the table's changes that the snapshot has, and no others.

        Args:
            unseen: Transactions of the log up to here that changed the table, or may have, and that snapshots may not
                show yet. A new snapshot must show them.

        Raises:
            SourceError: The server cannot be asked.
        """

    def kept_snapshot(self, binding: int) -> str | None:
        """What the state must hold to resume the scan. Empty if it cannot be resumed; None before there is one."""

    def end_snapshot(self, binding: int) -> None:
        """The table's scan is complete."""
