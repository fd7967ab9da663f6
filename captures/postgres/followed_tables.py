"""The captured tables as the log and the catalogs show them, while they are altered, made again and published anew."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg

from captures.interface import OpenedTable, Regained, TableAway
from captures.postgres.altered import AlteredTables
from captures.postgres.bindings import PostgresBinding, absent, bound_tables, warn_of_silent_changes
from captures.postgres.catalog import read_tables, read_types
from captures.postgres.columns import Column, Table
from captures.postgres.config import EndpointConfig, ResourceConfig
from captures.postgres.log import AlteredTable, BoundRelation, LeftOut, origin_members
from captures.postgres.pgoutput import Relation
from captures.postgres.prerequisites import log_failures, publication_failures
from captures.postgres.rows import compile_log_decoder
from captures.postgres.scan_target import ScanTarget
from captures.postgres.session import asking
from captures.postgres.setup import lacking, unpublished
from captures.postgres.watch import Appearance, read_appearances
from captures.truncation import Truncation
from protocol.errors import SourceError
from protocol.messages import Binding, JsonObject

logger = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""How often the catalogs are asked whether tables are still what they were."""


class FollowedTables:
    """The tables of a source. See ``captures.postgres.log.Tables``.

    Args:
        session: For questions; another one once ``session`` was set.
        end_of_log: Where the server's log ends now.

    Raises:
        SourceError: None of the tables can be captured.

    Attributes:
        bindings: By index.
        opened: Parallel to ``bindings``; see ``captures.interface.Source.tables``.
        found: Tables that chunks found altered.
    """

    def __init__(
        self,
        config: EndpointConfig,
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        session: psycopg.Connection,
        end_of_log: Callable[[], int],
    ) -> None:
        self._config = config
        self.session = session
        self._end_of_log = end_of_log
        self._look_at = time.monotonic() + LOOK_SECONDS
        self._away: dict[int, SourceError] = {}
        self._left_out: set[int] = set()
        self._returning: dict[int, tuple[Appearance, int]] = {}
        self._seen: list[Appearance | None] = []
        self.bindings = self._bound(bindings, resources)
        self._left_out.update(binding.index for binding in self.bindings if binding.unfit is not None)
        self._by_oid = {binding.table.oid: binding for binding in self.bindings if binding.unfit is None}
        self._names = {binding.table.path: binding for binding in self.bindings}
        self.opened: list[OpenedTable] = [binding.opened() for binding in self.bindings]
        self.found = AlteredTables()

    def _bound(self, bindings: Sequence[Binding], resources: Sequence[ResourceConfig]) -> list[PostgresBinding]:
        with asking("reading the tables' columns"):
            # What is altered in between is looked at once more, and nothing comes of it.
            appearances = self._appearances([(resource.schema_name, resource.table) for resource in resources])
            tables = bound_tables(self.session, resources)
        bound = []
        for index, (binding, resource, table) in enumerate(zip(bindings, resources, tables, strict=True)):
            unfit = self._undecodable(resource, table)
            seen = appearances.get((resource.schema_name, resource.table))
            self._seen.append(seen)
            bound.append(
                PostgresBinding(
                    index,
                    binding.state_key,
                    resource,
                    table if table is not None and unfit is None else absent(resource),
                    emit_truncate=self._config.truncation is Truncation.EMIT,
                    salt=self._config.hash_salt.get_secret_value().encode(),
                    on_bad_value=self._config.on_bad_value,
                    entry=seen.entry if seen is not None and unfit is None else None,
                    unfit=unfit,
                )
            )
        failures = [binding.unfit for binding in bound if binding.unfit is not None]
        if failures and len(failures) == len(bound):
            raise failures[0]
        return bound

    def _undecodable(self, resource: ResourceConfig, table: Table | None) -> SourceError | None:
        """Why the log of a table cannot be decoded, whoever publishes it."""
        with asking(f"looking at {'.'.join(resource.path)}"):
            return next(log_failures(self.session, self._config, resource, table), None)

    def _appearances(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Appearance]:
        return read_appearances(self.session, self._config.publication, names)

    def target(self, binding: int) -> ScanTarget:
        """What chunks of a table select. Readers' threads ask, while the log's may give the binding new columns."""
        return replace(self.bindings[binding]).scan_target()  # All of it as of one moment.

    # What publishes them.

    def published(self) -> JsonObject:
        """For the state: by state key, the entry of the publication as of which what was captured is whole."""
        return {binding.state_key: binding.entry for binding in self.bindings if binding.entry is not None}

    def published_before(self, entries: JsonObject) -> None:
        """Takes an earlier session's ``published()``: what has another entry now was not published for a while."""
        for binding in self.bindings:
            entry = entries.get(binding.state_key)
            if entry is not None and entry != binding.entry:
                binding.entry = entry
                if binding.index not in self._left_out:
                    self.found.add(binding.index)

    def published_anew(self) -> None:
        """All tables are read anew, perhaps from another publication."""
        with asking("looking at the publication"):
            appearances = self._appearances([binding.table.path for binding in self.bindings])
        for binding in self.captured:
            seen = self._seen[binding.index] = appearances.get(binding.table.path)
            binding.entry = seen.entry if seen is not None else None

    # Tables that are set aside: see captures.asides.

    @property
    def captured(self) -> list[PostgresBinding]:
        """Those that are not left out."""
        return [binding for binding in self.bindings if binding.index not in self._left_out]

    def cannot_publish(self, binding: PostgresBinding, failure: SourceError) -> None:
        """Found before the log is open."""
        self.opened[binding.index] = replace(self.opened[binding.index], unfit=failure)
        self._left_out.add(binding.index)

    def leave_out(self, index: int, identity: str = "") -> None:
        """See ``captures.interface.Source``, and ``captures.postgres.log.Tables``."""
        self._left_out.add(index)
        binding = self.bindings[index]
        oid = identity.partition(" ")[0]
        if binding.unfit is not None and oid:
            # What the log has of the one that could be captured is passed over, and counts as a change.
            self._bind(binding, absent(binding.resource, int(oid)))

    def to_publish(self, index: int, *, asked: bool) -> Table | None:
        """The table as it is now, where it can be captured once it is published; only ``asked`` one that was taken out
        of the publication, and not one that took its place.
        """
        binding = self.bindings[index]
        with asking(f"looking at {binding.name}"):
            table = bound_tables(self.session, [binding.resource])[0]
            if table is None or (table.oid == binding.table.oid and not asked):
                return None
            if self._undecodable(binding.resource, table) is not None:
                return None
            unfit = any(publication_failures(self.session, self._config, [table]))
            return table if not unfit and unpublished(self.session, self._config.publication, [table]) else None

    def unfit(self, index: int) -> SourceError | None:
        """Why a table cannot be captured as it is now; None where it can."""
        binding = self.bindings[index]
        with asking(f"looking at {binding.name}"):
            return self._unfit(binding, bound_tables(self.session, [binding.resource])[0])

    def regain(self, index: int, position: int) -> Regained | SourceError | None:
        """See ``captures.interface.Source``."""
        binding = self.bindings[index]
        with asking(f"looking at {binding.name}"):
            # Looked at before the columns are read: what is altered in between is seen the next time.
            seen = self._appearances([binding.table.path]).get(binding.table.path)
            fresh = bound_tables(self.session, [binding.resource])[0]
            failure = self._unfit(binding, fresh)
        if failure is not None or fresh is None or seen is None:
            self._returning.pop(index, None)
            return failure
        before, end = self._returning.get(index, (None, 0))
        if before != seen:
            # What the log has of before is of another table perhaps, or is followed by what it lacks.
            self._returning[index] = seen, self._end_of_log()
            return None
        if position < end:
            return None
        same = fresh.oid == binding.table.oid and seen.entry == (binding.entry or seen.entry)
        if same and binding.unfit is None:
            with asking(f"reading the columns of {binding.name}"):
                warn_of_silent_changes(self.session, binding.table, fresh)
        binding.unfit, binding.entry = None, seen.entry
        self._seen[index] = seen
        self._bind(binding, fresh)
        self._left_out.discard(index)
        del self._returning[index]
        return Regained(same)

    # As the log shows them.

    def relation(self, relation: Relation) -> BoundRelation | AlteredTable | LeftOut | None:
        """The decoder of a relation's rows; announces a new schema when its columns changed."""
        binding = self._by_oid.get(relation.oid)
        named = binding or self._names.get((relation.schema, relation.table))
        if named is not None and named.index in self._left_out:
            return LeftOut(named.index)
        try:
            return self._decoded(binding, relation)
        except TableAway as error:
            assert named is not None
            return LeftOut(named.index, error)

    def _decoded(self, binding: PostgresBinding | None, relation: Relation) -> BoundRelation | AlteredTable | None:
        announced = binding.document_schema if binding is not None else None
        if binding is None:
            if (binding := self._successor(relation)) is None:
                return None
        elif _has_another_key(relation, binding):
            announced = None
            if not self._rekeyed(binding, relation):
                return AlteredTable(binding.index, None, restarted=True)
        table = self._as_logged(binding, relation)
        if table.columns != binding.table.columns:
            with asking(f"reading the columns of {binding.name}"):
                warn_of_silent_changes(self.session, binding.table, table)
            binding.table = table
        emitted = {column.name: column for column in binding.columns}
        decoder = compile_log_decoder(
            binding.index,
            [emitted.get(c.name) for c in relation.columns],
            relation.columns,
            binding.key,
            table=binding.name,
        )
        schema = binding.document_schema
        return BoundRelation(
            binding=binding.index,
            decoder=decoder,
            origin=origin_members(*binding.table.path),
            new_schema=schema if schema != announced else None,
            restarted=announced is None,
        )

    def _as_logged(self, binding: PostgresBinding, relation: Relation) -> Table:
        """The table with the columns that the log's rows have, which may be older than the catalog's, or newer."""
        logged = [(c.name, c.type_oid, c.typmod) for c in relation.columns]
        if logged == [_signature(column) for column in binding.table.columns if not column.generated]:
            return binding.table
        with asking(f"reading the columns of {binding.name}"):
            # By the binding's name, whatever the table was called when the log was written.
            fresh = read_tables(self.session, [binding.table.path])
            types = read_types(self.session, [c.type_oid for c in relation.columns])
        table = fresh[0] if fresh and fresh[0].oid == relation.oid else binding.table
        latest = {_signature(column): column for column in table.columns}
        columns = tuple(
            latest.get((c.name, c.type_oid, c.typmod))
            or Column(name=c.name, type=replace(types[c.type_oid], typmod=c.typmod), nullable=True)
            for c in relation.columns
        )
        return replace(table, columns=columns)

    def _successor(self, relation: Relation) -> PostgresBinding | None:
        """The binding whose table's name another one has now; what only had the name once is passed over."""
        binding = self._names.get((relation.schema, relation.table))
        if binding is None:
            return None
        with asking(f"looking for {binding.name}"):
            present = read_tables(self.session, [binding.table.path])
            if not present or present[0].oid != relation.oid:
                return None
            for failure in log_failures(self.session, self._config, binding.resource, present[0]):
                raise away(failure)
        logger.warning("%s was dropped and made again, or another table took its name", binding.name)
        self._bind(binding, present[0])
        return binding

    def _rekeyed(self, binding: PostgresBinding, relation: Relation) -> bool:
        """Gives the binding the key by which the log has rows now; False where that is not its table's key any more.

        Raises TableAway when the log does not have the key because of the table's replica identity.
        """
        with asking(f"reading the key of {binding.name}"):
            fresh = bound_tables(self.session, [binding.resource])[0]
            if fresh is not None and fresh.oid == relation.oid:
                for failure in log_failures(self.session, self._config, binding.resource, fresh):
                    raise away(failure)
                self._bind(binding, fresh)
        logger.warning("%s has another key; it is read anew", binding.name)
        return not _has_another_key(relation, binding)

    def _bind(self, binding: PostgresBinding, table: Table) -> None:
        self._by_oid.pop(binding.table.oid, None)
        binding.table = table
        self._by_oid[table.oid] = binding
        self.opened[binding.index] = binding.opened()

    # As the catalogs show them.

    def altered(self, position: int) -> list[AlteredTable] | None:
        """See ``captures.postgres.log.Tables``."""
        self._look()
        if not self.found:
            return []
        due = [index for index in self.found.due(position, self._end_of_log) if index not in self._left_out]
        if not due:
            return None if self.found else []
        found = []
        for index in due:
            binding = self.bindings[index]
            with asking(f"reading the columns of {binding.name}"):
                seen = self._appearances([binding.table.path]).get(binding.table.path)
                fresh = bound_tables(self.session, [binding.resource])[0]
                failure = self._unfit(binding, fresh)
                if fresh is None or seen is None or failure is not None:
                    self._seen[index] = None  # It is looked at again: it may be on its way to become something else.
                    self._found_away(binding, failure)
                elif seen != self._seen[index]:
                    self._seen[index] = seen  # Altered once more: the log has to be read to where that was.
                    self.found.add(index)
                else:
                    found.append(self._take(binding, fresh, seen))
        return found

    def _take(self, binding: PostgresBinding, table: Table, seen: Appearance) -> AlteredTable:
        """Goes on with the table as it is now; the log was read to where it became so."""
        warn_of_silent_changes(self.session, binding.table, table)
        known, entry = binding.opened(), binding.entry
        self._bind(binding, table)
        binding.entry = seen.entry
        now = self.opened[binding.index]
        if restarted := now.identity != known.identity or binding.entry != entry:
            logger.warning("%s was made again, published again, or has another key; it is read anew", binding.name)
        schema = now.document_schema if now.document_schema != known.document_schema else None
        return AlteredTable(binding.index, schema, restarted=restarted)

    def _look(self) -> None:
        """Finds tables that are not what they were when they were looked at last."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        with asking("looking whether tables are what they were"):
            captured = self.captured
            appearances = self._appearances([binding.table.path for binding in captured])
            for binding in captured:
                seen = appearances.get(binding.table.path)
                if seen is None or seen.entry is None:
                    self._found_away(binding, self._unfit(binding, binding.table if seen is not None else None))
                elif seen != self._seen[binding.index]:
                    self._seen[binding.index] = seen
                    self.found.add(binding.index)

    def _unfit(self, binding: PostgresBinding, table: Table | None) -> SourceError | None:
        """Why the log does not, or could not, have the table's changes; None where it has them."""
        for failure in log_failures(self.session, self._config, binding.resource, table):
            return failure
        assert table is not None
        for _, failure in publication_failures(self.session, self._config, [table]):
            return failure
        missing = unpublished(self.session, self._config.publication, [table])
        return None if missing == [] else lacking(self.session, self._config, [table], exists=missing is not None)

    def _found_away(self, binding: PostgresBinding, failure: SourceError | None) -> None:
        if failure is not None:
            self._away[binding.index] = failure

    def away(self) -> dict[int, SourceError]:
        """See ``captures.postgres.log.Tables``."""
        found, self._away = self._away, {}
        return found


def away(failure: SourceError) -> TableAway:
    """What keeps a table from being captured, as an error that sets only that table aside."""
    return TableAway(failure.code, failure.message, remedy=failure.remedy)


def _has_another_key(relation: Relation, binding: PostgresBinding) -> bool:
    """Whether rows of the log are told apart by other columns than the binding's, unless those were configured."""
    if binding.resource.key is not None:
        return False
    sent = {column.name for column in relation.columns if column.in_key}
    # By default it is the primary key that is sent; an index may have more columns than the key, and all are no key.
    return sent != set(binding.key) if relation.identity == "d" else not set(binding.key) <= sent


def _signature(column: Column) -> tuple[str, int, int]:
    return column.name, column.type.oid, column.type.typmod
