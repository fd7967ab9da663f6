"""Readers that a log knows by name: it keeps what they have not read.

Each has a file of its own, which it alone writes: ``consumers/<name>.json``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from pydantic import ValidationError

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.models import Consumer
from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store, StoreUnavailableError

WRITTEN_SECONDS = 10.0
"""The usual least time between two writes of a consumer's file."""

ALIVE_SECONDS = 60.0
"""After this time the file is written again, whether or not the consumer has read anything: so it is seen."""


def consumers(store: Store) -> list[Consumer]:
    """The consumers of the log in a store, the one that is furthest behind first.

    Raises:
        ChangeLogError: ``TM-LOG-002`` a file is damaged; others as ``unreadable``.
    """
    try:
        paths = [entry.path for entry in store.list(layout.CONSUMERS)]
    except OSError as error:
        raise unreadable(store.where(layout.CONSUMERS), error) from None
    found = (_read(store, path) for path in paths if path.endswith(".json"))
    return sorted((one for one in found if one is not None), key=lambda one: (one.position, one.name))


def _read(store: Store, path: str) -> Consumer | None:
    """A consumer; None where it was removed meanwhile."""
    where = store.where(path)
    try:
        return Consumer.model_validate_json(store.read(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(where, error) from None
    except ValidationError:
        raise ChangeLogError(
            "TM-LOG-002",
            f"{where} is damaged: it is not a consumer",
            remedy=f"Remove {where}. The consumer writes it again when it reads on.",
        ) from None


def register(store: Store, name: str, position: int) -> None:
    """Says that a consumer needs nothing below a position.

    Raises:
        ChangeLogError: ``TM-LOG-019`` it cannot be written; ``TM-LOG-017`` the store does not answer.
    """
    one = Consumer(name=name, position=position, updated=datetime.now(UTC))
    with _changing(store, name):
        store.replace(_path(name), one.model_dump_json().encode())


def forget(store: Store, name: str) -> bool:
    """Removes a consumer. Returns whether there was one.

    Raises:
        ChangeLogError: As ``register``.
    """
    with _changing(store, name):
        found = store.exists(_path(name))
        store.delete(_path(name))
    return found


@contextmanager
def _changing(store: Store, name: str) -> Iterator[None]:
    where = store.where(_path(name))
    try:
        yield
    except StoreUnavailableError as error:
        raise unreadable(where, error) from None
    except OSError as error:
        what = error.strerror or str(error)
        raise ChangeLogError("TM-LOG-019", f"consumer {name}: {where} cannot be changed: {what}") from None


def _path(name: str) -> str:
    return f"{layout.CONSUMERS}/{layout.consumer_name(name)}"


class Registration:
    """A consumer that says how far it is, and not at each step: in an object store each time is a request.

    So what the log knows may be somewhat behind, never ahead. What could not be written is written later.

    Args:
        store: The log's.
        name: Of the consumer.
        every: The least seconds between two times that it says so.
        clock: Returns seconds.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        every: float = WRITTEN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self._store = store
        self._every = every
        self._clock = clock
        self._position: int | None = None
        self._written: int | None = None
        self._at: float | None = None

    def note(self, position: int) -> None:
        """It needs nothing below this position any more. Raises as ``register``."""
        self._position = position
        pause = self._every if position != self._written else ALIVE_SECONDS
        if self._at is None or self._clock() - self._at >= pause:
            self._write()

    def close(self) -> None:
        """Says what is not said yet. Raises as ``register``."""
        if self._position is not None and self._position != self._written:
            self._write()

    def _write(self) -> None:
        assert self._position is not None, "noted before"
        self._at = self._clock()
        register(self._store, self.name, self._position)
        self._written = self._position
