"""Whether an object store keeps its promise: of several creators of one object, one succeeds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from uuid import uuid4

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing

FOLDER = ".probe"

_CREATORS = 8

_RACES = 8
"""A store that looks first and writes then was caught by 6 of 10 races: Adobe's S3Mock 4.7, on a busy machine."""


def probe(store: Store) -> float:
    """Creates throw-away objects, each by several creators at once.

    Returns:
        The time by the clock of the store, in seconds since 1970.

    Raises:
        ChangeLogError: ``TM-LOG-014`` more than one creator succeeded, or none; ``TM-LOG-008`` the store cannot be
            written.
    """
    paths = [f"{FOLDER}/{uuid4().hex}" for _ in range(_RACES)]
    with writing(store.where(FOLDER)), ThreadPoolExecutor(_CREATORS, thread_name_prefix="probe") as creators:
        try:
            for path in paths:
                won = sum(creators.map(partial(_created, store, path), range(_CREATORS)))
                if won != 1:
                    found = f"of {_CREATORS} creators of one object {won} won"
                    raise ChangeLogError("TM-LOG-014", f"{store.place}: {found}")
            return store.modified(path)
        finally:
            list(creators.map(store.delete, paths))


def _created(store: Store, path: str, number: int) -> bool:
    try:
        store.create(path, str(number).encode())
    except FileExistsError:
        return False
    return True
