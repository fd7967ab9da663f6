"""The generation that a collection's next events belong to, while a session writes them, and what fills its columns."""

from __future__ import annotations

from array import array
from collections.abc import Collection

import orjson

from tidemark.protocol.changelog import Generation, KnownGeneration, Segment, Summary, TableSchema
from tidemark.protocol.changelog.columns.column_identity import BY_NAME, identities
from tidemark.protocol.changelog.columns.evolution import departure
from tidemark.protocol.messages import Json
from tidemark.runtime.changelog.documents.decoder import RowDecoder
from tidemark.runtime.changelog.events import json_value, python_values

_BEFORE_ANY_EVENT = array("q", [-1])


class CollectionGenerations:
    """Follows one collection from the log's newest commit on, over events that may not be committed yet.

    Args:
        collection: Its name.
        summary: The log as of its newest commit.

    Attributes:
        departed: Why events belong to no generation; empty while they belong to one.
    """

    def __init__(self, collection: str, summary: Summary) -> None:
        self._collection = collection
        self._newest: Generation | None = summary.newest(collection)
        self._schemas: list[TableSchema] = []
        self.departed = ""
        self._fills: dict[str, Json] = {}
        if isinstance(self._newest, KnownGeneration):
            self._schemas = [summary.schemas[fingerprint] for fingerprint in self._newest.fingerprints]
            if self._newest.ended is not None:
                self.departed = "its columns could not be read together with those before"
        for schema in self._schemas:
            self.filled(schema)

    @property
    def is_new(self) -> bool:
        """Whether the collection has no event."""
        return self._newest is None

    @property
    def newest(self) -> int:
        """The number of the newest generation; 1 before the first event."""
        return 1 if self._newest is None else self._newest.number

    @property
    def being_read(self) -> bool:
        """Whether rows of the newest one are still to come."""
        return self._newest is not None and self._newest.whole is None

    def filled(self, schema: TableSchema) -> TableSchema:
        """A schema whose columns have the fills that were stated when each first came in the generation."""
        known = identities([*self._schemas, schema])[
            -1
        ]  # The connector may not know for a while which columns they are.
        columns = []
        for column in schema.columns:
            identity = known[column.name]
            if column.id is not None or identity.startswith(BY_NAME):
                self._fills.setdefault(identity, column.fill)
            fill = self._fills.get(identity, column.fill)
            columns.append(column if fill is column.fill else column.model_copy(update={"fill": fill}))
        return schema.model_copy(update={"columns": columns})

    def has_new_columns(self, schema: TableSchema) -> bool:
        """Whether a column has an id that no schema of the generation had."""
        return any(column.id is not None and column.id not in self._fills for column in schema.columns)

    def follows(self, schema: TableSchema) -> bool:
        """Whether the next events can be of the newest generation under a schema."""
        return self._newest is not None and not self.departed and not departure(self._schemas, schema)

    def number(self, schema: TableSchema) -> int | None:
        """The generation of events under a schema, which are the next ones; None if they belong to none."""
        if not self.departed:
            self.departed = departure(self._schemas, schema)
        if self.departed:
            return None
        # In the order of the log, where a schema that is used again is the newest.
        self._schemas = [*(known for known in self._schemas if known != schema), schema]
        return self.newest

    def begin(self, schema: TableSchema, offset: int, said: str | None = None) -> Generation:
        """A new generation from this offset on, as the table has this schema. It is not whole.

        Args:
            said: Why it begins, if the connector says so.
        """
        number = 1 if self._newest is None else self._newest.number + 1
        why = said or self.departed or departure(self._schemas, schema) or "the table is read again"
        self._newest = Generation(
            collection=self._collection, number=number, begin=offset, why=why if number > 1 else ""
        )
        self._schemas, self._fills = [], {}  # A schema that no event comes under binds none.
        self.filled(schema)
        self.departed = ""
        return self._newest

    def begin_whole(self, offset: int) -> Generation:
        """The first generation of a collection of which nobody says when it is being read: it counts as whole."""
        self._newest = Generation(collection=self._collection, number=1, begin=offset, whole=offset)
        return self._newest

    def complete(self, offset: int) -> Generation | None:
        """The newest generation, which is whole from ``offset`` on.

        None if it already was, if there is none, or if it lacks rows because they belong to none.
        """
        if self._newest is None or self._newest.whole is not None or self.departed:
            return None
        self._newest = self._newest.model_copy(update={"whole": offset})
        return self._newest


def emptied(generation: Generation, segment: Segment) -> Generation | None:
    """The generation, if a TRUNCATE in a segment of it has made it whole: all its later rows come from the log."""
    of_it = (segment.collection, segment.generation) == (generation.collection, generation.number)
    if not of_it or generation.whole is not None or segment.truncated_at is None:
        return None
    # The first event of a generation after another is a ``t`` itself.
    if segment.truncated_at < generation.begin + (generation.number > 1):
        return None
    return generation.model_copy(update={"whole": segment.truncated_at + 1})


def with_stated_fills(schema: TableSchema, text: Collection[str]) -> TableSchema:
    """A schema whose fills are as the columns hold them.

    Args:
        schema: With fills as the connector sent them.
        text: Columns that are stored as text whatever their type, as the source calls them.

    Raises:
        ChangeLogError: ``TM-LOG-010`` a column cannot hold its fill.
    """
    filled = [column for column in schema.columns if column.fill is not None]
    if not filled:
        return schema
    decoder = RowDecoder(schema.model_copy(update={"columns": filled, "key": []}), frozenset(text))
    document = orjson.dumps({"_meta": {"op": "c"}, **{column.in_source: column.fill for column in filled}})
    (row,) = decoder.cast([decoder.gather([document], _BEFORE_ANY_EVENT)]).to_batches()
    fills = {name: json_value(python_values(row.column(name))[0], raw=False) for name in row.schema.names}
    return schema.model_copy(
        update={"columns": [column.model_copy(update={"fill": fills.get(column.name)}) for column in schema.columns]}
    )


def without_fills(schema: TableSchema) -> TableSchema:
    """A schema that says nothing of older rows."""
    return schema.model_copy(
        update={"columns": [column.model_copy(update={"fill": None}) for column in schema.columns]}
    )
