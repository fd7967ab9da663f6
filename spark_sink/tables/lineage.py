"""The columns of a table's state over all schemas of a generation, and where events and rows have their values.

A column may be renamed, and dropped and added again: its identity tells which values are its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import orjson
import pyarrow as pa

from tidemark.protocol.changelog import Segment, Summary, TableSchema
from tidemark.protocol.changelog.columns.column_identity import BY_NAME, identities
from tidemark.protocol.changelog.columns.evolution import widens
from tidemark.protocol.changelog.segment_files import SegmentFile
from tidemark.protocol.errors import SparkError
from tidemark.spark_sink.tables.column_types import Columns, Rows, conformed, filled
from tidemark.spark_sink.tables.table_columns import dotted

Renamed = tuple[tuple[str, str | None], ...]
Filled = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ColumnPlaces:
    """Where stored rows have the columns of a reader.

    Attributes:
        renamed: Names of stored columns, and those under which the reader has them; None for one that it does not have.
        filled: Names of columns that are not stored, and their value in all rows, as JSON.
    """

    renamed: Renamed = ()
    filled: Filled = ()

    def stored(self, names: Iterable[str]) -> dict[str, str]:
        """By the names that the reader has for columns, those of the stored columns."""
        others = dict(self.renamed)
        found = {name: others.get(name, name) for name in names}
        return {other: name for name, other in found.items() if other is not None}

    def wanted(self, names: Iterable[str], schema: pa.Schema) -> list[str]:
        """The names of the stored columns that a schema of the reader has."""
        stored = self.stored(names)
        return [stored[name] for name in schema.names if name in stored]

    def renaming(self, rows: Rows) -> Rows:
        """Stored rows with the reader's names, without the columns that it does not have."""
        if not self.renamed:
            return rows
        stored = self.stored(rows.schema.names)
        return rows.select(list(stored.values())).rename_columns(list(stored))

    def rows(self, rows: Rows, schema: pa.Schema) -> Rows:
        """Stored rows with the columns of a schema of the reader."""
        return filled(conformed(self.renaming(rows), schema), self.filled)


AS_THEY_ARE = ColumnPlaces()
"""Rows have the reader's columns under their own names, and null in those that are not stored."""


@dataclass(frozen=True, slots=True)
class StateColumn:
    """A column of a table's state. ``fill`` is JSON; empty for null."""

    name: str
    type: str
    identity: str
    fill: str = ""


@dataclass(frozen=True, slots=True)
class Adapted:
    """How rows with some columns get those of a table's state.

    Attributes:
        columns: Of the state, with those that only the rows have.
        ids: The identities of columns, by name.
        places: Where the rows have the columns of the state.
    """

    columns: Columns
    ids: Mapping[str, str]
    places: ColumnPlaces = AS_THEY_ARE


@dataclass(frozen=True)
class Lineage:
    """The columns of one generation, or of several of which each is laid over those before.

    Args:
        schemas: Of their events, from the oldest to the newest. The newest says what columns are called.
        generations: Their numbers.
    """

    schemas: Sequence[TableSchema]
    generations: Collection[int] = ()
    _taken: dict[tuple[str, tuple[str, ...]], ColumnPlaces] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def _identities(self) -> dict[str, Mapping[str, str]]:
        """By fingerprint."""
        known = identities(self.schemas)
        return {schema.fingerprint: found for schema, found in zip(self.schemas, known, strict=True)}

    @cached_property
    def state(self) -> tuple[StateColumn, ...]:
        """The newest schema's columns, then those that were dropped and whose names no later column has.

        Raises:
            SparkError: ``TM-SPK-005`` when the type of a column has no place for values of an earlier one.
        """
        found: dict[str, StateColumn] = {}
        names: set[str] = set()
        ended: set[str] = set()
        for schema in reversed(self.schemas):
            known = self._identities[schema.fingerprint]
            for column in schema.columns:
                identity = known[column.name]
                fill = "" if column.fill is None else orjson.dumps(column.fill).decode()
                if (same := found.get(identity)) is not None:
                    if not widens(column.type, same.type):
                        raise SparkError(
                            "TM-SPK-005",
                            f"column {column.name} of {dotted(schema.collection)} is stored as {column.type} in a part "
                            f"of the log and cannot be read as {same.type}",
                        )
                    # Rows from before the column have what was said first, in an earlier generation as well.
                    found[identity] = replace(same, fill=fill)
                elif column.name in names:
                    ended.add(identity)
                elif identity not in ended:
                    names.add(column.name)
                    found[identity] = StateColumn(column.name, column.type, identity, fill)
        return tuple(found.values())

    def taken(self, fingerprint: str, columns: Columns) -> ColumnPlaces | None:
        """How a reader of columns of the state takes them from events.

        Args:
            fingerprint: Of the events' schema.
            columns: That are read.

        Returns:
            None if that is none of the schemas.
        """
        known = self._identities.get(fingerprint)
        if known is None:
            return None
        kind = fingerprint, tuple(columns)
        if kind not in self._taken:
            stored = {identity: name for name, identity in known.items()}
            self._taken[kind] = self._from(stored, columns, ended=self._ended(fingerprint))
        return self._taken[kind]

    def file(self, segment: Segment, columns: Columns) -> SegmentFile:
        """The file of a segment of the generation, for a reader of columns of the state."""
        places = self.taken(segment.fingerprint, columns) or AS_THEY_ARE
        return SegmentFile.of(segment, places.renamed, places.filled)

    def adapted(self, there: Columns, ids: Mapping[str, str]) -> Adapted:
        """How the rows of a table get the columns of the state.

        Args:
            there: The table's columns, without those of the log.
            ids: Their identities, by name, as far as the table states them.
        """
        stored = {self._identity_in_table(name, ids): name for name in there}
        by_identity = {column.identity: column for column in self.state}
        own = {column.name for column in self.state}
        columns: dict[str, str] = {}
        identity_of: dict[str, str] = {}
        for identity, name in stored.items():
            if (column := by_identity.get(identity)) is not None:
                columns[column.name], identity_of[column.name] = column.type, identity
            elif name not in own:
                columns[name], identity_of[name] = there[name], identity
        for column in self.state:
            columns.setdefault(column.name, column.type)
            identity_of.setdefault(column.name, column.identity)
        return Adapted(columns, identity_of, self._from(stored, columns))

    def can_take(self, there: Columns, ids: Mapping[str, str]) -> bool:
        """Whether rows with some columns, as in ``adapted``, need wider types at most to have those of the state."""
        types = {column.identity: column.type for column in self.state}
        known = ((self._identity_in_table(name, ids), type_) for name, type_ in there.items())
        return all(widens(type_, types.get(identity, type_)) for identity, type_ in known)

    def _ended(self, fingerprint: str) -> set[str]:
        """The identities of columns that earlier schemas have, and neither this one nor later ones."""
        known = list(self._identities)
        place = known.index(fingerprint)
        earlier, later = known[:place], known[place:]
        return self._all_of(earlier) - self._all_of(later)

    def _all_of(self, fingerprints: Iterable[str]) -> set[str]:
        return {identity for known in fingerprints for identity in self._identities[known].values()}

    def _identity_in_table(self, name: str, ids: Mapping[str, str]) -> str:
        if name in ids:
            return ids[name]
        identity = self._identity_of(name)
        # Whoever keeps a table and states identities states that of a column with a constant, too.
        others = ids and any(column.identity == identity and column.fill for column in self.state)
        return f"another program's {name}" if others else identity

    def _identity_of(self, name: str) -> str:
        """The identity of a column that was stored before the log told identities."""
        for schema in self.schemas:
            if (found := self._identities[schema.fingerprint].get(name)) is not None:
                return found
        return f"{BY_NAME}{name}"

    def _from(self, stored: Mapping[str, str], columns: Columns, ended: Collection[str] = frozenset()) -> ColumnPlaces:
        """From what is stored, by identity, to the columns of a reader.

        Args:
            stored: Names, by identity.
            columns: That are read.
            ended: Identities of columns that had been dropped by then: what is not stored of them has no constant.
        """
        wanted = {column.name: column for column in self.state if column.name in columns}
        renamed: dict[str, str | None] = {}
        fills = {}
        for column in wanted.values():
            name = stored.get(column.identity)
            if name is not None and name != column.name:
                renamed[name] = column.name
            elif name is None and column.fill and column.identity not in ended:
                fills[column.name] = column.fill
        identity_of = {name: identity for identity, name in stored.items()}
        for name, identity in identity_of.items():
            if name in wanted and name not in renamed and wanted[name].identity != identity:
                renamed[name] = None
        return ColumnPlaces(tuple(renamed.items()), tuple(fills.items()))


def newest_lineage(summary: Summary, collection: str, columns: Columns | None = None) -> Lineage | None:
    """The lineage of a collection's newest generation; None where names alone tell its columns apart.

    Args:
        summary: Of the log.
        collection: Its name.
        columns: That a reader chose. They may have names of columns over several generations, which tell them apart.
    """
    newest = summary.newest(collection)
    if newest is None or newest.ended is not None or not newest.fingerprints:
        return None
    schemas = [summary.schemas[fingerprint] for fingerprint in newest.fingerprints]
    known = [column for schema in schemas for column in schema.columns]
    spans = any(column.spanning in (columns or ()) for column in known)
    told = any(column.id is not None for column in known)
    return Lineage(schemas, [newest.number]) if told and not spans else None
