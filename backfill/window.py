"""The keys of one chunk's table whose state the log has already given, at least as new as the chunk's snapshot."""

from __future__ import annotations

from backfill.fence import Fence
from backfill.hidden import HiddenTransaction
from backfill.keys import Key, TouchedKeys


class Window:
    """What the log touched in a chunk's table since the chunk was started, and what the snapshot hides of before.

    Args:
        entries: The hidden set as it was when the chunk was started.
        limit: Keys remembered one by one; with more, every row counts as touched.
    """

    def __init__(self, entries: tuple[HiddenTransaction, ...], limit: int) -> None:
        self._entries = entries
        self._before = TouchedKeys(limit)
        self._since = TouchedKeys(limit)
        self._spoiled = False

    def observe(self, key: Key, partial: bool, inserted: bool) -> None:
        """The log touched a key."""
        self._since.add(key, partial, inserted)

    def observe_all(self, touched: TouchedKeys) -> None:
        """The log touched these keys."""
        self._since.merge(touched)

    def truncate(self) -> None:
        """The log truncated the table."""
        self._since.truncate()

    def spoil(self) -> None:
        """The chunk is useless, whatever the log touched."""
        self._spoiled = True

    def take(self, fence: Fence, table: str) -> bool:
        """Takes over the keys of every entry that the fence hides; False when those of one are unknown."""
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
        """Keys that got a row without all of its columns from transactions that the snapshot does not see."""
        return self._before.incomplete()

    def partials(self) -> list[Key]:
        """Keys for which the transactions that the snapshot does not see gave no whole row."""
        return self._before.partials()

    @property
    def truncated(self) -> bool:
        """The chunk is useless, whatever its rows are: the table was truncated, or the scan started again."""
        return self._spoiled or self._before.truncated or self._since.truncated

    @property
    def everything(self) -> bool:
        """Every row counts as touched."""
        return self._spoiled or self._before.everything or self._since.everything

    def touched(self) -> TouchedKeys:
        """The whole window, in log order. Nothing is observed afterwards."""
        if not self._before.everything and not len(self._before):
            return self._since
        self._before.merge(self._since)
        return self._before
