"""A PostgreSQL database opened for capturing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from psycopg import pq

from backfill.keys import Key
from captures.interface import BackfillOptions, Barrier, OpenedTable
from captures.postgres.bindings import PostgresBinding, bound_tables
from captures.postgres.catalog import read_tables, read_types
from captures.postgres.chunks import CopyChunkReader, ScanTarget
from captures.postgres.columns import Column, Table
from captures.postgres.config import EndpointConfig, ResourceConfig
from captures.postgres.fence import FenceTaker
from captures.postgres.log import BoundRelation, PgoutputLog, origin_members
from captures.postgres.lsn import format_lsn, parse_lsn
from captures.postgres.pgoutput import Relation
from captures.postgres.replication import ReplicationConnection
from captures.postgres.rows import compile_log_decoder
from captures.postgres.session import asking, connect, connect_pq, error_text
from captures.postgres.setup import check_slot_kind
from captures.postgres.snapshot import Snapshot, SnapshotFence
from protocol.errors import SourceError
from protocol.messages import Binding, JsonObject

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
        try:
            self._bindings = self._bound(bindings, resources)
        except BaseException:
            self._session.close()
            raise
        self._by_oid = {b.table.oid: b for b in self._bindings}
        self._names = {b.table.path for b in self._bindings}
        self._targets: dict[int, tuple[Table, ScanTarget]] = {}
        self.tables: list[OpenedTable] = [binding.opened() for binding in self._bindings]
        self.options = BackfillOptions(
            config.backfill.readers, config.backfill.chunk_seconds, config.backfill.chunk_rows
        )
        self.heartbeat_seconds = config.heartbeat_seconds

    def _bound(self, bindings: Sequence[Binding], resources: Sequence[ResourceConfig]) -> list[PostgresBinding]:
        with asking("reading the tables' columns"):
            tables = bound_tables(self._session, resources)
        bound = []
        for index, (binding, resource, table) in enumerate(zip(bindings, resources, tables, strict=True)):
            if table is None:
                raise SourceError("TM-PG-007", f"there is no table {resource.schema_name}.{resource.table}")
            bound.append(PostgresBinding(index, binding.state_key, resource, table, self._config.truncate == "emit"))
        return bound

    # Positions.

    def identity(self) -> JsonObject:
        connection = connect_pq(self._config, replication=True)
        try:
            result = connection.exec_(b"IDENTIFY_SYSTEM")
            if result.status != pq.ExecStatus.TUPLES_OK:
                raise SourceError("TM-PG-020", f"IDENTIFY_SYSTEM: {error_text(connection)}")
            system = (result.get_value(0, 0) or b"").decode()
        finally:
            connection.finish()
        return {"system": system, "database": self._config.database, "slot": self._config.slot}

    def start_position(self, cursor: str | None, identity: JsonObject | None) -> int:
        with asking("looking for the replication slot"):
            slot = self._session.execute(
                "SELECT plugin, database, confirmed_flush_lsn, wal_status"
                " FROM pg_replication_slots WHERE slot_name = %s",
                [self._config.slot],
            ).fetchone()
        if slot is None:
            if cursor is None:
                raise SourceError("TM-PG-012", f"there is no replication slot {self._config.slot}")
            raise SourceError(
                "TM-PG-015", f"replication slot {self._config.slot} is gone; the capture stood at {cursor}"
            )
        plugin, database, confirmed, wal_status = slot
        check_slot_kind(self._config, plugin, database)
        if wal_status == "lost":
            raise SourceError(
                "TM-PG-015", f"the server has removed log that replication slot {self._config.slot} still needed"
            )
        if cursor is None:
            return parse_lsn(confirmed)
        if identity is not None and (now := self.identity())["system"] != identity.get("system"):
            raise SourceError(
                "TM-PG-016", f"the capture read system {identity.get('system')}, this server is {now['system']}"
            )
        position = parse_lsn(cursor)
        if parse_lsn(confirmed) > position:
            raise SourceError(
                "TM-PG-015",
                f"replication slot {self._config.slot} stands at {confirmed}, past the capture's {cursor}: "
                "it was made anew, or something else reads it",
            )
        if position > self._lsn("pg_current_wal_lsn()"):
            raise SourceError(
                "TM-PG-016", f"the capture stood at {cursor}, which this server's log has not reached: it was restored"
            )
        return position

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
        return []

    def _snapshot(self) -> Snapshot:
        return Snapshot.parse(str(self._one("SELECT pg_current_snapshot()::text")))

    # Reading.

    def open_log(self, position: int) -> PgoutputLog:
        deadline = time.monotonic() + SLOT_WAIT_SECONDS
        while True:
            try:
                connection = ReplicationConnection(self._config, position)
                break
            except SourceError as error:
                if error.code != "TM-PG-014" or time.monotonic() >= deadline:
                    raise self._name_holder(error) from None
                time.sleep(0.1)
        return PgoutputLog(connection, position, self, emit_truncate=self._config.truncate == "emit")

    def open_chunk_reader(self) -> CopyChunkReader:
        return CopyChunkReader(self._config, self._target)

    def chunk_head(self, binding: int, position: int) -> bytes:
        return self._bindings[binding].chunk_head(position)

    def truncation(self, binding: int, position: int) -> bytes:
        return self._bindings[binding].truncation(position)

    def retained_bytes(self) -> int | None:
        value = self._one(
            "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
            " ELSE pg_current_wal_lsn() END, restart_lsn)::bigint FROM pg_replication_slots WHERE slot_name = %s",
            self._config.slot,
        )
        return int(value) if isinstance(value, int) else None

    def close(self) -> None:
        self._session.close()

    # Tables, as the log shows them.

    def relation(self, relation: Relation) -> BoundRelation | None:
        """The decoder of a relation's rows; announces a new schema when its columns changed."""
        binding = self._by_oid.get(relation.oid)
        if binding is None:
            self._check_replaced(relation)
            return None
        before = binding.document_schema
        table = self._as_logged(binding, relation)
        if table.columns != binding.table.columns:
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
            new_schema=schema if schema != before else None,
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

    def _check_replaced(self, relation: Relation) -> None:
        """Raises when another table has a bound one's name now; what only had the name once is passed over."""
        name = (relation.schema, relation.table)
        if name not in self._names:
            return
        with asking(f"looking for {relation.schema}.{relation.table}"):
            present = read_tables(self._session, [name])
        if any(table.oid == relation.oid for table in present):
            raise SourceError(
                "TM-PG-030",
                f"{relation.schema}.{relation.table} was dropped and made again, or another table took its name",
                remedy="Nothing needs to be done: the connector reads the table anew when it starts again.",
            )

    def _target(self, binding: int) -> ScanTarget:
        """What chunks of a table select. Readers' threads ask, while the log's may give the binding new columns."""
        bound = replace(self._bindings[binding])  # All of it as of one moment.
        table, target = self._targets.get(binding, (None, None))
        if target is None or table is not bound.table:
            target = bound.scan_target()
            self._targets[binding] = bound.table, target
        return target

    # Queries.

    def _one(self, query: str, *parameters: str) -> object:
        with asking("asking the server where it is"):
            row = self._session.execute(query, parameters).fetchone()
        return row[0] if row is not None else None

    def _lsn(self, function: str) -> int:
        return parse_lsn(str(self._one(f"SELECT {function}")))

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


def _signature(column: Column) -> tuple[str, int, int]:
    return column.name, column.type.oid, column.type.typmod
