"""The writer of a change log: one at a time, every commit all or nothing.

A commit creates the file of the next number exclusively, so an older writer that still runs fails at its next commit.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Self

from tidemark.protocol.changelog import layout
from tidemark.protocol.changelog.columns.table_schema import Schema, is_untyped, table_schema
from tidemark.protocol.changelog.log_start import LogStart
from tidemark.protocol.changelog.models import (
    Commit,
    Generation,
    Replacement,
    Segment,
    StateChange,
    TableSchema,
)
from tidemark.protocol.changelog.reader import ChangeLog
from tidemark.protocol.errors import ChangeLogError
from tidemark.protocol.messages import JsonObject
from tidemark.protocol.state import difference
from tidemark.protocol.store import Store
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.claim import Claim, claimed, write_commit
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.documents.column_names import ColumnNames
from tidemark.runtime.changelog.files.failures import disappeared, writing
from tidemark.runtime.changelog.generations import CollectionGenerations, emptied, with_stated_fills, without_fills
from tidemark.runtime.changelog.segments.threads import SegmentThreads

logger = logging.getLogger(__name__)


class LogWriter:
    """Writes a change log that was claimed; a context manager.

    Two threads may use it: one begins and fills batches, the other commits them in the same order.

    Attributes:
        store: That holds the log.
        log_id: Of the log.
        epoch: Of this writer.
        summary: The log as of its newest commit.
        lock: Of a log in a directory.
    """

    def __init__(self, claim: Claim) -> None:
        self.store = claim.store
        self.log_id = claim.log_id
        self.epoch = claim.summary.epoch
        self.summary = claim.summary
        self._id = claim.writer
        self._previous = claim.previous
        self.lock = claim.lock
        self._names: dict[str, ColumnNames] = {}
        self._batches: list[Batch] = []
        self._order = Lock()  # of the batches, and of the summary they follow
        self._failed = False
        self._replacing: list[Replacement] = []
        self._log_start: LogStart | None = None
        self._threads = SegmentThreads.of(self.store)

    @classmethod
    def open(cls, place: Store | Path, capture: str, log_id: str = "") -> Self:
        """Creates the log, or takes it over from an earlier writer. Arguments and errors as of ``claimed``."""
        return cls(claimed(place, capture, log_id))

    @property
    def state(self) -> JsonObject:
        """The connector's state as of the newest commit."""
        return self.summary.state

    def bind(
        self,
        collection: str,
        document_schema: Schema | None,
        key: Sequence[str] = (),
        text: Collection[str] = (),
        *,
        widens: bool = False,
        generations: CollectionGenerations | None = None,
    ) -> BoundCollection:
        """Prepares a collection for ``Batch.add``. Arguments as of ``schema``.

        Bind it again when its schema changes: documents added with the new handle are decoded by the new schema, in the
        same batch too, where they start a segment of their own.
        """
        schema = self.schema(collection, document_schema, key, text, widens=widens, generations=generations)
        names = self._names_of(collection) if widens else None
        number = 1 if generations is None else generations.number(schema)
        return BoundCollection(schema, text, widens=names, generation=number)

    def schema(
        self,
        collection: str,
        document_schema: Schema | None,
        key: Sequence[str] = (),
        text: Collection[str] = (),
        *,
        widens: bool = False,
        generations: CollectionGenerations | None = None,
    ) -> TableSchema:
        """The columns that a collection's next events have.

        Args:
            collection: Its name, ``schema/table``.
            document_schema: JSON Schema of its documents. A closed one gives typed columns, any other, or None, one
                ``_doc`` column of JSON text.
            key: Names of the key's columns, none when there is no key.
            text: Columns to store as text whatever their type, for values that the type cannot hold.
            widens: Documents may have members that the schema lacks. Each becomes a column of JSON text, from its first
                document on.
            generations: Of the collection; by default its events are of its first one.
        """
        names = self._names_of(collection)
        schema = names.stored(table_schema(collection, document_schema, key, text))
        if widens and not is_untyped(schema) and (latest := self._latest(collection)) is not None:
            known = {column.name for column in schema.columns}
            if more := [c.in_source for c in latest.columns if c.json_text and c.name not in known]:
                schema = names.widened(schema, more)
        try:
            schema = with_stated_fills(schema, text)
        except ChangeLogError as error:
            if generations is not None and generations.has_new_columns(schema):
                generations.departed = error.message  # The rows that have it must be read.
            schema = without_fills(schema)
        return schema if generations is None else generations.filled(schema)

    def _names_of(self, collection: str) -> ColumnNames:
        """The names of a collection's columns, those of documents that are not committed yet among them."""
        if not self._names:  # All at once: there may be thousands, each with a schema among those of all others.
            schemas: dict[str, list[TableSchema]] = {}
            for schema in self.summary.schemas.values():
                schemas.setdefault(schema.collection, []).append(schema)
            self._names = {name: ColumnNames(known) for name, known in schemas.items()}
        return self._names.setdefault(collection, ColumnNames(()))

    def _latest(self, collection: str) -> TableSchema | None:
        """The schema of the newest segment of typed columns; None without one."""
        totals = self.summary.totals.get(collection)
        schema = self.summary.schemas.get(totals.fingerprint) if totals is not None else None
        return None if schema is None or is_untyped(schema) else schema

    def begin(self) -> Batch:
        """Begins a batch. Seals the one before it, whose events must be counted before these get offsets."""
        with self._order:
            while self._batches and self._batches[-1].discarded:
                self._batches.pop()
                self._names.clear()  # Columns of its documents may never come.
            if self._batches:
                last = self._batches[-1]
                last.seal()
                number, offset = last.number + 1, last.next_offset
            else:
                number, offset = self.summary.number + 1, self.summary.next_offset
            batch = Batch(self.store, number, self.epoch, offset, self._threads)
            self._batches.append(batch)
        return batch

    def replace(self, replacement: Replacement) -> None:
        """Has the next commit say that a file stands for earlier ones. From any thread."""
        with self._order:
            self._replacing.append(replacement)

    def begin_at(self, start: LogStart) -> None:
        """Has the next commit say that the log begins later than it did. From any thread."""
        with self._order:
            if not self.summary.log_start.number < start.number <= self.summary.number:
                raise ValueError("the start of a log moves forward only, and at most to its newest commit")
            self._log_start = start

    @property
    def has_to_say(self) -> bool:
        """Whether a replacement, or another start of the log, waits for a commit."""
        return bool(self._replacing) or self._log_start is not None

    def commit(self, batch: Batch, state: JsonObject, checkpoints: int) -> Commit:
        """Makes a batch part of the log, atomically and durably: afterwards it may be acknowledged.

        Args:
            batch: The oldest uncommitted batch. It may be empty.
            state: The connector's whole state after it.
            checkpoints: The number of the connector's checkpoints that it covers.

        Raises:
            ChangeLogError: ``TM-LOG-007`` another writer has taken over the log; ``TM-LOG-008`` it cannot be written;
                ``TM-LOG-010`` too many documents do not fit; ``TM-LOG-013`` the log is not there any more, or an
                earlier copy is in its place. Except after 007, only opening the log again shows whether it has the
                batch: close this writer.
        """
        if self._failed or not self._batches or self._batches[0] is not batch or batch.discarded:
            raise ValueError("batches are committed once, in the order they were begun, and not after a failure")
        self._failed = True  # until it has succeeded: no batch may be committed after one that was not
        try:
            segments = batch.finish()
            with writing():
                self.store.sync([segment.path for segment in segments])
            self._check_previous(batch.number)
            commit = self._commit_of(batch, segments, state, checkpoints)
            batch.kept = True  # Also where it fails: it may be in the log, and only the answer was lost.
            summary, self._previous = write_commit(self.store, commit, self.summary)
        except FileExistsError:
            batch.kept = False
            raise self._fenced(batch.number) from None
        except ChangeLogError as error:
            # A newer writer deletes our files: then the disk has not failed.
            if self._taken(batch.number):
                batch.kept = False
                raise self._fenced(batch.number) from error
            if self._has_disappeared():
                raise disappeared(self.store) from error
            raise
        with self._order:
            self.summary = summary
            self._batches.remove(batch)
            del self._replacing[: len(commit.replacements)]
            if commit.log_start is not None:
                self._log_start = None
        self._failed = False
        return commit

    def _check_previous(self, number: int) -> None:
        """Makes sure that the newest commit is the one that this writer made: a folder may be replaced by a copy."""
        if self.store.directory is None:
            return
        path = layout.commit_path(number - 1)
        with writing():
            found = self.store.read(path) if self.store.exists(path) else b""
        if sha256(found).hexdigest() == self._previous:
            return
        if self._has_disappeared():
            raise disappeared(self.store)
        what = f"commit {number - 1}, the last that was made, is not in {self.store.place} any more"
        raise ChangeLogError("TM-LOG-013", f"{what}: a copy from before it is in its place")

    def _commit_of(self, batch: Batch, segments: list[Segment], state: JsonObject, checkpoints: int) -> Commit:
        change = difference(self.summary.state, state)
        # Readers find a time among the commits: it never goes back, though the clock may be set.
        now = max(datetime.now(UTC), self.summary.time)
        return Commit(
            number=batch.number,
            epoch=self.epoch,
            time=now,
            first_offset=batch.first_offset,
            next_offset=batch.next_offset,
            previous=self._previous,
            writer=self._id,
            checkpoints=checkpoints,
            state=StateChange(updated=change) if change is not None else StateChange(updated=state, merge_patch=False),
            schemas={name: schema for name, schema in batch.schemas.items() if name not in self.summary.schemas},
            announced=self._announced_of(batch, segments),
            generations=self._generations_of(batch, segments),
            segments=segments,
            # Readers have what is replaced, or removed, until they can know it.
            replacements=[one.model_copy(update={"time": now}) for one in self._replacing],
            log_start=None if self._log_start is None else self._log_start.model_copy(update={"moved": now}),
        )

    def _announced_of(self, batch: Batch, segments: list[Segment]) -> dict[str, str]:
        """The schemas that tables have after a batch, but for those that their newest events have."""
        newest = {name: totals.fingerprint for name, totals in self.summary.totals.items()}
        newest |= {segment.collection: segment.fingerprint for segment in segments}
        return {name: schema for name, schema in batch.announced.items() if newest.get(name) != schema}

    def _generations_of(self, batch: Batch, segments: list[Segment]) -> list[Generation]:
        """Those that begin with a batch, or are whole after it, each as it is then."""
        stated = {(one.collection, one.number): one for one in batch.generations}
        for segment in segments:
            if segment.truncated_at is None or segment.generation is None:
                continue
            newest = stated.get((segment.collection, segment.generation)) or self.summary.newest(segment.collection)
            if newest is not None and (whole := emptied(newest, segment)) is not None:
                stated[whole.collection, whole.number] = whole
        return list(stated.values())

    def close(self) -> None:
        """Discards uncommitted batches and releases the log."""
        for batch in reversed(self._batches):
            batch.discard()
        self._batches.clear()
        self._threads.shutdown()
        if self.lock is not None:
            self.lock.release()

    def _taken(self, number: int) -> bool:
        """Whether another writer made this commit."""
        try:
            return ChangeLog(self.store).commit(number).epoch != self.epoch
        except ChangeLogError as error:
            if error.code == "TM-LOG-002":
                raise
            return False  # It is not there, or the store is away.

    def _has_disappeared(self) -> bool:
        try:
            return not self.store.exists(layout.HEADER)
        except OSError:
            return False  # The store is away, and says nothing of the log.

    def _fenced(self, number: int) -> ChangeLogError:
        return ChangeLogError(
            "TM-LOG-007", f"{self.store.place}: another writer made commit {number}; this one has epoch {self.epoch}"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
