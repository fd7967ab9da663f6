"""What the last verifications of a capture's tables have found."""

from __future__ import annotations

from typing import Any

from tidemark.protocol.store import Store
from tidemark.protocol.verification.files import FOLDER, VERIFIED, Verified, read_said


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
