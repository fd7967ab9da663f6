"""A change log as the writer of version 2 wrote it, and the kept tables of that time. No code of the product is used.

The log was compared once with one that the last commit with version 2 (285019c^) wrote from the same events, and given
that one's id and times: all files were equal byte by byte, but for ``uncompressed``, a size in memory that is a byte or
two smaller here. The kept table has what the table had that ``materialize`` of that commit made from it, but for sizes
and statistics of its file. That table was kept further too, by hand.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

ORDERS, ITEMS = "public/orders", "public/items"
LOG_ID = "7d0cb3c4-5d0f-4ac5-8ed8-5a5dfd1f1c0e"
IDLE = 95
"""Commits in which nothing happened, up to the summary of some events."""

COMMITTED = datetime(2026, 1, 1, 8, 0, 0, 250_000, tzinfo=UTC)
"""When the source committed what its log has."""

Row = dict[str, Any]

_META: dict[str, pa.DataType] = {
    "_op": pa.string(),
    "_offset": pa.int64(),
    "_commit_ts": pa.timestamp("us", "UTC"),
    "_loc": pa.string(),
    "_txid": pa.string(),
    "_snapshot": pa.bool_(),
    "_before": pa.string(),
    "_unchanged": pa.list_(pa.string()),
}
_TYPES: dict[str, pa.DataType] = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "decimal(12,2)": pa.decimal128(12, 2),
    "boolean": pa.bool_(),
}


@dataclass(frozen=True)
class OldSchema:
    """A table's columns, whose key is ``id``."""

    collection: str
    types: dict[str, str]

    @property
    def stored(self) -> dict[str, Any]:
        """As a commit says it."""
        columns = [
            {"name": name, "type": type_, "nullable": name != "id", "json_text": False, "description": ""}
            for name, type_ in self.types.items()
        ]
        return {"collection": self.collection, "columns": columns, "key": ["id"]}

    @property
    def fingerprint(self) -> str:
        text = json.dumps(self.stored, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def arrow(self) -> pa.Schema:
        return pa.schema({**{name: _TYPES[type_] for name, type_ in self.types.items()}, **_META})


_ORDER = OldSchema(ORDERS, {"id": "bigint", "note": "string", "total": "decimal(12,2)"})
_PAID_ORDER = OldSchema(ORDERS, {**_ORDER.types, "paid": "boolean"})
_ITEM = OldSchema(ITEMS, {"id": "bigint", "name": "string"})


def row(op: str, *, before: str | None = None, unchanged: Sequence[str] = (), **values: Any) -> Row:
    """An event; one of a backfill with the op ``r``."""
    snapshot = op == "r"
    return {
        **values,
        "_op": "c" if snapshot else op,
        "_txid": None if snapshot else "77",
        "_snapshot": snapshot,
        "_before": before,
        "_unchanged": list(unchanged) or None,
    }


COMMITS: tuple[Sequence[tuple[OldSchema, Sequence[Row]]] | None, ...] = (
    None,
    (
        (_ORDER, [row("r", id=number, note=f"note {number}", total=Decimal(number)) for number in (1, 2, 3)]),
        (_ITEM, [row("r", id=number, name=f"name {number}") for number in (1, 2)]),
    ),
    (
        (
            _ORDER,
            [
                row("u", id=1, total=Decimal("9.50"), unchanged=("note",), before='{"id":1}'),
                row("d", id=2),
                row("c", id=4, note=None, total=None),
            ],
        ),
    ),
    ((_ITEM, [row("t")]),),
    None,
    ((_ITEM, [row("c", id=3, name="name 3")]),),
    *([()] * IDLE),
    ((_PAID_ORDER, [row("u", id=3, note="paid", total=Decimal(3), paid=True)]),),
)
"""What each commit has; None is the claim of a new epoch."""

SUMMARY = 100
"""The commit of the last summary; events came before it and after it."""

KEPT = 10
"""Where the kept table stands: at the summary."""

ORDER_ROWS = [
    (1, "note 1", Decimal("9.50"), None),
    (3, "paid", Decimal("3.00"), True),
    (4, None, None, None),
]
"""Of the table as of the log's end: ``id``, ``note``, ``total`` and ``paid``."""

ITEM_ROWS = [(3, "name 3")]
END = 11
"""One past the last offset."""

EMPTIED = 9
"""One past the offset of the TRUNCATE."""

OFFSETS = {ORDERS: [0, 1, 2, 5, 6, 7, 10], ITEMS: [3, 4, 8, 9]}
"""Of the events."""


@dataclass
class OldLog:
    """Writes the log.

    Args:
        root: Its folder, which does not exist.
        log_id: Its id.
        created: When it was created.
        times: Of its commits; by default one each second.
    """

    root: Path
    log_id: str = LOG_ID
    created: datetime = COMMITTED
    times: Sequence[datetime] = tuple(COMMITTED + timedelta(seconds=number) for number in range(len(COMMITS)))
    _epoch: int = 0
    _offset: int = 0
    _claims: dict[str, int] = field(default_factory=dict)
    _state: dict[str, Any] = field(default_factory=dict)
    _schemas: dict[str, Any] = field(default_factory=dict)
    _totals: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        (self.root / "commits").mkdir(parents=True)
        header = {"format_version": 2, "log_id": self.log_id, "capture": "shop", "created": _text(self.created)}
        (self.root / "tidemark.json").write_text(json.dumps(header, indent=2))
        for number, parts in enumerate(COMMITS):
            self._commit(number, parts)

    def _commit(self, number: int, parts: Sequence[tuple[OldSchema, Sequence[Row]]] | None) -> None:
        if parts is None:
            self._epoch += 1
            self._claims[str(self._epoch)] = number
        first, change = self._offset, {} if parts is None else {"cursor": number}
        self._state |= change
        segments = [self._segment(number, place, *part) for place, part in enumerate(parts or ())]
        new = {
            schema.fingerprint: schema.stored for schema, _ in parts or () if schema.fingerprint not in self._schemas
        }
        self._schemas |= new
        commit = {
            "number": number,
            "epoch": self._epoch,
            "time": _text(self.times[number]),
            "first_offset": first,
            "next_offset": self._offset,
            "checkpoints": int(parts is not None),
            "state": {"updated": change, "merge_patch": True},
            "schemas": new,
            "segments": segments,
            "replacements": [],
        }
        self._json(f"{number:020}", commit)
        if number % SUMMARY == 0:
            kept = ("number", "epoch", "time", "next_offset")
            summary = {
                **{name: commit[name] for name in kept},
                "claims": self._claims,
                "state": self._state,
                "schemas": self._schemas,
                "totals": self._totals,
                "replaced": False,
            }
            self._json(f"checkpoint-{number:020}", summary)

    def _segment(self, number: int, place: int, schema: OldSchema, rows: Sequence[Row]) -> dict[str, Any]:
        path = f"data/{schema.collection}/{number:020}-{self._epoch}-{place}.parquet"
        committed = [None if one["_snapshot"] else COMMITTED for one in rows]
        first = self._offset
        self._offset += len(rows)
        content = pa.Table.from_pylist(
            [
                {**one, "_offset": first + index, "_commit_ts": time, "_loc": f'{{"at":{first + index}}}'}
                for index, (one, time) in enumerate(zip(rows, committed, strict=True))
            ],
            schema.arrow,
        )
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        plain = [name for name in (*schema.types, *_META) if name not in ("_offset", "_unchanged")]
        dictionaries: Any = [*plain, "_unchanged.list.element"]
        pq.write_table(
            content,
            self.root / path,
            compression="zstd",
            dictionary_pagesize_limit=65_536,
            use_dictionary=dictionaries,
            column_encoding={"_offset": "DELTA_BINARY_PACKED"},
            write_page_checksum=True,
        )
        size = (self.root / path).stat().st_size
        totals = self._totals.get(schema.collection, {"events": 0, "bytes": 0})
        self._totals[schema.collection] = {
            "events": totals["events"] + len(rows),
            "bytes": totals["bytes"] + size,
            "fingerprint": schema.fingerprint,
        }
        keys = [one["id"] for one in rows if one["_op"] != "t"]
        read = [one["id"] for one in rows if one["_snapshot"]]
        times = [_text(time) for time in committed if time is not None]
        run = {"first_offset": first, "last_offset": self._offset - 1, "rows": len(read)}
        return {
            "collection": schema.collection,
            "path": path,
            "rows": len(rows),
            "size": size,
            "uncompressed": content.nbytes,
            "first_offset": first,
            "last_offset": self._offset - 1,
            "first_commit_ts": times[0] if times else None,
            "last_commit_ts": times[0] if times else None,
            "fingerprint": schema.fingerprint,
            "snapshot_rows": len(read),
            "truncated_at": first if rows[0]["_op"] == "t" else None,
            "key_min": [min(keys)] if keys else None,
            "key_max": [max(keys)] if keys else None,
            "runs": [{**run, "first": [read[0]], "last": [read[-1]]}] if read else [],
        }

    def _json(self, name: str, content: dict[str, Any]) -> None:
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        (self.root / "commits" / f"{name}.json").write_text(text)


def write_kept_orders(warehouse: Path, log: Path, log_id: str = LOG_ID) -> Path:
    """Keeps the current orders as of the summary, before they had the column ``paid``. Returns the table's folder."""
    path = warehouse / ORDERS / "current"
    columns = pa.schema([_ORDER.arrow.field(name) for name in (*_ORDER.types, "_offset", "_commit_ts")])
    DeltaTable.create(
        str(path),
        columns,
        description="current of public.orders, kept by tidemark",
        configuration={
            "delta.checkpointInterval": "100",
            "delta.enableDeletionVectors": "false",
            "delta.logRetentionDuration": "interval 7 days",
            "delta.deletedFileRetentionDuration": "interval 1 days",
        },
        commit_properties=_of_commit(log_id, 0, 0),
    )
    rows: list[Row] = [
        {"id": 1, "note": "note 1", "total": Decimal("9.50"), "_offset": 5, "_commit_ts": COMMITTED},
        {"id": 3, "note": "note 3", "total": Decimal(3), "_offset": 2, "_commit_ts": None},
        {"id": 4, "note": None, "total": None, "_offset": 7, "_commit_ts": COMMITTED},
    ]
    content = pa.Table.from_pylist(rows, columns)
    write_deltalake(str(path), content, mode="append", commit_properties=_of_commit(log_id, KEPT, 1))
    known = {"position": KEPT, "complete_to": KEPT, "set_aside": None, "removed": 0, "vacuumed": _text(COMMITTED)}
    newest = (log / "commits" / f"{SUMMARY:020}.json").read_bytes()
    memory = {
        "tables": {f"{ORDERS} current": known},
        "commit": SUMMARY,
        "digest": hashlib.sha256(newest).hexdigest(),
    }
    (warehouse / "_tidemark" / log_id).mkdir(parents=True)
    (warehouse / "_tidemark" / log_id / "tables.json").write_text(json.dumps(memory, indent=1))
    return path


def _of_commit(log_id: str, position: int, version: int) -> CommitProperties:
    target = f"{ORDERS} current"
    return CommitProperties(
        custom_metadata={"tidemark.log": log_id, "tidemark.target": target, "tidemark.position": position},
        app_transactions=[
            Transaction(f"tidemark:{log_id}", position),
            Transaction(f"tidemark:{log_id}:{target}", version),
        ],
        max_commit_retries=0,
    )


def _text(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
