"""The schema that a query inferred from the log, and events with another schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.protocol.changelog import Summary, TableSchema
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.source.followed_log import FollowedLog
from tidemark.spark_sink.tables.column_types import Columns
from tidemark.spark_sink.tables.lineage import Lineage, newest_lineage
from tidemark.spark_sink.tables.table_columns import dotted, event_columns, find_collection, own_columns, spanned


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
        generation: The number of the newest generation whose events it expects.
        ids: The identities of columns that have one, by name.
        older: Those of ``own`` that are columns of earlier generations, with types that later values do not have. None
            if the events are of one generation: then columns have their own names.
        lineage: Tells which columns of events are which; None where their names tell.
    """

    own: Columns
    offset: int
    generation: int = 1
    ids: Mapping[str, str] = field(default_factory=dict)
    older: frozenset[str] | None = None
    lineage: Lineage | None = None

    @classmethod
    def of(cls, log: FollowedLog, table: str, start: int, end: int) -> InferredSchema:
        """The schema of a table's newest event below ``end``, which is at most the end of the log.

        Args:
            log: The change log.
            table: Its name.
            start: The smallest offset that is read.
            end: One past the largest.

        Raises:
            SparkError: ``TM-SPK-004`` for an unknown table.
            ChangeLogError: When the log is damaged.
        """
        summary = log.summary(min(log.commit_with_offset(max(end - 1, log.start())), log.latest()))
        collection = find_collection(log, summary, table)
        newest = summary.schemas[summary.totals[collection].fingerprint]
        last = summary.newest(collection)
        # Where events are of none, the table is about to be read again, and these columns are those that it has then.
        generation = last.number + (last.ended is not None) if last is not None else 1
        read = _of_several_generations(log, summary, collection, start, end)
        if not read:
            return cls(own_columns(newest), end, generation, _ids(newest), lineage=newest_lineage(summary, collection))
        own: dict[str, str] = {}
        for column in newest.columns:
            for schema in [*read, newest]:
                own |= {found.in_span: found.type for found in schema.columns if found.name == column.name}
        return cls(own, end, generation, _ids(newest), frozenset(own.keys() - own_columns(spanned(newest)).keys()))

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the table's events."""
        return event_columns(self.own)

    def departure(
        self, log: FollowedLog, collection: str, start: int, end: int, *, resumed: bool = False
    ) -> Departure | None:
        """The first events of a table in ``[start, end)`` that do not fit the schema.

        Events from ``offset`` on must have exactly these columns and types, and be of no later generation. Earlier
        events are read with the newest schema. But if a query has resumed from a checkpoint, a column that was dropped
        in the meantime is an error.
        """
        known: dict[tuple[str, int | None, bool], str | None] = {}
        for segment in log.segments(collection, start if resumed else max(start, self.offset), end):
            is_later = segment.first_offset >= self.offset
            kind = segment.fingerprint, segment.generation, is_later
            if kind not in known:
                schema = log.schema(segment.fingerprint)
                known[kind] = self._change(schema, segment.generation) if is_later else self._loss(schema)
            if what := known[kind]:
                offset = max(segment.first_offset, start)
                return Departure(offset, f"from offset {offset} on, {what}")
        return None

    def _columns(self, schema: TableSchema) -> dict[str, str]:
        return own_columns(schema if self.older is None else spanned(schema))

    def _change(self, schema: TableSchema, generation: int | None) -> str | None:
        new = self._columns(schema)
        known = {name: type_ for name, type_ in self.own.items() if name not in (self.older or ())}
        changes = [f"has the new column {name}" for name in new if name not in known]
        changes += [f"no longer has column {name}" for name in known if name not in new]
        changes += [
            f"has column {name} with type {new[name]}, not {old}"
            for name, old in known.items()
            if new.get(name, old) != old
        ]
        ids = _ids(schema)
        changes += [
            f"has another column under the name {name}"
            for name, id in self.ids.items()
            if ids.get(name, id) != id and new.get(name) == known.get(name)
        ]
        if changes:
            return f"{dotted(schema.collection)} {' and '.join(changes)}; the query has the earlier schema"
        if generation is not None and generation > self.generation:
            return f"{dotted(schema.collection)} is read again from the start, as its generation {generation}"
        return None

    def _loss(self, schema: TableSchema) -> str | None:
        taken = self.lineage.taken(schema.fingerprint, self.columns) if self.lineage is not None else None
        names = dict(taken.renamed) if taken is not None else {}
        lost = [name for name in self._columns(schema) if names.get(name, name) not in self.own]
        if not lost:
            return None
        return (
            f"{dotted(schema.collection)} has column {' and column '.join(lost)}, which was dropped later: "
            "give the reader a schema, with it or without it"
        )


def _ids(schema: TableSchema) -> dict[str, str]:
    return {column.name: column.id for column in schema.columns if column.id is not None}


def _of_several_generations(
    log: FollowedLog, summary: Summary, collection: str, start: int, end: int
) -> list[TableSchema]:
    """The schemas of events in a range, if a column has other names where they are read together, and they are.

    Returns:
        None of them if the events are of one generation, or no column has such a name.
    """
    known = [schema for schema in summary.schemas.values() if schema.collection == collection]
    newest = summary.newest(collection)
    if not any(column.spanning for schema in known for column in schema.columns) or (
        newest is not None and newest.begin <= start and newest.ended is None
    ):
        return []
    segments = list(log.segments(collection, start, end))
    if len({segment.generation for segment in segments}) <= 1:
        return []
    return [summary.schemas[fingerprint] for fingerprint in dict.fromkeys(s.fingerprint for s in segments)]
