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
from threading import Lock
from typing import Any

import msgspec
import orjson
from msgspec import Raw

from tidemark.protocol.changelog.models import TableSchema
from tidemark.protocol.errors import ChangeLogError, ProtocolError, TidemarkError
from tidemark.runtime.changelog.documents.columns import as_type

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
    """The events of a batch that are kept apart. Several threads append to it.

    Attributes:
        most_bytes: Of their documents.
    """

    def __init__(self) -> None:
        self.most_bytes = QUARANTINE_BYTES
        self._misfits: list[Misfit] = []
        self._bytes = 0
        self._adding = Lock()

    def add(self, misfits: Sequence[Misfit]) -> None:
        """Adds events. Raises ChangeLogError ``TM-LOG-010`` if there are too many: then the cause is another one."""
        with self._adding:
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


class Unfit(ChangeLogError):
    """A document that does not fit its collection, and can be kept apart."""


def misfit(schema: TableSchema, column: str, offset: int) -> ChangeLogError:
    """``TM-LOG-010`` for a value that a stored column cannot hold."""
    known = next((one for one in schema.columns if one.name == column), None)
    if known is None:
        return ChangeLogError(
            "TM-LOG-010",
            f"{schema.collection}: the _meta of the event at offset {offset} is malformed (for {column})",
            remedy=(
                "The connector must be fixed: op is one of c, u, d, t; source.ts_ms is in milliseconds; "
                "source.txid is a number or a string; unchanged is a list of column names."
            ),
        )
    source = known.in_source
    return Unfit(
        "TM-LOG-010",
        f"{schema.collection}: the column {source!r} of type {known.type} cannot hold the value of the event at "
        f"offset {offset}",
        remedy=f"Store the column as text, by  text: [{json.dumps(source, ensure_ascii=False)}]  in the entry of "
        f"table {schema.collection.replace('/', '.')} in the capture file's tables:, or change its type at the source.",
    )


def unknown_member(schema: TableSchema, member: str, offset: int) -> Unfit:
    """``TM-LOG-010`` for a document with a member that the schema lacks."""
    return Unfit(
        "TM-LOG-010",
        f"{schema.collection}: the event at offset {offset} has a member {member!r}, but the schema has no such column",
        remedy="The connector must be fixed: it has to send a sourcedSchema before such a document.",
    )


def bad_values(schema: TableSchema, columns: Sequence[str], offset: int) -> Unfit:
    """``TM-LOG-010`` for an event that its connector marked."""
    return Unfit(
        "TM-LOG-010",
        f"{schema.collection}: the event at offset {offset} has bad values in {', '.join(columns)}",
        remedy=(
            "`on_bad_value: quarantine` keeps these events apart. Fix the rows at the source: the next "
            "event of each row is in its table again."
        ),
    )


def not_json(schema: TableSchema, document: bytes, offset: int) -> TidemarkError:
    """``TM-LOG-010`` for a document with a text that no column can hold, ``TM-PRO-001`` for one that is no JSON."""
    if _json_with_bad_texts(document):
        return Unfit(
            "TM-LOG-010",
            f"{schema.collection}: a text in the document at offset {offset} is not UTF-8 or holds half of a "
            "surrogate pair, or it is nested too deep",
            remedy="Fix the row at the source, or leave the column out with exclude in the entry of its table.",
        )
    return ProtocolError(
        "TM-PRO-001",
        f"{schema.collection}: the document at offset {offset} is not JSON, is nested too deep, or a text in "
        "it holds half of a surrogate pair",
        remedy=(
            "Have the connector send one JSON object per line. PostgreSQL's json columns may hold such an "
            "escape (\\ud800 to \\udfff by itself) or such nesting: exclude the column in the capture "
            "file. Fixing the row is enough only if the source's log does not hold it."
        ),
    )


def _json_with_bad_texts(document: bytes) -> bool:
    """Whether it is a JSON object, apart from invalid texts and its depth."""
    try:
        return isinstance(json.loads(document.decode("utf-8", "replace")), dict)
    except RecursionError:
        return True
    except ValueError:
        return False


def _document(misfit: Misfit) -> bytes:
    members = _members(misfit.document)
    meta = as_type(members.get("_meta", b"null"), dict[str, Raw]) or {}
    # A document that no parser accepts as a whole counts as no JSON.
    is_json = isinstance(as_type(misfit.document, Any), dict)
    sources = {column.name: column.in_source for column in misfit.schema.columns}
    key = {
        name: orjson.Fragment(bytes(members[source]))
        for name in misfit.schema.key
        if as_type(members.get(source := sources.get(name, name), b""), Any) is not None
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
