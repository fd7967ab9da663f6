"""Events that do not fit their collection: they are kept whole in a collection of their own.

Their document does not fit the announced schema, or is no JSON, or their connector marked them by ``_meta.bad``. An
event keeps its offset. Later events of the same key are in the key's own collection, with higher offsets, so a replay
can tell that the event is not the newest.
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from msgspec import Raw

from tidemark.protocol.changelog.models import TableSchema
from tidemark.protocol.errors import ChangeLogError, TidemarkError
from tidemark.runtime.changelog.columns import as_type

QUARANTINE_BYTES = 256 * 1024 * 1024
"""Bytes of documents that one commit may keep apart. They are held in memory until the commit."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """An event that is kept apart.

    Attributes:
        schema: Of its collection.
        document: The unchanged document.
        reason: The error, without a value.
    """

    schema: TableSchema
    offset: int
    document: bytes
    reason: TidemarkError


class Quarantine:
    """The events of a batch that are kept apart. Two threads append to it.

    Attributes:
        most_bytes: Of their documents.
    """

    def __init__(self) -> None:
        self.most_bytes = QUARANTINE_BYTES
        self._misfits: list[Misfit] = []
        self._bytes = 0

    def add(self, misfits: Sequence[Misfit]) -> None:
        """Adds events. Raises ChangeLogError ``TM-LOG-010`` if there are too many: then the cause is another one."""
        self._misfits += misfits
        self._bytes += sum(len(misfit.document) for misfit in misfits)
        if self._bytes > self.most_bytes:
            reason = misfits[-1].reason
            raise ChangeLogError(
                "TM-LOG-010",
                f"documents of more than {self.most_bytes >> 20} MB in one commit do not fit; the last one: "
                f"{reason.message}",
                remedy=reason.remedy,
            )

    @property
    def reasons(self) -> dict[str, tuple[int, TidemarkError]]:
        """By collection: the number of events, and the reason of the first one."""
        found: dict[str, tuple[int, TidemarkError]] = {}
        for misfit in self._misfits:
            count, reason = found.get(misfit.schema.collection, (0, misfit.reason))
            found[misfit.schema.collection] = count + 1, reason
        return found

    def take(self) -> tuple[list[bytes], array[int]]:
        """The documents of ``QUARANTINE_SCHEMA`` in the order of their offsets, and these."""
        misfits = sorted(self._misfits, key=lambda misfit: misfit.offset)
        return [_document(misfit) for misfit in misfits], array("q", [misfit.offset for misfit in misfits])


def _document(misfit: Misfit) -> bytes:
    members = _members(misfit.document)
    meta = as_type(members.get("_meta", b"null"), dict[str, Raw]) or {}
    # A document that no parser accepts as a whole counts as no JSON.
    is_json = isinstance(as_type(misfit.document, Any), dict)
    key = {
        name: orjson.Fragment(bytes(members[name]))
        for name in misfit.schema.key
        if as_type(members.get(name, b""), Any) is not None
    }
    whole: dict[str, Any] = {
        # Here each event is a new row, whatever its operation on its own row.
        "_meta": {"op": "c", "source": _source(meta)},
        "collection": misfit.schema.collection,
        "op": as_type(meta.get("op", b"null"), str | None),
        "key": key or None,
        "reason": misfit.reason.message,
        "bad": orjson.Fragment(bytes(meta["bad"])) if is_json and "bad" in meta else None,
        "document": orjson.Fragment(misfit.document) if is_json else None,
        "raw": None if is_json else base64.b64encode(misfit.document).decode(),
    }
    return orjson.dumps(whole)


class _Source(msgspec.Struct):
    """The members of ``_meta.source`` that fit columns of the log."""

    ts_ms: int | None = None
    txid: str | int | None = None
    loc: Raw = Raw(b"null")
    cursor: Raw = Raw(b"null")


def _source(meta: dict[str, Raw]) -> dict[str, Any]:
    source = as_type(meta.get("source", b"null"), _Source)
    if source is None:
        return {}
    places = {name: bytes(raw) for name, raw in (("loc", source.loc), ("cursor", source.cursor))}
    members: dict[str, Any] = {name: orjson.Fragment(raw) for name, raw in places.items() if raw != b"null"}
    return {**members, "ts_ms": source.ts_ms, "txid": source.txid}


def _members(document: bytes) -> dict[str, Raw]:
    """The members of a document; without those whose text is invalid."""
    members = as_type(document, dict[str, Raw])
    if members is None:
        try:
            found = json.loads(document.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return {}
        members = {name: Raw(json.dumps(value).encode()) for name, value in found.items()}
    return dict(members)
