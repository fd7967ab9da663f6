"""Notes what a connector says of a table's rows, while a capture runs: see ``tidemark.protocol.verification.files``."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from tidemark.protocol.messages import VerifyBegin, VerifyChunk, VerifyEnd
from tidemark.protocol.store import Store
from tidemark.protocol.verification.chunk_files import chunk_bytes, digested, without_digests
from tidemark.protocol.verification.files import Begun, Ended, begin_path, chunk_path, end_path
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.documents.column_parts import ColumnPart
from tidemark.runtime.changelog.documents.quarantine import Misfit
from tidemark.runtime.changelog.files.failures import writing
from tidemark.runtime.verification.keys import keys_of

AHEAD = 4
"""Chunks that may wait for their digests: their rows are in memory."""


Said = VerifyBegin | VerifyChunk | VerifyEnd


@dataclass(slots=True)
class _Rows:
    """Rows of a chunk that has not ended."""

    collection: BoundCollection
    documents: list[bytes] = field(default_factory=list)
    parts: list[ColumnPart] = field(default_factory=list)


class ReceivedRows:
    """One session's. Digests and files are made in a thread of its own, in the order of the messages.

    Args:
        store: Of the change log.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="verify")
        self._work: list[Future[None]] = []
        self._rows: dict[int, _Rows] = {}

    def take(
        self,
        message: Said,
        batch: Batch,
        collection: str,
        generation: int | None,
        handle: Callable[[], BoundCollection],
    ) -> None:
        """What a connector says of a verification.

        Args:
            message: It.
            batch: What comes next goes into it.
            collection: Of the table.
            generation: Of the table's next events.
            handle: Gives the collection under its schema.
        """
        offset = batch.next_offset
        if isinstance(message, VerifyChunk):
            bound = handle()
            rows = self._rows.pop(message.binding, None) or _Rows(bound)
            path = chunk_path(bound.schema.collection, message.run, message.number)
            self._submit(self._write, path, rows, offset)
            return
        self._rows.pop(message.binding, None)
        now = datetime.now(UTC)
        if isinstance(message, VerifyBegin):
            begun = Begun(run=message.run, offset=offset, generation=generation, time=now)
            self._submit(self._say, begin_path(collection, message.run), begun)
            return
        ended = Ended(
            run=message.run,
            offset=offset,
            chunks=message.chunks,
            rows=message.rows,
            why=message.why or "",
            covered=message.covered,
            commit=batch.number,
            epoch=batch.epoch,
            time=now,
        )
        self._submit(self._say, end_path(collection, message.run), ended)

    def documents(self, binding: int, collection: BoundCollection, documents: Sequence[bytes]) -> None:
        """Rows of a binding's next chunk."""
        self._of(binding, collection).documents += documents

    def columns(self, binding: int, collection: BoundCollection, part: ColumnPart) -> None:
        """Rows of a binding's next chunk."""
        self._of(binding, collection).parts.append(part)

    def written(self) -> Callable[[], None]:
        """Waits until everything so far is durable. Raises what went wrong, such as ``TM-LOG-008``."""
        work, self._work = self._work, []

        def wait_for_all() -> None:
            for each in work:
                each.result()

        return wait_for_all

    def close(self) -> None:
        """Gives up what has not begun."""
        self._thread.shutdown(cancel_futures=True)

    def _of(self, binding: int, collection: BoundCollection) -> _Rows:
        rows = self._rows.get(binding)
        if rows is None or rows.collection is not collection:  # An ALTER lets a chunk be read again.
            rows = self._rows[binding] = _Rows(collection)
        return rows

    def _submit(self, work: Callable[..., None], *given: Any) -> None:
        running = [each for each in self._work if not each.done()]
        if len(running) >= AHEAD:
            wait([running[0]])
        self._work.append(self._thread.submit(work, *given))

    def _say(self, path: str, said: BaseModel) -> None:
        with writing(self._store.where(path)):
            self._store.replace(path, said.model_dump_json().encode())

    def _write(self, path: str, rows: _Rows, offset: int) -> None:
        tables, misfits = _tables(rows)
        schema = rows.collection.schema
        apart = keys_of([misfit.document for misfit in misfits], schema)
        # Many rows at once cost less each.
        whole = [digested(pa.concat_tables(tables), schema)] if tables else []
        found = pa.concat_tables([*whole, without_digests(apart)])
        with writing(self._store.where(path)):
            self._store.replace(path, chunk_bytes(found, offset, schema))


def _tables(rows: _Rows) -> tuple[list[pa.Table], list[Misfit]]:
    """The rows as the log would have them, and those that it would keep apart."""
    decoder = rows.collection.decoder
    tables, misfits = [], []
    for part in rows.parts:
        table, apart = part.fit(decoder)
        tables.append(table)
        misfits += apart
    if rows.documents:
        places = array("q", range(len(rows.documents)))
        parts, apart = decoder.fit(rows.documents, places, whole=True)
        misfits += apart
        if parts:
            tables.append(decoder.cast([part.batch for part in parts]))
    return tables, misfits
