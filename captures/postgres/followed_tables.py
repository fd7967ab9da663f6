"""The captured tables as the log and the catalogs show them, while they are altered, made again and published anew."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg

from captures.interface import OpenedTable
from captures.postgres.altered import AlteredTables
from captures.postgres.bindings import PostgresBinding, bound_tables, warn_of_silent_changes
from captures.postgres.catalog import read_tables, read_types
from captures.postgres.columns import Column, Table
from captures.postgres.config import EndpointConfig, ResourceConfig
from captures.postgres.log import AlteredTable, BoundRelation, origin_members
from captures.postgres.pgoutput import Relation
from captures.postgres.prerequisites import table_failures
from captures.postgres.rows import compile_log_decoder
from captures.postgres.scan_target import ScanTarget
from captures.postgres.session import asking
from captures.postgres.setup import lacking, unpublished
from captures.postgres.uncapturable import no_table
from captures.postgres.watch import Appearance, read_appearances
from captures.truncation import Truncation
from protocol.errors import SourceError
from protocol.messages import Binding, JsonObject

logger = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
"""How often the catalogs are asked whether tables are still what they were."""

REMINDER_SECONDS = 60.0
"""A table whose changes are not captured is warned of at most this often."""


class FollowedTables:
    """The tables of a source. See ``captures.postgres.log.Tables``.

    Args:
        session: For questions; another one once ``session`` was set.
        end_of_log: Where the server's log ends now.

    Raises:
        SourceError: A bound table that is gone.

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
        self._reminded_at: dict[int, float] = {}
        self._seen: list[Appearance | None] = []
        self.bindings = self._bound(bindings, resources)
        self._by_oid = {binding.table.oid: binding for binding in self.bindings}
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
            if table is None:
                raise no_table(self.session, self._config, resource)
            seen = appearances.get(table.path)
            self._seen.append(seen)
            bound.append(
                PostgresBinding(
                    index,
                    binding.state_key,
                    resource,
                    table,
                    emit_truncate=self._config.truncation is Truncation.EMIT,
                    salt=self._config.hash_salt.get_secret_value().encode(),
                    entry=seen.entry if seen is not None else None,
                )
            )
        return bound

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
                self.found.add(binding.index)

    def published_anew(self) -> None:
        """All tables are read anew, perhaps from another publication."""
        with asking("looking at the publication"):
            appearances = self._appearances([binding.table.path for binding in self.bindings])
        for binding in self.bindings:
            seen = self._seen[binding.index] = appearances.get(binding.table.path)
            binding.entry = seen.entry if seen is not None else None

    # As the log shows them.

    def relation(self, relation: Relation) -> BoundRelation | AlteredTable | None:
        """The decoder of a relation's rows; announces a new schema when its columns changed."""
        binding = self._by_oid.get(relation.oid)
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
            failures = list(table_failures(self.session, self._config, binding.resource, present[0]))
        if failures:
            raise failures[0]
        logger.warning("%s was dropped and made again, or another table took its name", binding.name)
        self._bind(binding, present[0])
        return binding

    def _rekeyed(self, binding: PostgresBinding, relation: Relation) -> bool:
        """Gives the binding the key by which the log has rows now; False where that is not its table's key any more.

        Raises SourceError when the log does not have the key because of the table's replica identity.
        """
        with asking(f"reading the key of {binding.name}"):
            fresh = bound_tables(self.session, [binding.resource])[0]
            if fresh is not None and fresh.oid == relation.oid:
                for failure in table_failures(self.session, self._config, binding.resource, fresh):
                    raise failure
                self._bind(binding, fresh)
        logger.warning("%s has another key; it is read anew", binding.name)
        return not _has_another_key(relation, binding)

    def _bind(self, binding: PostgresBinding, table: Table) -> None:
        del self._by_oid[binding.table.oid]
        binding.table = table
        self._by_oid[table.oid] = binding
        self.opened[binding.index] = binding.opened()

    # As the catalogs show them.

    def altered(self, position: int) -> list[AlteredTable] | None:
        """See ``captures.postgres.log.Tables``."""
        self._look()
        if not self.found:
            return []
        due = self.found.due(position, self._end_of_log)
        if not due:
            return None
        found = []
        for index in due:
            binding = self.bindings[index]
            with asking(f"reading the columns of {binding.name}"):
                seen = self._appearances([binding.table.path]).get(binding.table.path)
                fresh = bound_tables(self.session, [binding.resource])[0]
                failure = self._unfit(binding, fresh)
                if fresh is None or seen is None or failure is not None:
                    self._seen[index] = None  # It is looked at again: it may be on its way to become something else.
                    self._remind(binding, failure)
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
            appearances = self._appearances([binding.table.path for binding in self.bindings])
            for binding in self.bindings:
                seen = appearances.get(binding.table.path)
                if seen is None or seen.entry is None:
                    self._remind(binding, self._unfit(binding, binding.table if seen is not None else None))
                elif seen != self._seen[binding.index]:
                    self._seen[binding.index] = seen
                    self.found.add(binding.index)

    def _unfit(self, binding: PostgresBinding, table: Table | None) -> SourceError | None:
        """Why the log does not, or could not, have the table's changes; None where it has them."""
        for failure in table_failures(self.session, self._config, binding.resource, table):
            return failure
        assert table is not None
        missing = unpublished(self.session, self._config.publication, [table])
        return None if missing == [] else lacking(self.session, self._config, [table], exists=missing is not None)

    def _remind(self, binding: PostgresBinding, failure: SourceError | None) -> None:
        now = time.monotonic()
        if failure is None or now < self._reminded_at.get(binding.index, now):
            return
        self._reminded_at[binding.index] = now + REMINDER_SECONDS
        logger.warning(
            "%s; changes of %s are not captured, and it will be read anew once that is mended",
            failure.message,
            binding.name,
            extra={"code": failure.code, "remedy": failure.remedy},
        )


def _has_another_key(relation: Relation, binding: PostgresBinding) -> bool:
    """Whether rows of the log are told apart by other columns than the binding's, unless those were configured."""
    if binding.resource.key is not None:
        return False
    sent = {column.name for column in relation.columns if column.in_key}
    # By default it is the primary key that is sent; an index may have more columns than the key, and all are no key.
    return sent != set(binding.key) if relation.identity == "d" else not set(binding.key) <= sent


def _signature(column: Column) -> tuple[str, int, int]:
    return column.name, column.type.oid, column.type.typmod
