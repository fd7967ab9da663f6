"""What some kinds of databases can, or need, and others do not.

A ``Source`` that does is a subclass of the protocol, and the engine asks with ``isinstance``.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from backfill.keys import Key


@runtime_checkable
class SplitsPages(Protocol):
    """Scans by pages can be cut into ranges. What is read in one transaction cannot."""

    def split_pages(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        """As ``Source.split``, in places instead of keys: see ``ChunkRequest.physical``."""


@runtime_checkable
class RemembersLayouts(Protocol):
    """The log does not say what its rows look like, so the state has to."""

    def layout(self, binding: int, position: int) -> str:
        """What the rows of a table look like in the log from ``position`` on.

        It is kept in the state with the position; the database that opens the next session finds it there, as the
        member ``layout`` of the table's binding.
        """


@runtime_checkable
class ReadsInSnapshots(Protocol):
    """Tables without a key are read in one transaction (``ScanMethod.SNAPSHOT``)."""

    def begin_snapshot(self, binding: int) -> None:
        """Opens a table's transaction, now that it was emptied downstream while the log stands between two others.

        What the log has of the table from here on is left out where the snapshot has it. Where none could be opened the
        next chunk of the table says so: it is ``rewritten``, or raises.
        """
