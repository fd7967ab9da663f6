"""Rows of which an event is kept apart (``on_bad_value: quarantine``): a consumer lacks what that event brought.

The next event of such a row may leave out a large value that has not changed, and then the consumer would keep
the value of before. So the row is read again by its key.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidemark.backfill.keys import Key, key_from_texts, key_texts

KEYS = 1000
"""That are remembered of a table; the state has to hold them."""


class KeptApart:
    """The rows of one table.

    A key stays when a whole event has followed: then its row is read again once without need. With more rows than
    ``KEYS`` none is known any more, and each event that lacks a value has its row read again.
    """

    def __init__(self) -> None:
        self._keys: dict[Key, None] = {}  # Ordered, unlike a set: the state must not depend on hashing.
        self._any = False

    def add(self, keys: Iterable[Key]) -> None:
        """Events of these rows are kept apart; of a row without a key nothing can be known."""
        if self._any:
            return
        self._keys.update(dict.fromkeys(filter(None, keys)))
        if len(self._keys) > KEYS:
            self._any = True
            self._keys.clear()

    def lacks(self, key: Key) -> bool:
        """Whether a row has to be read again, now that an event of it lacks a value. It is then forgotten."""
        return self._any or self._keys.pop(key, self) is None

    def clear(self) -> None:
        """The table is emptied."""
        self._keys.clear()
        self._any = False

    def to_state(self) -> list[list[str]] | bool:
        """What the state has of it; false for no rows."""
        return self._any or [key_texts(key) for key in self._keys] or False

    def restore(self, stored: list[list[str]] | bool | None) -> None:
        """The opposite of ``to_state``."""
        self.clear()
        if isinstance(stored, list):
            self.add(key_from_texts(texts) for texts in stored)
        else:
            self._any = bool(stored)
