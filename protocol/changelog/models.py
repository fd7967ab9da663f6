"""Models of the change log's JSON files. The format version is ``FORMAT_VERSION``; a reader refuses a newer one."""

from __future__ import annotations

import hashlib
from datetime import datetime

import orjson
from pydantic import BaseModel, ConfigDict, Field

from protocol.messages import Json, JsonObject

FORMAT_VERSION = 1

DOCUMENT_COLUMN = "_doc"
"""The one column, of JSON text, of a collection whose connector gave no closed schema."""

META_COLUMNS: dict[str, str] = {
    "_op": "string",
    "_offset": "bigint",
    "_commit_ts": "timestamp",
    "_loc": "string",
    "_txid": "string",
    "_snapshot": "boolean",
    "_before": "string",
    "_unchanged": "array<string>",
}
"""Columns that follow the table's own in every segment, with their Spark types, in this order.

``_op`` is one of c, u, d, t. ``_offset`` counts events of the whole log from 0. ``_commit_ts`` is when the source
committed, null where the source does not say (backfill rows). ``_loc`` is the JSON text of ``_meta.source.loc`` or
``cursor``. ``_before`` is the JSON text of ``_meta.before``. ``_unchanged`` names the columns the log did not carry.
"""


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LogHeader(Model):
    """``tidemark.json``. ``log_id`` is a random UUID: two logs of one capture are different logs."""

    format_version: int = FORMAT_VERSION
    log_id: str
    capture: str
    created: datetime


class Column(Model):
    """One column of a table, as stored.

    Attributes:
        name: As in the source, case kept.
        type: A Spark SQL type: boolean, bigint, double, decimal(p,s), string, date, timestamp (an instant, UTC),
            timestamp_ntz, binary, or array<…> of these.
        nullable: Whether the source allows nulls. Deletes and partial updates leave columns null all the same.
        json_text: The string holds JSON text.
        description: The source's comment.
    """

    name: str
    type: str
    nullable: bool = True
    json_text: bool = False
    description: str = ""


class TableSchema(Model):
    """The columns of a collection's segments from some commit on. ``key`` names columns; empty when there is no key."""

    collection: str
    columns: list[Column]
    key: list[str] = []

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that identify the schema."""
        text = orjson.dumps(self.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(text).hexdigest()[:16]


class Segment(Model):
    """One Parquet file of one collection: rows sorted by ``_offset``, columns as its schema plus ``META_COLUMNS``.

    Attributes:
        path: Relative to the log.
        rows: Number of rows.
        size: Of the file, bytes.
        first_offset: Of its first row. Offsets of other collections may lie between.
        last_offset: Of its last row, inclusive.
        first_commit_ts: Smallest ``_commit_ts``, None when no row has one.
        last_commit_ts: Largest ``_commit_ts``.
        fingerprint: Of the ``TableSchema``.
        snapshot_rows: How many rows come from backfills.
    """

    collection: str
    path: str
    rows: int
    size: int
    first_offset: int
    last_offset: int
    first_commit_ts: datetime | None = None
    last_commit_ts: datetime | None = None
    fingerprint: str
    snapshot_rows: int = 0


class StateChange(Model):
    """What a commit did to the connector's state: a merge patch (RFC 7396), or the whole of it. By default nothing."""

    updated: Json = Field(default_factory=dict)
    merge_patch: bool = True


class Commit(Model):
    """``commits/<number>.json``. What it names exists; what no commit names does not.

    Attributes:
        number: From 0, without gaps.
        epoch: Of the writer. A writer's first commit has a new epoch and no segments: it fences all older writers.
        first_offset: Of the first event of this commit, or what it would be.
        next_offset: One past the last event.
        checkpoints: How many of the connector's checkpoints it covers.
        schemas: Those this commit uses for the first time, by fingerprint.
    """

    number: int
    epoch: int
    time: datetime
    first_offset: int
    next_offset: int
    checkpoints: int = 0
    state: StateChange = StateChange()
    schemas: dict[str, TableSchema] = {}
    segments: list[Segment] = []


class CollectionTotals(Model):
    """Events of one collection in the whole log."""

    events: int = 0
    bytes: int = 0
    fingerprint: str = ""


class Summary(Model):
    """All that a writer or a reader needs to know of the commits up to ``number``, except their segments.

    Attributes:
        claims: The first commit of each epoch, for the newest epochs. They tell which files a dead writer left behind.
    """

    number: int
    epoch: int
    time: datetime
    next_offset: int
    claims: dict[int, int] = {}
    state: JsonObject = Field(default_factory=dict)
    schemas: dict[str, TableSchema] = {}
    totals: dict[str, CollectionTotals] = {}
