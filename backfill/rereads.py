"""The reread list: rows of one table of which a consumer has only a part. They are read again by key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from tidemark.backfill.keys import Key, key_texts
from tidemark.backfill.limits import Limits


def state_size(key: Key) -> int:
    """The most bytes that a key takes in the state."""
    return len(json.dumps(key_texts(key))) + 2


class RereadList:
    """The keys, each once, and those that chunks in flight read.

    A list that is too long for the state lasts only as long as this session. So chunks add keys only while the state
    has room, and keys that the log adds beyond that are read soon.

    Args:
        overflow: Called for more keys than ``limits`` allows, to scan the table again. It must ``clear`` the list.
        limits: Those of the table.
    """

    def __init__(self, overflow: Callable[[], None], limits: Limits) -> None:
        self._overflow = overflow
        self._limits = limits
        self._size = 0
        self._keys: dict[Key, None] = {}  # Ordered, unlike a set: the state must not depend on hashing.
        self._leased: set[Key] = set()
        self._again: set[Key] = set()  # Requested while a chunk, whose snapshot may be too old, reads them.

    def request(self, key: Key) -> None:
        """Adds a key, whether the state has room for it or not."""
        if key in self._keys:
            if key in self._leased:
                self._again.add(key)
            return
        self._append(key)
        if len(self._keys) > self._limits.reread_keys:
            self._overflow()

    def remember(self, key: Key) -> bool:
        """Adds a key if the state has room for it; returns whether it has."""
        if key not in self._keys:
            limits = self._limits
            if len(self._keys) >= limits.reread_least and self._size + state_size(key) > limits.reread_bytes:
                return False
            self._append(key)
        return True

    def lease(self, most: int) -> tuple[Key, ...]:
        """The keys for the next chunk, at most this many: those that waited longest, and that no other chunk reads."""
        idle = (key for key in self._keys if key not in self._leased)
        keys = tuple(islice(idle, min(most, self._limits.rereads_per_chunk)))
        self._leased.update(keys)
        return keys

    def release(self, keys: Iterable[Key]) -> None:
        """A chunk that read these keys was abandoned."""
        self._leased.difference_update(keys)
        self._again.difference_update(keys)

    def settle(self, key: Key, settled: bool) -> None:
        """A chunk that read this key was emitted.

        Args:
            key: The key.
            settled: The key is removed, unless it was requested meanwhile. Otherwise it moves to the end of the list,
                so that rows that change constantly do not block the others.
        """
        self._leased.discard(key)
        settled &= key not in self._again
        self._again.discard(key)
        if key in self._keys:
            del self._keys[key]
            if settled:
                self._size -= state_size(key)
            else:
                self._keys[key] = None

    def clear(self) -> None:
        """Removes all keys, because the whole table is scanned again."""
        self._keys.clear()
        self._leased.clear()
        self._again.clear()
        self._size = 0

    @property
    def idle(self) -> bool:
        """Whether some keys are read by no chunk."""
        return len(self._leased) < len(self._keys)

    @property
    def fits(self) -> bool:
        """Whether the state can hold the list."""
        return self._size <= self._limits.reread_bytes or len(self._keys) <= self._limits.reread_least

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def _append(self, key: Key) -> None:
        self._keys[key] = None
        self._size += state_size(key)
