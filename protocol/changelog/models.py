"""Models of the change log's JSON files. The format version is ``FORMAT_VERSION``; readers know ``READ_VERSIONS``."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from tidemark.protocol.changelog.log_start import LogStart
from tidemark.protocol.messages import Json, JsonObject

FORMAT_VERSION = 5
"""What a writer writes. It makes a log of an earlier version that it knows one of this version."""

READ_VERSIONS = (2, 3, 4, FORMAT_VERSION)
"""What this version reads. Version 2 has no generations: each table has one, which is whole. Version 3 has no compacted
commits. Version 4 begins with commit 0."""

LONGEST_RUN = 16_384
"""The most rows of a run. Keys often ascend from a chunk of one range to a chunk of another. A run over both seems to
hold all keys between them, so it must be short. Readers can also divide the work of several runs."""

MOST_RUNS = 128
"""The most runs that a segment states. A backfill in key order has one for each range that is read at a time. The order
of more runs is of no use to a reader, and the commit, which every reader reads whole, must stay small."""

LONGEST_KEY_VALUE = 256
"""The most bytes of a string or binary value that is stated as a key: the commit must stay small."""

KeyValue = StrictBool | StrictInt | StrictStr
"""A value of a key column, in JSON.

boolean and bigint are themselves, string its text, binary lower-case hex. date, timestamp and timestamp_ntz are ISO
8601 of fixed width: ``2026-01-31``, ``2026-01-31T08:00:00.000000Z``, and the latter without the ``Z``. ``decimal(p,s)``
is plain text with s digits after the point, ``-12.50``, and its order is that of the numbers, not of the text.
Values of other types are not stated, nor are texts and binary values of more than ``LONGEST_KEY_VALUE`` bytes.

Segments are cut into runs by the order of the column's values: of strings, by code points (which is also that of their
UTF-8 bytes); of binary values, by unsigned bytes. Spark and Arrow order alike.
"""

_STATED = frozenset({"boolean", "bigint", "string", "binary", "date", "timestamp", "timestamp_ntz"})


def is_stated(type_: str) -> bool:
    """Whether values of a Spark SQL type, as in ``Column.type``, can be stated: all but double and arrays."""
    return type_ in _STATED or type_.startswith("decimal(")


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
        name: In the files, case kept. No other column of the collection has it, or one that differs in case only.
        type: A Spark SQL type: boolean, bigint, double, decimal(p,s), string, date, timestamp (an instant, UTC),
            timestamp_ntz, binary, or array<…> of these.
        nullable: Whether the source allows nulls. Deletes and partial updates leave columns null all the same.
        json_text: The string holds JSON text.
        description: The source's comment.
        source: What the source calls it, where that is not its name.
        spanning: Its name where events of several generations are read together, where that is not its name: an earlier
            generation has values of another type under it.
        id: Which column of the source it is, whatever its name; None: its name in the source tells. Columns of one
            generation are the same column if their ids are equal.
        fill: The value in it of events whose schema does not have the column, as JSON in the form of documents; of JSON
            text the text. None for null.
    """

    name: str
    type: str
    nullable: bool = True
    json_text: bool = False
    description: str = ""
    source: str | None = None
    spanning: str | None = None
    id: str | None = None
    fill: Json | None = None

    @property
    def in_source(self) -> str:
        """The column's name in the source."""
        return self.name if self.source is None else self.source

    @property
    def in_span(self) -> str:
        """The column's name where events of several generations are read together."""
        return self.spanning or self.name


class TableSchema(Model):
    """The columns of a collection's segments from some commit on. ``key`` names columns; empty when there is no key."""

    collection: str
    columns: list[Column]
    key: list[str] = []

    @property
    def fingerprint(self) -> str:
        """Sixteen hex digits that identify the schema."""
        said = self.model_dump(mode="json")
        for column in said["columns"]:
            for name in ("source", "spanning", "id", "fill"):  # Version 2 has none, and its fingerprints are the same.
                if column[name] is None:
                    del column[name]
        text = orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(text).hexdigest()[:16]


QUARANTINE = "_quarantine"
"""The collection of events that are kept apart from their own collection."""

QUARANTINE_SCHEMA = TableSchema(
    collection=QUARANTINE,
    columns=[
        Column(name="collection", type="string", nullable=False, description="Of the event."),
        Column(name="op", type="string", description="Of the event; here each is a row of its own."),
        Column(name="key", type="string", json_text=True, description="Of its row, by column, as far as it is known."),
        Column(name="reason", type="string", nullable=False, description="Why it is here."),
        Column(name="bad", type="string", json_text=True, description="Bad values by column, as the source has them."),
        Column(name="document", type="string", json_text=True, description="As the connector sent it."),
        Column(name="raw", type="binary", description="The same where it is no JSON."),
    ],
)
"""What is known of each."""


class Generation(Model):
    """The events of a table since it was last read from the start: one key, and columns that fit all of its events.

    Attributes:
        collection: Of the table.
        number: From 1 for each table.
        begin: The offset of its first event.
        whole: From this offset on its events give all rows of the table; None as long as the table is being read.
        why: Why it began, for people; empty for the first.
    """

    collection: str
    number: int
    begin: int
    whole: int | None = None
    why: str = ""


class Run(Model):
    """Backfilled rows of a segment whose keys ascend strictly, column by column in the order of the schema's key.

    Other rows of the segment may lie between them: those with ``_snapshot`` false, and no others.

    Attributes:
        first_offset: Of its first row.
        last_offset: Of its last row, inclusive.
        rows: How many.
        first: Key of its first row, a value for each column of the key.
        last: Key of its last row.
    """

    first_offset: int
    last_offset: int
    rows: int
    first: list[KeyValue]
    last: list[KeyValue]


class Segment(Model):
    """One Parquet file of one collection: rows sorted by ``_offset``, columns as its schema plus ``META_COLUMNS``.

    Attributes:
        path: Relative to the log.
        rows: Number of rows.
        size: Of the file, bytes.
        uncompressed: Of its rows in memory, in Arrow's format, bytes. Limits of what is read at once count these.
        first_offset: Of its first row. Offsets of other collections may lie between.
        last_offset: Of its last row, inclusive.
        first_commit_ts: Smallest ``_commit_ts``, None when no row has one.
        last_commit_ts: Largest ``_commit_ts``.
        fingerprint: Of the ``TableSchema``.
        generation: The number of the ``Generation`` that all its rows belong to. None for events that belong to none:
            they could not be read together with those before, and the table had not begun to be read again.
        snapshot_rows: How many rows come from backfills.
        truncated_at: Offset of its last event ``t``; None when it has none.
        key_min: For each column of the key by itself, its smallest value in all rows but ``t``. None when that is not
            stated: there is no key, a null in it, a value that no ``KeyValue`` states, or no row.
        key_max: The largest values likewise. It is None when ``key_min`` is.
        runs: The backfilled rows in the order of their offsets, cut wherever a key is not greater than the one before,
            after ``LONGEST_RUN`` rows, and where keys jump from one range to another. Each of them belongs to the run
            whose offsets enclose its own. Empty when there are no backfilled rows; None when that is not stated: there
            would be more than ``MOST_RUNS``, or a key of theirs cannot be stated.
    """

    collection: str
    path: str
    rows: int
    size: int
    uncompressed: int
    first_offset: int
    last_offset: int
    first_commit_ts: datetime | None = None
    last_commit_ts: datetime | None = None
    fingerprint: str
    generation: int | None = 1
    snapshot_rows: int = 0
    truncated_at: int | None = None
    key_min: list[KeyValue] | None = None
    key_max: list[KeyValue] | None = None
    runs: list[Run] | None = None


class Replacement(Model):
    """A file that stands for a range of commits. Their own files, and segments of theirs, may be gone.

    Attributes:
        first: The number of the first of them.
        last: The number of the last, inclusive.
        first_offset: Of the first event of the range, or what it would be.
        next_offset: One past the last event.
        path: Of the ``CompactedCommit``, relative to the log.
        digest: The SHA-256 of that file, in hexadecimal digits.
        time: Of the commit since which it does.
    """

    first: int
    last: int
    first_offset: int
    next_offset: int
    path: str
    digest: str
    time: datetime


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
        previous: The SHA-256 of the file of the commit before, in hexadecimal digits. Empty in the first commit, and in
            those of version 2.
        writer: A random id of the process that wrote it; two writers can have the same epoch, but never this.
        checkpoints: How many of the connector's checkpoints it covers.
        schemas: Those this commit uses for the first time, by fingerprint.
        announced: By collection the fingerprint of its schema after this commit, where that is not the schema of its
            newest event: a change of the table that no event follows yet.
        generations: Those that begin with events of this commit, or of which it is now known that they are whole.
        replacements: Ranges of earlier commits for which one file stands from now on.
        log_start: Where the log begins from now on; None: where it did.
    """

    number: int
    epoch: int
    time: datetime
    first_offset: int
    next_offset: int
    previous: str = ""
    writer: str = ""
    checkpoints: int = 0
    state: StateChange = StateChange()
    schemas: dict[str, TableSchema] = {}
    announced: dict[str, str] = {}
    generations: list[Generation] = []
    segments: list[Segment] = []
    replacements: list[Replacement] = []
    log_start: LogStart | None = None


class CollectionTotals(Model):
    """Events of one collection in the whole log."""

    events: int = 0
    bytes: int = 0
    fingerprint: str = ""


class KnownGeneration(Generation):
    """A generation, and what the log has of it so far.

    Attributes:
        fingerprints: The schemas of its segments, and those that were announced. Each is there once, in the order in
            which they came last.
        begun_under: The first schema of all; it may have come again later. None where a summary does not say it.
        events: Their rows.
        bytes: Of their files.
        ended: The offset of the collection's first later event, which belongs to none or to a later one. None without
            such an event.
        shown_until: The offset up to which readers of the table's rows count its events: where an event follows that
            belongs to none, that of the first event of its commit. A transaction may have both. None for no limit.
    """

    fingerprints: list[str] = []
    begun_under: str | None = None
    events: int = 0
    bytes: int = 0
    ended: int | None = None
    shown_until: int | None = None


class Summary(Model):
    """All that a writer or a reader needs to know of the commits up to ``number``, except their segments.

    Attributes:
        claims: The first commit of each epoch, for the newest epochs. They tell which files a dead writer left behind.
        generations: By collection, in order: the last one that is whole, if any, and all later ones.
        replacements: Those that stand, in order. No commit is in two of them.
        log_start: Where the log begins.
    """

    number: int
    epoch: int
    time: datetime
    next_offset: int
    claims: dict[int, int] = {}
    state: JsonObject = Field(default_factory=dict)
    schemas: dict[str, TableSchema] = {}
    totals: dict[str, CollectionTotals] = {}
    generations: dict[str, list[KnownGeneration]] = {}
    replacements: list[Replacement] = []
    log_start: LogStart = LogStart()

    @model_validator(mode="before")
    @classmethod
    def _of_version_3(cls, found: Any) -> Any:
        """Version 3 says that nothing is replaced."""
        if isinstance(found, dict) and found.get("replaced") is False:
            return {name: value for name, value in found.items() if name != "replaced"}
        return found

    def newest(self, collection: str) -> KnownGeneration | None:
        """The generation of a collection that began last; None where it has no event."""
        known = self.generations.get(collection)
        return known[-1] if known else None


class Consumer(Model):
    """``consumers/<name>.json``: a reader of which the log knows.

    Attributes:
        name: Of the reader, whatever it calls itself.
        position: It has all that it needs of the events below this offset.
        updated: When it said so.
    """

    name: str
    position: int
    updated: datetime
