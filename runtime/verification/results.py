"""What the last verifications of a capture's tables have found."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any

from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.store import Store
from tidemark.protocol.verification.files import FOLDER, VERIFIED, Verified, read_said

KNOWN_SECONDS = 30.0
"""How long a monitor is told what was found last: a look costs requests of an object store."""


def results_of(store: Store) -> dict[str, Verified]:
    """By table, as ``schema.table``. Raises as ``read_said``.

    Args:
        store: Of the change log.
    """
    paths = [entry.path for entry in store.list(FOLDER) if entry.path.endswith(f"/{VERIFIED}")]
    found = [said for path in paths if (said := read_said(store, path, Verified)) is not None]
    return {said.collection.replace("/", "."): said for said in found}


def as_json(found: dict[str, Verified]) -> dict[str, dict[str, Any]]:
    """The same for programs."""
    return {name: said.model_dump(mode="json", exclude={"collection", "run"}) for name, said in found.items()}


class KnownResults:
    """The same for monitors, who ask again and again. From any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._looked_at = -KNOWN_SECONDS
        self._known: dict[str, Verified] = {}

    def __call__(self) -> dict[str, Verified]:
        """Nothing new while the log cannot be read, which the capture itself tells."""
        with self._lock:
            if time.monotonic() - self._looked_at >= KNOWN_SECONDS:
                try:
                    self._known = results_of(self._store)
                except (ChangeLogError, OSError):
                    return self._known
                self._looked_at = time.monotonic()
            return self._known
