"""The window: keys whose state the log has already given, at least as new as one chunk's snapshot."""

from __future__ import annotations

from tidemark.backfill.fence import Fence
from tidemark.backfill.hidden import HiddenTransaction
from tidemark.backfill.keys import Key, TouchedKeys


class Window:
    """The keys that the log touched since a chunk was started, and those touched before that its snapshot hides.

    Args:
        entries: The hidden set as it was when the chunk was started.
        limit: The most keys recorded individually; with more, every row counts as touched.
    """

    def __init__(self, entries: tuple[HiddenTransaction, ...], limit: int) -> None:
        self._entries = entries
        self._before = TouchedKeys(limit)
        self._since = TouchedKeys(limit)
        self._spoiled = False

    def observe_all(self, touched: TouchedKeys) -> None:
        """The log touched these keys."""
        self._since.merge(touched)

    def truncate(self) -> None:
        """The log truncated the table."""
        self._since.truncate()

    def spoil(self) -> None:
        """Makes the chunk useless, whatever the log touched."""
        self._spoiled = True

    def take(self, fence: Fence, table: str) -> bool:
        """Adds the keys of every entry that the fence hides; returns False if those of one are unknown."""
        for entry in self._entries:
            if not fence.hides(entry.txn):
                continue
            touched = entry.keys_of(table)
            if touched is None:
                return False
            self._before.merge(touched)
        self._entries = ()
        return True

    def incomplete(self) -> list[Key]:
        """Keys to which a transaction that the snapshot does not see brought a row without all of its columns."""
        return self._before.incomplete()

    def partials(self) -> list[Key]:
        """Keys of which the transactions that the snapshot does not see gave no whole row."""
        return self._before.partials()

    @property
    def truncated(self) -> bool:
        """Whether the chunk is useless: the table was truncated, or the scan started again."""
        return self._spoiled or self._before.truncated or self._since.truncated

    @property
    def everything(self) -> bool:
        """Every row counts as touched."""
        return self._spoiled or self._before.everything or self._since.everything

    def touched(self) -> TouchedKeys:
        """The whole window, in log order. No key is observed afterwards."""
        if not self._before.everything and not len(self._before):
            return self._since
        self._before.merge(self._since)
        return self._before
