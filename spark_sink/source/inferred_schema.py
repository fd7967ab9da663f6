"""The schema that a query inferred from the log, and events with another schema."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.protocol.changelog import TableSchema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.table_columns import dotted, event_columns, find_collection, own_columns


@dataclass(frozen=True, slots=True)
class Departure:
    """Events with columns that a query does not expect.

    Attributes:
        offset: The offset of the first of these events.
        what: The error's message.
    """

    offset: int
    what: str

    def error(self) -> SparkError:
        """``TM-SPK-019``."""
        return SparkError("TM-SPK-019", self.what)


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """The newest columns of a table at the creation of a query without a schema.

    The user did not choose these columns. So the query must not silently leave out a column of later events.

    Attributes:
        own: The table's own columns.
        offset: The end of the log at that time.
    """

    own: Columns
    offset: int

    @classmethod
    def of(cls, log: FollowedLog, table: str, end: int) -> InferredSchema:
        """The schema of a table's newest event below ``end``, which is at most the end of the log.

        Raises:
            SparkError: ``TM-SPK-004`` for an unknown table.
            ChangeLogError: When the log is damaged.
        """
        summary = log.summary(min(log.commit_with_offset(max(end - 1, 0)), log.latest()))
        totals = summary.totals[find_collection(log, summary, table)]
        return cls(own_columns(summary.schemas[totals.fingerprint]), end)

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the table's events."""
        return event_columns(self.own)

    def departure(
        self, log: FollowedLog, collection: str, start: int, end: int, *, resumed: bool = False
    ) -> Departure | None:
        """The first events of a table in ``[start, end)`` that do not fit the schema.

        Events from ``offset`` on must have exactly these columns and types. Earlier events are read with the newest
        schema. But if a query has resumed from a checkpoint, a column that was dropped in the meantime is an error.
        """
        known: dict[tuple[str, bool], str | None] = {}
        for segment in log.segments(collection, start if resumed else max(start, self.offset), end):
            kind = segment.fingerprint, segment.first_offset >= self.offset
            if kind not in known:
                schema = log.schema(segment.fingerprint)
                known[kind] = self._change(schema) if kind[1] else self._loss(schema)
            if what := known[kind]:
                offset = max(segment.first_offset, start)
                return Departure(offset, f"from offset {offset} on, {what}")
        return None

    def _change(self, schema: TableSchema) -> str | None:
        new = own_columns(schema)
        changes = [f"has the new column {name}" for name in new if name not in self.own]
        changes += [f"no longer has column {name}" for name in self.own if name not in new]
        changes += [
            f"has column {name} with type {new[name]}, not {old}"
            for name, old in self.own.items()
            if new.get(name, old) != old
        ]
        if not changes:
            return None
        return f"{dotted(schema.collection)} {' and '.join(changes)}; the query has the earlier schema"

    def _loss(self, schema: TableSchema) -> str | None:
        lost = [name for name in own_columns(schema) if name not in self.own]
        if not lost:
            return None
        return (
            f"{dotted(schema.collection)} has column {' and column '.join(lost)}, which was dropped later: "
            "give the reader a schema, with it or without it"
        )
