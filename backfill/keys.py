"""Keys of rows, and the keys that the log touched in one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemark.protocol.errors import SourceError

Key = bytes
"""A row's key: the literal texts of its key columns in UTF-8, joined by NUL, so that equal keys are equal bytes.

Keys are never ordered here: only the server knows its collations.
"""

WINDOW_LIMIT = 200_000
"""The most keys recorded individually; about 30 MB with keys of 40 bytes."""

_SEPARATOR = b"\x00"


def join_key(parts: Iterable[bytes]) -> Key:
    """The key of a row from the texts of its key columns.

    Raises:
        SourceError: ``TM-BKF-002`` a text holds a NUL, so that two rows could have the same key. PostgreSQL has no such
            text; MySQL's binary types have hexadecimal literal texts.
    """
    texts = tuple(parts)
    key = _SEPARATOR.join(texts)
    if key.count(_SEPARATOR) != len(texts) - 1:
        raise SourceError("TM-BKF-002", "a key column's text holds a NUL character")
    return key


def known_key(texts: Iterable[str | None]) -> Key | None:
    """The key of these texts; None if one is not known, or cannot be a key's."""
    known = list(texts)
    if any(text is None or "\0" in text for text in known):
        return None
    return key_from_texts([text for text in known if text is not None])


def key_texts(key: Key) -> list[str]:
    """The texts of the key columns, as the state holds them."""
    return key.decode().split("\x00")


def key_from_texts(texts: Sequence[str]) -> Key:
    """The inverse of ``key_texts``. Raises as ``join_key``."""
    return join_key(text.encode() for text in texts)


# What a consumer knows of a row if it has only the events since some moment.
_WHOLE = 0  # The whole row: some event carried every column. A delete counts as such.
_PARTIAL = 1  # A part: every event lacked columns, so it needs the columns that it had before.
_INCOMPLETE = 2  # The row came to this key by an event that lacked columns: earlier events are of another row.


class TouchedKeys:
    """The keys that the log touched in one table, in log order, each full or partial.

    A full event makes a key full, whether partial events come before or after it. It replaces the row of those before,
    and gives the columns that those after it lack. A delete is full, and the next event is an insert. The one exception
    is an event that *brings a row to the key* and lacks columns (an UPDATE of the key that leaves a large value
    untouched): the consumer's columns under that key belong to another row, even those from a full event. It makes the
    key ``incomplete`` until a full event follows.

    Args:
        limit: With more keys, every key counts as touched (``everything``), so that memory is bounded in a transaction
            of any size.

    Attributes:
        everything: Every row counts as touched: the table was truncated, or too many keys were touched.
        truncated: The table was truncated.
        partial_forgotten: Some partial keys are not in ``partials()``: too many were touched.
        incomplete_forgotten: Some incomplete keys are not in ``incomplete()``: too many were touched. Only a new scan
            finds the rows.
    """

    __slots__ = ("_keys", "_limit", "everything", "incomplete_forgotten", "partial_forgotten", "truncated")

    def __init__(self, limit: int = WINDOW_LIMIT) -> None:
        self._limit = limit
        self.everything = False
        self.truncated = False
        self.partial_forgotten = False
        self.incomplete_forgotten = False
        self._keys: dict[Key, int] = {}

    def partials(self) -> list[Key]:
        """Keys of which no event carried the whole row, incomplete ones among them."""
        return [key for key, known in self._keys.items() if known != _WHOLE]

    def incomplete(self) -> list[Key]:
        """Keys that got a row without all of its columns, without a later full event."""
        return [key for key, known in self._keys.items() if known == _INCOMPLETE]

    def add(self, key: Key, partial: bool, inserted: bool = False) -> None:
        """Records an event.

        Args:
            key: The row's key; a change of the key is two events.
            partial: The event lacked columns.
            inserted: It brought the row to this key: an insert, or a change of the key. Matters when ``partial``.
        """
        if self.everything:
            self.partial_forgotten |= partial
            self.incomplete_forgotten |= partial and inserted
            return
        if not partial:
            self._keys[key] = _WHOLE
        elif inserted:
            self._keys[key] = _INCOMPLETE
        else:
            self._keys.setdefault(key, _PARTIAL)
        if len(self._keys) > self._limit:
            self._overflow()

    def truncate(self) -> None:
        """Records a TRUNCATE: every row is touched, and none remains that could lack columns."""
        self._keys.clear()
        self.everything = self.truncated = True
        self.partial_forgotten = self.incomplete_forgotten = False

    def merge(self, later: TouchedKeys) -> None:
        """Adds the keys of later events."""
        if later.everything:
            self._overflow()
            self.truncated |= later.truncated
            self.partial_forgotten |= later.partial_forgotten
            self.incomplete_forgotten |= later.incomplete_forgotten
            return
        for key, known in later._keys.items():
            self.add(key, known != _WHOLE, known == _INCOMPLETE)

    def with_incomplete(self, keys: Iterable[Key]) -> TouchedKeys:
        """These keys, with those of ``keys`` incomplete that are among them."""
        known = [key for key in keys if key in self._keys]
        if not known:
            return self
        other = TouchedKeys(self._limit)
        other.merge(self)
        for key in known:
            other.add(key, True, True)
        return other

    def __contains__(self, key: Key) -> bool:
        return self.everything or key in self._keys

    def __len__(self) -> int:
        """The number of keys recorded individually."""
        return len(self._keys)

    def isdisjoint(self, keys: Sequence[Key]) -> bool:
        """Whether none of ``keys`` was touched."""
        return not self.everything and (not self._keys or self._keys.keys().isdisjoint(keys))

    def partial(self, key: Key) -> bool:
        """Whether the events of a touched key give a consumer only a part of the row; True if ``everything``."""
        return self._keys.get(key, _PARTIAL) != _WHOLE

    def _overflow(self) -> None:
        known = set(self._keys.values())
        self.partial_forgotten |= not known <= {_WHOLE}
        self.incomplete_forgotten |= _INCOMPLETE in known
        self.everything = True
        self._keys.clear()
