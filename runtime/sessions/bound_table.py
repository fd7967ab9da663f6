"""A binding in one session: the schema, the key and the generation of the documents that come next."""

from __future__ import annotations

from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.messages import COMPLETE, KEY_COLUMNS, JsonObject
from tidemark.runtime.changelog.batch import Batch
from tidemark.runtime.changelog.documents.bound_collection import BoundCollection
from tidemark.runtime.changelog.documents.schema_union import is_closed, union
from tidemark.runtime.changelog.generations import CollectionGenerations
from tidemark.runtime.changelog.writer import LogWriter
from tidemark.runtime.preparation.selection import SelectedTable

TRUNCATED = b'{"_meta":{"op":"t"}}'
"""The first document of a table that is read again."""


class BoundTable:
    """When its schema changes, its documents go to another handle.

    Args:
        table: That is captured.
        writer: Of the log.
    """

    def __init__(self, table: SelectedTable, writer: LogWriter) -> None:
        self.table = table
        self._writer = writer
        self._generations = CollectionGenerations(table.binding.collection.name, writer.summary)
        self._schema = table.binding.collection.write_schema
        self._key = table.key
        # Documents may have more members than the schema names, because the schema came in parts.
        self._widens = False
        self._complete = False  # The schema that was learned is that of whole documents.
        # None until the first document, because none may ever have the discovered schema.
        self._handle: BoundCollection | None = None

    @property
    def departed(self) -> str:
        """Why its documents belong to no generation; empty while they belong to one."""
        return self._generations.departed

    @property
    def generation(self) -> int | None:
        """The number of the newest generation; None if documents belong to none."""
        return None if self.departed else self._generations.newest

    @property
    def being_read(self) -> bool:
        """Whether its backfill has begun and not ended."""
        return self._generations.being_read

    def learn(self, said: JsonObject) -> None:
        """Takes a schema of documents: a whole one, or a part."""
        whole = said.get(COMPLETE) is True
        widens = not whole and (self._widens or not is_closed(self._schema))
        schema = said if whole else union(self._schema, said)
        named = said.get(KEY_COLUMNS) if whole else None
        key = tuple(map(str, named)) if isinstance(named, list) else self._key
        self._complete = whole
        if (schema, widens, key) != (self._schema, self._widens, self._key):
            self._schema, self._widens, self._key, self._handle = schema, widens, key, None

    def announce(self, batch: Batch) -> None:
        """Notes in a batch that the table has changed, if its rows so far can be read by the schema that was learned.

        Otherwise the connector reads them again, and they come with the schema.
        """
        if self._handle is None and self._complete and self._generations.follows(self._schema_alone()):
            self._handle = self._bind()
            # A column may have a constant that it cannot hold: as a column of the log, its rows would have null in it.
            if not self.departed:
                batch.announce(self._handle)

    def handle(self, batch: Batch) -> BoundCollection:
        """Where documents go that come next, in this batch."""
        if self._handle is None:
            batch.announced.pop(self.table.binding.collection.name, None)  # Its newest event has this schema.
            if self._generations.is_new:
                batch.generations.append(self._generations.begin_whole(batch.next_offset))
            self._handle = self._bind()
        return self._handle

    def begin(self, batch: Batch, why: str | None = None) -> bool:
        """The table is read from the start: once that is over, what came before counts no more.

        Args:
            why: As the connector says; None if it does not.

        Returns:
            Whether anything did.
        """
        had_events = not self._generations.is_new
        batch.generations.append(self._generations.begin(self._schema_alone(), batch.next_offset, why))
        self._handle = None
        return had_events

    def complete(self, batch: Batch) -> None:
        """All rows of the table have come since it began to be read."""
        if (whole := self._generations.complete(batch.next_offset)) is not None:
            batch.generations.append(whole)

    def _schema_alone(self) -> TableSchema:
        """The columns of the next documents, whatever generation they are of."""
        return self._writer.schema(
            self.table.binding.collection.name, self._schema, self._key, self.table.text, widens=self._widens
        )

    def _bind(self) -> BoundCollection:
        return self._writer.bind(
            self.table.binding.collection.name,
            self._schema,
            self._key,
            self.table.text,
            widens=self._widens,
            generations=self._generations,
        )
