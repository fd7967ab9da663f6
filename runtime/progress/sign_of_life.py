"""The sign of life of a capture whose log is in an object store, where no lock of one machine reaches the others.

``LOG/status.json`` is a copy of the status file. It is replaced every ten seconds while the capture runs, and once more
at its end. So another machine sees how the capture goes, and whether one runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import orjson

from tidemark.protocol.changelog.unreadable import unreadable
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.progress.quantities import duration
from tidemark.runtime.progress.state_folder import STATUS

EVERY_SECONDS = 10.0

DEAD_SECONDS = 30.0
"""A capture that runs gives several signs of life in this time."""


class SignOfLife:
    """Gives it from a thread of its own: a store that is away answers late.

    Args:
        store: Of the log. It should not try long.
        report: The content of the status file.

    Attributes:
        error: Why the last one could not be given; None if it could.
    """

    def __init__(self, store: Store, report: Callable[[], dict[str, Any]]) -> None:
        self.error: ChangeLogError | None = None
        self._store = store
        self._report = report
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sign-of-life", daemon=True)

    def begin(self) -> None:
        """Gives signs until ``end``."""
        self._thread.start()

    def end(self) -> None:
        """Gives the last one."""
        if self._thread.ident is not None:
            self._over.set()
            self._thread.join()
            self._give()

    def _run(self) -> None:
        self._give()
        while not self._over.wait(EVERY_SECONDS):
            self._give()

    def _give(self) -> None:
        try:
            with writing(self._store.where(STATUS)):
                self._store.replace(STATUS, as_json(self._report()))
            self.error = None
        except ChangeLogError as error:
            self.error = error


def as_json(status: dict[str, Any]) -> bytes:
    """A status as the bytes of its file."""
    return orjson.dumps(status, default=str, option=orjson.OPT_NON_STR_KEYS)


def given(store: Store) -> dict[str, Any] | None:
    """The last sign of life in a log; None where there is none, or it cannot be read."""
    try:
        return as_status(store.read(STATUS))
    except OSError:
        return None


def as_status(data: bytes) -> dict[str, Any] | None:
    """A status from the bytes of its file; None if they are none."""
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return content if isinstance(content, dict) else None


def refuse_while_alive(store: Store, now: float, folder: str) -> None:
    """Makes sure that no other capture writes a log in an object store.

    Args:
        store: That holds it.
        now: The time, by the clock of the store.
        folder: The id of this capture's state folder. Whoever gave a sign with it has ended: its lock is ours.

    Raises:
        ChangeLogError: ``TM-LOG-015`` one gave a sign of life shortly ago; others as ``unreadable``.
    """
    try:
        last, at = as_status(store.read(STATUS)), store.modified(STATUS)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unreadable(store.where(STATUS), error) from None
    age = now - at
    if last is None or last.get("ended") or last.get("folder") == folder or age >= DEAD_SECONDS:
        return
    who = f"process {last.get('pid')} on {last.get('host')}"
    raise ChangeLogError("TM-LOG-015", f"{who} writes {store.place}: it gave a sign of life {duration(age)} ago")
