"""Whether an object store keeps its promise: of several creators of one object, one succeeds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing

FOLDER = ".probe"

_CREATORS = 8
_ROUNDS = 2


def probe(store: Store) -> float:
    """Creates throw-away objects, each by several creators at once.

    Returns:
        The time by the clock of the store, in seconds since 1970.

    Raises:
        ChangeLogError: ``TM-LOG-014`` more than one creator succeeded, or none; ``TM-LOG-008`` the store cannot be
            written.
    """
    now = 0.0
    with ThreadPoolExecutor(_CREATORS, thread_name_prefix="probe") as creators:
        for _ in range(_ROUNDS):
            path = f"{FOLDER}/{uuid4().hex}"
            with writing(store.where(path)):
                try:
                    won = sum(creators.map(lambda number, path=path: _created(store, path, number), range(_CREATORS)))
                    now = store.modified(path)
                finally:
                    store.delete(path)
            if won != 1:
                raise ChangeLogError("TM-LOG-014", f"{store.place}: of {_CREATORS} creators of one object {won} won")
    return now


def _created(store: Store, path: str, number: int) -> bool:
    try:
        store.create(path, str(number).encode())
    except FileExistsError:
        return False
    return True
