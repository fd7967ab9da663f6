"""The captured tables as the log and the catalogs show them, while they are altered, recreated and republished."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import psycopg

from tidemark.captures.contract.errors import TableAway
from tidemark.captures.contract.source import Regained
from tidemark.captures.contract.table_changes import Cause, Consequence
from tidemark.captures.postgres.catalog.columns import Table, recorded
from tidemark.captures.postgres.catalog.table_record import read_digests
from tidemark.captures.postgres.rows.log_decoder import Relation, compile_log_decoder
from tidemark.captures.postgres.server.config import EndpointConfig, ResourceConfig
from tidemark.captures.postgres.server.session import asking, connect
from tidemark.captures.postgres.server.setup import table_identifier
from tidemark.captures.postgres.tables.bindings import PostgresBinding, absent, bound_tables
from tidemark.captures.postgres.tables.bound_relations import AlteredTable, BoundRelation, LeftOut, ShownPartition
from tidemark.captures.postgres.tables.counted_scans import CountedScans
from tidemark.captures.postgres.tables.noted_table import NotedTable
from tidemark.captures.postgres.tables.prerequisites import document_failures, log_failures
from tidemark.captures.postgres.tables.scan_target import ScanTarget
from tidemark.captures.postgres.tables_that_change import table_changes
from tidemark.captures.postgres.tables_that_change.column_fills import present
from tidemark.captures.postgres.tables_that_change.column_identities import as_logged, has_another_key, lacks_the_key
from tidemark.captures.postgres.tables_that_change.comparison import (
    away,
    changes_of,
    noted_as_before,
    noted_of,
    oldest_running,
    opened_bindings,
    seen_now,
    tell,
    were_identified,
    why_unfit,
)
from tidemark.captures.postgres.tables_that_change.shown_changes import ShownNames
from tidemark.captures.postgres.tables_that_change.table_fingerprint import key_numbers
from tidemark.captures.rows.captured_line import origin_members
from tidemark.captures.tables.altered_tables import AlteredTables
from tidemark.captures.tables.opened_tables import OpenedTables
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding, JsonObject

logger = logging.getLogger(__name__)

LOOKING_PART = 20
"""One part of so many of the time, at most, goes into comparing tables with their last known definitions."""


class CapturedTables:
    """The tables of a source, and how the rows of relations in its log are decoded.

    Raises:
        SourceError: None of the tables can be captured.

    Attributes:
        session: For queries; it is replaced after a reconnect.
        bindings: All bindings, by index.
        opened: The bindings as the engine knows them.
        found: Tables that a chunk, or a look at the catalogs, found altered.
        scans: The scans of the tables without a key.
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
        self._look_at = time.monotonic() + table_changes.LOOK_SECONDS
        self._away: dict[int, SourceError] = {}
        self._left_out: set[int] = set()
        self._returning: dict[int, tuple[str, int]] = {}
        # Of each table the digest of the record that was looked at last; None while it cannot be captured.
        self.bindings, self._seen = opened_bindings(session, config, bindings, resources)
        self._left_out.update(binding.index for binding in self.bindings if binding.unfit is not None)
        self._by_oid = {binding.table.oid: binding for binding in self.bindings if binding.unfit is None}
        self._names = {binding.table.path: binding for binding in self.bindings}
        self.opened = OpenedTables(binding.opened() for binding in self.bindings)
        self.found = AlteredTables()
        self._names_shown = ShownNames(self.found)
        self.scans = CountedScans(partial(connect, config), end_of_log)

    def _digests(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        return read_digests(self.session, self._config.publication, names)

    def target(self, binding: int) -> ScanTarget:
        """What chunks of a table select. Readers' threads call this while the log's thread may change the columns."""
        bound = replace(self.bindings[binding])  # All of it as of one moment.
        return replace(bound.scan_target(), snapshot=self.scans.snapshot(binding))

    # What they were.

    def noted(self) -> JsonObject:
        """For the state: by state key, the fingerprint as of which all captured rows are right."""
        return {each.state_key: each.noted.to_state() for each in self.bindings if each.noted.oid}

    def noted_before(self, identity: JsonObject) -> None:
        """Takes the ``noted()`` of an earlier session, and marks the tables that changed since then.

        Consequences wait until the log has been read to its present end: older changes in the log must not be applied
        after the rows that are read again.
        """
        for binding in self.bindings:
            binding.identified &= were_identified(binding, identity)
            if binding.index in self._left_out:
                binding.noted = NotedTable.of((identity.get("tables") or {}).get(binding.state_key) or {})
                continue  # It is compared once it is back.
            if noted_as_before(self.session, binding, identity):
                self._names_shown.note(binding)
                self.found.add(binding.index)
            self.opened.put(binding.opened())

    def published_again(self) -> None:
        """Notes all tables as they are now: all of them are read again, or are captured from now on."""
        with asking("reading the publication"):
            digests = self._digests([binding.table.path for binding in self.bindings])
            since = oldest_running(self.session)
            captured = self.captured
            tables = bound_tables(self.session, [each.resource for each in captured], self._config.publication)
        for binding, table in zip(captured, tables, strict=True):
            self._seen[binding.index] = digests.get(binding.table.path)
            if table is None or table.oid != binding.table.oid:
                self._seen[binding.index] = None  # It is looked at again.
                continue
            binding.table = replace(binding.table, record=table.record)
            binding.noted = noted_of(binding, since)

    # Tables that are set aside: see tidemark.captures.engine.set_aside.

    @property
    def captured(self) -> list[PostgresBinding]:
        """The bindings that are not left out."""
        return [binding for binding in self.bindings if binding.index not in self._left_out]

    def cannot_publish(self, binding: PostgresBinding, failure: SourceError) -> None:
        """Leaves a table out that was found unfit before the log is open."""
        self.opened.put(replace(self.opened[binding.index], unfit=failure))
        self._left_out.add(binding.index)

    def leave_out(self, index: int, identity: str = "") -> None:
        """See ``tidemark.captures.contract.source.Source``: its relations are ``LeftOut`` from here on."""
        self._left_out.add(index)
        binding = self.bindings[index]
        oid = identity.partition(" ")[0]
        if binding.unfit is not None and oid:
            # Changes of the table that could be captured are passed over, and counted as changes that were missed.
            self._bind(binding, absent(binding.resource, int(oid)))

    def unfit(self, index: int) -> SourceError | None:
        """Why a table cannot be captured as it is now; None where it can."""
        binding = self.bindings[index]
        with asking(f"reading the definition of {binding.name}"):
            return why_unfit(self.session, self._config, binding, present(self.session, self._config, binding))

    def regain(self, index: int, position: int) -> Regained | SourceError | None:
        """See ``tidemark.captures.contract.source.Source``."""
        binding = self.bindings[index]
        with asking(f"reading the definition of {binding.name}"):
            seen, since, fresh, failure = seen_now(self.session, self._config, binding)
        if failure is not None or fresh is None or seen is None:
            self._returning.pop(index, None)
            return failure
        before, end = self._returning.get(index, (None, 0))
        if before != seen:
            # Earlier changes in the log may be another table's, or changes that the log lacks may follow them.
            self._returning[index] = seen, self._end_of_log()
            return None
        if position < end:
            return None
        same = False
        if binding.noted.oid:
            changed = changes_of(self.session, binding, fresh)
            if changed is None:
                return None
            tell(binding, changed)
            same = changed.consequence < Consequence.BEGUN_AGAIN
        binding.unfit = None
        self._seen[index] = seen
        self._bind(binding, fresh)
        binding.noted = noted_of(binding, since)
        self._left_out.discard(index)
        del self._returning[index]
        return Regained(self.opened[index], same)

    # As the log shows them.

    def relation(self, relation: Relation) -> BoundRelation | AlteredTable | LeftOut | None:
        """The binding and decoder of a relation's rows, with a new schema when its columns changed.

        None when no binding captures it. An AlteredTable when its rows cannot be told apart as the table's are now:
        they are skipped, and the table is read again.
        """
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
        causes: tuple[Cause, ...] = ()
        if binding is None:
            if (binding := self._successor(relation)) is None:
                return None
            causes = (table_changes.MADE_AGAIN.cause(),)
            if has_another_key(relation, binding) or lacks_the_key(relation, binding):
                # The log is behind: it shows an identity that the table had for a while. Those rows are read with it.
                return AlteredTable(binding.index, binding.document_schema, causes)
        elif has_another_key(relation, binding):
            announced, causes = None, (table_changes.KEY.cause(),)
            if not self._rekeyed(binding, relation):
                return AlteredTable(binding.index, None, causes)
        # Values that changed without events in the log are found in the catalogs: see ``altered``.
        binding.table, sure = as_logged(self.session, self._config, binding, relation)
        self._names_shown.note(binding, relation, sure=sure)
        for failure in document_failures(binding.resource, binding.table):
            raise away(failure)
        emitted = {column.name: column for column in binding.columns}
        decoder = compile_log_decoder(
            binding.index,
            [emitted.get(c.name) for c in relation.columns],
            relation.columns,
            binding.key,
            table=binding.name,
            quoted_table=table_identifier(binding.table).as_string(self.session),
            labels=self._names_shown.labels(binding),
        )
        schema = binding.document_schema
        return BoundRelation(
            binding=binding.index,
            decoder=decoder,
            origin=origin_members(*binding.table.path),
            new_schema=schema if schema != announced else None,
            causes=causes,
            keyless=not binding.key,
        )

    def _successor(self, relation: Relation) -> PostgresBinding | None:
        """The binding to whose table's name a relation succeeded; None if another table has the name by now."""
        binding = self._names.get((relation.schema, relation.table))
        if binding is None:
            return None
        with asking(f"looking for {binding.name}"):
            since = oldest_running(self.session)
            now = self._present(binding, relation)
        if now is None:
            return None
        logger.warning("%s was dropped and created again, or another table took its name", binding.name)
        self._bind(binding, now)
        binding.noted = noted_of(binding, since)
        return binding

    def _rekeyed(self, binding: PostgresBinding, relation: Relation) -> bool:
        """Gives the binding the table's present key; whether the log's rows have that key. Raises TableAway."""
        with asking(f"reading the key of {binding.name}"):
            fresh = self._present(binding, relation)
        if fresh is not None:
            self._bind(binding, fresh)
            unique = key_numbers(recorded(fresh), binding.key)
            binding.noted = msgspec.structs.replace(binding.noted, key=binding.key, unique=unique)
        logger.warning("%s has another key: it is read again", binding.name)
        return not has_another_key(relation, binding)

    def _present(self, binding: PostgresBinding, relation: Relation) -> Table | None:
        """The binding's table, if it is the relation's. Raises TableAway where it cannot be captured."""
        now = present(self.session, self._config, binding)
        if now is None or now.oid != relation.oid:
            return None
        for failure in log_failures(self.session, self._config, binding.resource, now):
            raise away(failure)
        return now

    def _bind(self, binding: PostgresBinding, table: Table) -> None:
        # After a swap of names, another binding may have its old table by now.
        if self._by_oid.get(binding.table.oid) is binding:
            del self._by_oid[binding.table.oid]
        binding.table = table
        self._by_oid[table.oid] = binding
        self.opened.put(binding.opened())

    def shown(self, partitions: Iterable[ShownPartition] = ()) -> bool:
        """Whether the log has shown names since this was asked last that ``Source.identity`` has now, and had not."""
        return self._names_shown.noted(self.bindings, partitions)

    def truncated(self, binding: int, transaction: int) -> None:
        """A transaction has a TRUNCATE of it."""
        self._names_shown.truncated(self.bindings[binding], transaction)

    def filled(self, binding: int, partition: int, transaction: int) -> None:
        """The log shows a partition, also one that it has shown before."""
        self._names_shown.filled(self.bindings[binding], partition, transaction)

    # As the catalogs show them.

    def altered(self, position: int) -> list[AlteredTable] | None:
        """Tables that were found altered, once the log was read to where they are; None while it has to be.

        Called between transactions. Their rows are decoded as ``relation`` says from here on, also where no other
        Relation message comes: a type may have been altered, or names swapped.
        """
        self._look()
        due = [index for index in self.found.due(position, self._end_of_log) if index not in self._left_out]
        if not due:
            return None if self.found else []
        found = []
        for index in due:
            binding = self.bindings[index]
            with asking(f"reading the columns of {binding.name}"):
                seen, since, fresh, failure = seen_now(self.session, self._config, binding)
                if fresh is None or seen is None or failure is not None:
                    self._seen[index] = None  # It is looked at again: it may be on its way to become something else.
                    if failure is not None:
                        self._away[binding.index] = failure
                elif seen != self._seen[index]:
                    self._seen[index] = seen  # Altered once more: the log has to be read to where that was.
                    self.found.add(index)
                elif (altered := self._take(binding, fresh, since)) is not None:
                    found.append(altered)
                else:
                    self._seen[index] = None  # With the next look.
        return found

    def _take(self, binding: PostgresBinding, table: Table, since: str) -> AlteredTable | None:
        """Continues with the table as it is now, to which the log has been read; None if it cannot be compared yet."""
        known, columns = binding.document_schema, binding.noted.columns
        changed = changes_of(self.session, binding, table)
        if changed is None:
            return None
        tell(binding, changed)
        self._bind(binding, table)
        binding.noted = noted_of(binding, since)
        schema = binding.document_schema
        # With identities a schema marks where the table became this one, also where no row of it follows.
        sent = schema != known or (binding.identified and binding.noted.columns != columns)
        return AlteredTable(binding.index, schema if sent else None, changed.causes)

    def _look(self) -> None:
        """Finds tables that changed since the last look."""
        now = time.monotonic()
        if now < self._look_at:
            return
        with asking("comparing tables with their last known definitions"):
            captured = self.captured
            digests = self._digests([binding.table.path for binding in captured])
            others = []
            for binding in captured:
                seen = digests.get(binding.table.path)
                if seen is None or seen != self._seen[binding.index]:
                    others.append((binding, seen))
            resources = [binding.resource for binding, _ in others]
            tables = bound_tables(self.session, resources, self._config.publication) if others else []
            for (binding, seen), table in zip(others, tables, strict=True):
                failure = why_unfit(self.session, self._config, binding, table)
                self._seen[binding.index] = seen if failure is None else None
                if failure is not None:
                    self._away[binding.index] = failure
                else:
                    self.found.add(binding.index)
        # The log waits meanwhile, so a look at thousands of tables takes only a part of the time.
        took = time.monotonic() - now
        self._look_at = now + took + max(table_changes.LOOK_SECONDS, LOOKING_PART * took)

    def away(self) -> dict[int, SourceError]:
        """Tables that were found since this was asked last not to be as they can be captured, and why."""
        found, self._away = self._away, {}
        return found
