"""A PostgreSQL database opened for capturing."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from backfill.keys import Key
from captures.interface import Barrier, OpenedTable
from captures.postgres.altered import AlteredTables, WatchedReader
from captures.postgres.bindings import PostgresBinding, bound_tables, warn_of_silent_changes
from captures.postgres.catalog import read_tables, read_types
from captures.postgres.chunks import CopyChunkReader
from captures.postgres.columns import Column, Table
from captures.postgres.config import EndpointConfig, ResourceConfig
from captures.postgres.fence import FenceTaker
from captures.postgres.log import AlteredTable, BoundRelation, PgoutputLog, StreamStart, origin_members
from captures.postgres.lsn import format_lsn, parse_lsn
from captures.postgres.pgoutput import Relation
from captures.postgres.position import ServerLog, Slot, check_log, check_slot, check_usable, read_server_log, read_slot
from captures.postgres.prerequisites import table_failures
from captures.postgres.ranges import split, split_pages
from captures.postgres.reader_endpoint import ReaderEndpoint
from captures.postgres.replication import ReplicationConnection
from captures.postgres.retention import Retention, replica_lag
from captures.postgres.rows import compile_log_decoder
from captures.postgres.scan_target import ScanTarget
from captures.postgres.session import asking, connect, in_recovery
from captures.postgres.setup import ensure_publication, ensure_slot, lacking, unpublished
from captures.postgres.snapshot import Snapshot, SnapshotFence
from captures.postgres.uncapturable import no_table, rows_come_as_another
from captures.reader_process import ReaderProcess
from protocol.errors import SourceError
from protocol.messages import Binding, JsonObject

logger = logging.getLogger(__name__)

SLOT_WAIT_SECONDS = 10.0
"""How long a slot may stay busy before that is an error: a walsender outlives a killed client for a moment."""


class PostgresSource:
    """See ``captures.interface.Source``.

    Raises:
        SourceError: No connection, or a bound table that is gone.
    """

    def __init__(
        self, config: EndpointConfig, bindings: Sequence[Binding], resources: Sequence[ResourceConfig]
    ) -> None:
        self._config = config
        self._session = connect(config)
        self._fences = FenceTaker(self._session, read_only=config.read_only)
        self._standby = in_recovery(self._session)
        try:
            self._bindings = self._bound(bindings, resources)
        except BaseException:
            self._session.close()
            raise
        self._by_oid = {b.table.oid: b for b in self._bindings}
        self._names = {b.table.path: b for b in self._bindings}
        self._altered = AlteredTables()
        self._log: ServerLog | None = None
        self._retention = Retention(config)
        self._stream: PgoutputLog | None = None
        self.tables: list[OpenedTable] = [binding.opened() for binding in self._bindings]
        self.options = config.backfill.options(on_lost_position=config.on_lost_position)
        self.heartbeat_seconds = config.heartbeat_seconds

    def _bound(self, bindings: Sequence[Binding], resources: Sequence[ResourceConfig]) -> list[PostgresBinding]:
        with asking("reading the tables' columns"):
            tables = bound_tables(self._session, resources)
        bound = []
        for index, (binding, resource, table) in enumerate(zip(bindings, resources, tables, strict=True)):
            if table is None:
                raise no_table(self._session, self._config, resource)
            bound.append(
                PostgresBinding(
                    index,
                    binding.state_key,
                    resource,
                    table,
                    emit_truncate=self._config.truncate == "emit",
                    salt=self._config.hash_salt.get_secret_value().encode(),
                )
            )
        return bound

    def reconnect(self) -> None:
        self._session.close()
        self._session = connect(self._config)
        self._fences = FenceTaker(self._session, read_only=self._config.read_only)
        self._standby = in_recovery(self._session)

    def close(self) -> None:
        self._session.close()

    # Positions.

    def identity(self) -> JsonObject:
        if self._log is None:
            self._log = read_server_log(self._config)
        return self._log.identity(self._config)

    def start_position(self, cursor: str | None, identity: JsonObject | None) -> int:
        if cursor is None:
            slot = self._usable_slot()
            if slot is None:
                raise SourceError("TM-PG-012", f"there is no replication slot {self._config.slot}")
            position = slot.confirmed
        else:
            position = parse_lsn(cursor)
            self._check(position, position, identity or {})
        self._check_published()
        return position

    def _check_published(self) -> None:
        """Raises ``TM-PG-011`` where a table's changes are not in the log: that would not be noticed otherwise."""
        tables = [binding.table for binding in self._bindings]
        with asking("looking at the publication"):
            missing = unpublished(self._session, self._config.publication, tables)
            if missing is None or missing:
                raise lacking(self._session, self._config, missing or tables, exists=missing is not None)
            for failure in rows_come_as_another(self._session, self._config.publication, tables):
                raise failure

    def start_over(self) -> int:
        tables = [binding.table for binding in self._bindings]
        with asking("preparing the source anew"):
            ensure_publication(self._session, self._config, tables)
            slot = read_slot(self._session, self._config.slot)
            if slot is not None and slot.invalidated and self._config.create:
                self._session.execute("SELECT pg_drop_replication_slot(%s)", [self._config.slot])
            ensure_slot(self._session, self._config)
        self._log = None
        slot = self._usable_slot()
        assert slot is not None
        return slot.confirmed

    def _usable_slot(self) -> Slot | None:
        slot = read_slot(self._session, self._config.slot)
        if slot is not None:
            check_usable(self._session, self._config, slot)
        return slot

    def _check(self, position: int, known: int, identity: JsonObject) -> None:
        """Raises unless the server's log, read up to ``known`` under ``identity``, can be gone on with."""
        log = read_server_log(self._config)
        # What another log is, says more than what its slots are; a state without identity is one of earlier versions.
        if identity:
            check_log(log, known, identity)
        check_slot(self._session, self._config, read_slot(self._session, self._config.slot), position, known)
        self._log = log

    def format_position(self, position: int) -> str:
        return format_lsn(position)

    def end_of_log(self) -> int:
        return self._fences.high()

    # Visibility.

    def visibility(self) -> SnapshotFence:
        return SnapshotFence(self._snapshot(), 0)

    def barrier(self) -> int:
        # The next transaction id, not the snapshot's xmax: that is above what has ended, and a transaction that runs
        # may lie beyond it. age() counts from the next id to be given out, and gives out none.
        snapshot = self._snapshot()
        ahead = self._one("SELECT age(%s::text::xid)", str(snapshot.xmin % (1 << 32)))
        return snapshot.xmin + int(str(ahead))

    def passed(self, barrier: Barrier) -> bool:
        return self._snapshot().xmin >= int(barrier)

    def split(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        cut = split_pages if self._bindings[binding].scan == "physical" else split
        with asking(f"splitting the scan of {self._bindings[binding].name}"):
            return cut(self._session, self._target(binding), cursor, until, parts)

    def _snapshot(self) -> Snapshot:
        recovery = in_recovery(self._session)  # Before the snapshot is taken: see CopyChunkReader.
        return Snapshot.parse(str(self._one("SELECT pg_current_snapshot()::text")), recovery=recovery)

    # Reading.

    def open_log(self, position: int) -> PgoutputLog:
        self._stream = PgoutputLog(self._start_stream, position, self, emit_truncate=self._config.truncate == "emit")
        return self._stream

    def _start_stream(self, start: StreamStart) -> ReplicationConnection:
        if start.replaces is not None:
            self._check(start.position, start.known, self.identity())
            self._end_walsender(start.replaces)
        deadline = time.monotonic() + SLOT_WAIT_SECONDS
        while True:
            try:
                return ReplicationConnection(self._config, start.position, flushed=start.flushed)
            except SourceError as error:
                if error.code != "TM-PG-014" or time.monotonic() >= deadline:
                    raise self._name_holder(error) from None
                time.sleep(0.1)

    def _end_walsender(self, pid: int) -> None:
        """Ends the process of our own broken stream, which may not have noticed yet and would hold the slot."""
        self._one(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE slot_name = %s AND active_pid = %s::int",
            self._config.slot,
            str(pid),
        )

    def open_chunk_reader(self) -> WatchedReader:
        open_reader = partial(CopyChunkReader, ReaderEndpoint.of(self._config))
        return WatchedReader(ReaderProcess(open_reader, self._target), self._altered)

    def chunk_head(self, binding: int, position: int) -> bytes:
        return self._bindings[binding].chunk_head(position)

    def truncation(self, binding: int, position: int) -> bytes:
        return self._bindings[binding].truncation(position)

    # What is kept for us.

    def retained_bytes(self) -> int | None:
        stream = self._stream
        position, reading = (stream.position, stream.reading()) if stream is not None else (0, "")
        retained = self._retention.retained_bytes(self._session, position, reading)
        self._follow_promotion()
        return retained

    def retention_limit(self) -> int | None:
        return self._retention.limit

    def replica_lag(self) -> float | None:
        return replica_lag(self._session, self._config.user)

    def _follow_promotion(self) -> None:
        """A standby that is promoted goes on with its own log, and the stream with it, on another timeline.

        Raises a SourceError that passes: the state must have the new timeline, and it takes that when connected anew.
        """
        if self._standby and not in_recovery(self._session):
            self._log = read_server_log(self._config)
            raise SourceError("TM-PG-020", f"the standby was promoted, and is on timeline {self._log.timeline} now")

    # Tables, as the log shows them.

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
                warn_of_silent_changes(self._session, binding.table, table)
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
            fresh = read_tables(self._session, [binding.table.path])
            types = read_types(self._session, [c.type_oid for c in relation.columns])
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
            present = read_tables(self._session, [binding.table.path])
            if not present or present[0].oid != relation.oid:
                return None
            failures = list(table_failures(self._session, self._config, binding.resource, present[0]))
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
            fresh = bound_tables(self._session, [binding.resource])[0]
            if fresh is not None and fresh.oid == relation.oid:
                for failure in table_failures(self._session, self._config, binding.resource, fresh):
                    raise failure
                self._bind(binding, fresh)
        logger.warning("%s has another key; it is read anew", binding.name)
        return not _has_another_key(relation, binding)

    def _bind(self, binding: PostgresBinding, table: Table) -> None:
        del self._by_oid[binding.table.oid]
        binding.table = table
        self._by_oid[table.oid] = binding
        self.tables[binding.index] = binding.opened()

    def altered(self, position: int) -> list[AlteredTable] | None:
        """See ``captures.postgres.log.Tables``."""
        if not self._altered:
            return []
        due = self._altered.due(position, self._fences.high)
        if not due:
            return None
        found = []
        for index in due:
            binding = self._bindings[index]
            with asking(f"reading the columns of {binding.name}"):
                fresh = bound_tables(self._session, [binding.resource])[0]
            if fresh is None:
                raise SourceError("TM-PG-007", f"there is no table {binding.name} any more")
            announced = binding.document_schema
            restarted = fresh.oid != binding.table.oid
            self._bind(binding, fresh)
            schema = binding.document_schema
            found.append(AlteredTable(index, schema if schema != announced else None, restarted=restarted))
        return found

    def _target(self, binding: int) -> ScanTarget:
        """What chunks of a table select. Readers' threads ask, while the log's may give the binding new columns."""
        return replace(self._bindings[binding]).scan_target()  # All of it as of one moment.

    # Queries.

    def _one(self, query: str, *parameters: str) -> object:
        with asking("asking the server where it is"):
            row = self._session.execute(query, parameters).fetchone()
        return row[0] if row is not None else None

    def _name_holder(self, error: SourceError) -> SourceError:
        if error.code != "TM-PG-014":
            return error
        with asking("looking for who reads the replication slot"):
            holder = self._session.execute(
                "SELECT s.active_pid, a.application_name, a.client_addr::text FROM pg_replication_slots s"
                " LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s",
                [self._config.slot],
            ).fetchone()
        pid, application, address = holder or (None, None, None)
        return SourceError(
            "TM-PG-014",
            f"replication slot {self._config.slot} is in use by process {pid} "
            f"({application} from {address or 'the server itself'})",
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
