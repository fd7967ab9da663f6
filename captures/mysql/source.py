"""A MySQL or MariaDB server opened for capturing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pymysql

from backfill.keys import Key
from captures.contract.capabilities import ReadsInSnapshots, RemembersLayouts
from captures.contract.chunk import Barrier, Chunk, ChunkRequest
from captures.contract.errors import TableAltered, TableAway
from captures.contract.scan import ScanMethod
from captures.contract.source import OpenedTable, Regained, RetainedLog, never
from captures.mysql.chunks.fence import ServerFence, end_of_log, ensure_watermark_table, fence_taker
from captures.mysql.chunks.reader import SelectChunkReader
from captures.mysql.chunks.scan_target import ScanTarget
from captures.mysql.chunks.snapshot_scan import SnapshotScan
from captures.mysql.chunks.snapshot_scans import SnapshotScans
from captures.mysql.chunks.split_points import split
from captures.mysql.config import EndpointConfig, ResourceConfig, replica_id
from captures.mysql.log.position import OFFSET_BITS, LogPosition, parse_position, position
from captures.mysql.log.resumption import continued, end_position, log_files, server_identity
from captures.mysql.log.stream import BinlogLog
from captures.mysql.server.prerequisites import definition_failures
from captures.mysql.server.session import asking, connect
from captures.mysql.server.xa_recover import XA, may_see_prepared, prepared_transactions, prepared_xids
from captures.mysql.tables.bindings import BoundTable, absent, bound_tables, folded
from captures.mysql.tables.columns import Column, Table, reads_as
from captures.mysql.tables.conversions import Definitions
from captures.mysql.tables.layouts import LayoutParts, layout, read_layout
from captures.mysql.tables.table_fingerprint import MEMBER, NotedTables
from captures.mysql.values.charsets import Charsets, Recode
from captures.scheduling.reader_process import ReaderProcess
from captures.tables.emissions import Emissions
from captures.tables.opened_tables import OpenedTables
from captures.tables.truncation import Truncation
from protocol.errors import SourceError
from protocol.messages import Binding, JsonObject

logger = logging.getLogger(__name__)

OFFSET_MASK = (1 << OFFSET_BITS) - 1


class _ChunkReader(ReaderProcess):
    """Rows without keys come by another process, which holds their snapshot open."""

    def __init__(
        self,
        open_reader: Callable[[], SelectChunkReader],
        table: Callable[[int], ScanTarget],
        snapshots: SnapshotScans,
    ) -> None:
        super().__init__(open_reader, table)
        self._target = table
        self._snapshots = snapshots

    def read(self, request: ChunkRequest) -> Chunk:
        if request.plan.physical:
            return self._snapshots.read(request, self._target(request.binding).name)
        return super().read(request)


class MysqlSource(RemembersLayouts, ReadsInSnapshots):
    """See ``captures.contract.source.Source``.

    Args:
        layouts: What ``layout`` said of tables in an earlier session, by their state keys.

    Raises:
        SourceError: No connection, or none of the bound tables can be captured.
    """

    def __init__(
        self,
        config: EndpointConfig,
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        *,
        only_reads: bool = False,
        layouts: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        self._only_reads = only_reads
        self._server_id = replica_id(config, resources)
        self._session = connect(config)
        try:
            with asking("opening the source"):
                self._fences = fence_taker(self._session, config, only_reads=only_reads)
                self._base = str(server_identity(self._session)["base"])
                self._as_of = end_of_log(self._session)
                self._bindings = self._bound(bindings, resources, layouts or {})
        except BaseException:
            self._session.close()
            raise
        self._by_name = {self._folded(*b.table.path): b.binding for b in self._bindings}
        self._noted = NotedTables(self._bindings)
        self._differing: set[int] = set()
        self._layouts: dict[int, tuple[LayoutParts, str]] = {}
        for bound in self._bindings:
            text = (layouts or {}).get(bound.state_key)
            if bound.unfit is None and text:
                resumed = self._bindings[bound.binding] = bound.resumed(read_layout(text))
                if resumed.table.columns != bound.table.columns:
                    self._differing.add(bound.binding)
        self._emissions = Emissions()
        self._charsets = Charsets(lambda: self._session)
        self._doubted: set[int] = set()
        self._left_out = {bound.binding for bound in self._bindings if bound.unfit is not None}
        self._returning: dict[int, tuple[tuple[object, ...], int]] = {}
        self._snapshots = SnapshotScans(partial(ReaderProcess, partial(SnapshotScan, config), self._target))
        self._start: LogPosition | None = None
        self._log: BinlogLog | None = None
        self._opened = OpenedTables(bound.opened() for bound in self._bindings)
        for bound in list(self._bindings):
            self._announce(bound.binding)
        self.options = config.backfill.options(
            on_lost_position=config.on_lost_position, announced=config.truncation is Truncation.BACKFILL
        )
        self.heartbeat_seconds = config.heartbeat_seconds

    def _bound(
        self, bindings: Sequence[Binding], resources: Sequence[ResourceConfig], layouts: Mapping[str, str]
    ) -> list[BoundTable]:
        bound = []
        tables = bound_tables(self._session, resources)
        for index, (binding, resource, table) in enumerate(zip(bindings, resources, tables, strict=True)):
            unfit = next(definition_failures(self._session, self._config, resource, table), None)
            there = table if table is not None and unfit is None else absent(resource)
            captured = binding.state_key in layouts
            one = BoundTable(
                index,
                binding.state_key,
                resource,
                there,
                emit_truncate=self._config.truncation is Truncation.EMIT,
                tinyint1_as_bool=self._config.tinyint1_as_bool,
                salt=self._config.hash_salt.get_secret_value().encode(),
                on_bad_value=self._config.on_bad_value,
                definitions=Definitions(there.columns, self._as_of, captured=captured),
            )
            bound.append(replace(one.read(there, self._as_of), unfit=unfit))
        failures = [binding.unfit for binding in bound if binding.unfit is not None]
        if failures and len(failures) == len(bound):
            raise failures[0]
        return bound

    def _announce(self, binding: int) -> None:
        """The schema of a table's documents is the one of ``tables``."""
        bound = self._bindings[binding]
        if bound.unfit is None:
            self._bindings[binding] = replace(bound, announced=self._opened[binding].document_schema)

    def _folded(self, schema: str, table: str) -> tuple[str, str]:
        return folded((schema, table), folds=self._session.folds_names)

    @property
    def tables(self) -> Sequence[OpenedTable]:
        return self._opened.now

    def changed_tables(self) -> Sequence[OpenedTable]:
        return self._opened.hand_over()

    def reconnect(self) -> None:
        self._session.close()
        self._session = connect(self._config)
        with asking("preparing the session"):
            self._fences = fence_taker(self._session, self._config, only_reads=self._only_reads)

    def close(self) -> None:
        self._snapshots.close()
        self._session.close()

    # Positions.

    def identity(self) -> JsonObject:
        with asking("asking the server for its identity"):
            return {**server_identity(self._session), MEMBER: self._noted.to_state()}

    def start_position(self, cursor: str | None, identity: JsonObject | None, ended: Callable[[], bool] = never) -> int:
        with asking("looking for the start position in the log"):
            if cursor is None:
                self._start = end_position(self._session)
            else:
                self._start = continued(self._session, self._config, parse_position(cursor), identity or {})
                for binding in self._noted.restore(identity):
                    self._opened.put(replace(self._opened[binding], captured_otherwise=True))
            if not self._start.file:
                # What was read of the catalog before is of a position of another server.
                for bound in self._bindings:
                    self._bindings[bound.binding] = replace(bound, as_of=bound.as_of and self._as_of)
            self._prepare()
        return self._start.order

    def _prepare(self) -> None:
        if ensure_watermark_table(self._session, self._config):
            logger.info("created table %s", self._config.watermark_table)

    def start_over(self, ended: Callable[[], bool] = never) -> int:
        self._snapshots.close()  # Where they stand says nothing of another log.
        self._noted.start_over()
        with asking("looking for the end of the log"):
            self._start = end_position(self._session)
            self._prepare()
        for bound in list(self._bindings):
            if bound.unfit is None and bound.binding not in self._left_out:
                # What the last session knew is of a place that the log does not have.
                fresh = self.refresh(bound.binding)
                if not isinstance(fresh, SourceError):
                    fresh.definitions.begin(fresh.defined, fresh.as_of)
        return self._start.order

    def layout(self, binding: int, position: int) -> str:
        parts = self._bindings[binding].layout(position)
        known = self._layouts.get(binding)
        if known is None or known[0][0] is not parts[0] or known[0][1:] != parts[1:]:
            columns, past, as_of = parts
            known = self._layouts[binding] = parts, layout(columns, past.values(), as_of=as_of)
        return known[1]

    def format_position(self, position: int) -> str:
        log = self._log
        if log is not None and log.log_position.order == position:
            return str(log.log_position)
        assert self._start is not None and self._start.order == position
        return str(self._start)

    def end_of_log(self) -> int:
        with asking("asking for the end of the log"):
            return end_of_log(self._session)

    def open_log(self, position: int) -> BinlogLog:
        assert self._start is not None and self._start.order == position
        self._log = BinlogLog(
            partial(connect, self._config),
            self._server_id,
            self._start,
            self,
            truncation=self._config.truncation,
            on_statement=self._config.on_statement,
            mariadb=self._session.mariadb,
            beside=lambda: self._session.descriptor,
        )
        return self._log

    # Visibility.

    def visibility(self) -> ServerFence:
        with asking("opening a snapshot"):
            fence = self._fences.open()
            self._session.rows("ROLLBACK")
        return fence

    def barrier(self) -> Barrier:
        """What is in the log and perhaps not visible, and the transactions that are prepared: their rows are in it."""
        with asking("taking a barrier"):
            return " ".join([*self._fences.logged(), *prepared_transactions(self._session)])

    def passed(self, barrier: Barrier) -> bool:
        parts = str(barrier).split()
        prepared = {part for part in parts if part.startswith(XA)}
        with asking("looking for prepared transactions"):
            if prepared and not prepared.isdisjoint(prepared_transactions(self._session)):
                return False
        logged = [part for part in parts if part not in prepared]
        if not logged:
            return True
        visible = self.visibility()
        return not any(map(visible.hides, logged))

    # Reading.

    def open_chunk_reader(self) -> ReaderProcess:
        open_reader = partial(SelectChunkReader, self._config, only_reads=self._only_reads)
        return _ChunkReader(open_reader, self._target, self._snapshots)

    def _target(self, binding: int) -> ScanTarget:
        """What chunks of a table select. Readers' threads ask, while the log's may give the binding new columns."""
        return self._bindings[binding].scan_target()

    def split(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        target = self._target(binding)
        try:
            with asking(f"looking for the smallest and greatest key of {target.name}"):
                return split(self._session, target, cursor, until, parts)
        except (TableAway, TableAltered):
            return []  # The next chunk tells.

    def chunk_head(self, binding: int, position: int) -> bytes:
        bound = self._bindings[binding]
        if bound.scan is ScanMethod.SNAPSHOT:
            # Its rows are numbered over all chunks, and stand where the snapshot does.
            return bound.chunk_head(self._document_cursor(self._snapshots.place(binding, position)))
        return bound.chunk_head(f"{self._document_cursor(position)}{self._emissions.next()}")

    def truncation(self, binding: int, position: int) -> bytes:
        return self._bindings[binding].truncation(f"{self._document_cursor(position)}0")

    def begin_snapshot(self, binding: int) -> None:
        if self._log is not None:
            self._snapshots.begin(binding, self._log.log_position, self._log.committing)

    def _document_cursor(self, position: int) -> str:
        """``cursor`` up to the number of a row."""
        return f"{self._base}.{position >> OFFSET_BITS:06d}:{position & OFFSET_MASK}:"

    # What is kept for us.

    def retained(self) -> RetainedLog:
        log = self._log
        if log is None or not log.log_position.file:
            return RetainedLog(None)
        at = log.log_position
        with asking("asking for the log's files"):
            files = log_files(self._session)
        # Binary logs are kept by time, whoever needs them: there is no limit.
        size = sum(file.size for file in files if position(file.name, 0) >= position(at.file, 0)) - at.offset
        return RetainedLog(size)

    def replica_lag(self) -> float | None:
        """How far this server is behind its primary: a primary does not know it of its replicas."""
        modern = not self._session.mariadb and self._session.version >= (8, 0, 22)
        with asking("asking for the replication lag"):
            lags = []
            cursor = self._session.connection.cursor(pymysql.cursors.DictCursor)
            with cursor:
                cursor.execute("SHOW REPLICA STATUS" if modern else "SHOW SLAVE STATUS")
                for row in cursor.fetchall():
                    lag = row.get("Seconds_Behind_Source", row.get("Seconds_Behind_Master"))
                    lags.append(float("inf") if lag is None else float(lag))
        return max(lags, default=None)

    # Tables, as the log shows them: see captures.mysql.log.table_contract.Tables.

    def bound(self, schema: str, table: str) -> BoundTable | None:
        binding = self._by_name.get(self._folded(schema, table))
        return None if binding is None or binding in self._left_out else self._bindings[binding]

    def left_out(self, schema: str, table: str) -> int | None:
        binding = self._by_name.get(self._folded(schema, table))
        return binding if binding in self._left_out else None

    def in_schema(self, schema: str) -> list[str]:
        wanted = self._folded(schema, "")[0]
        return [table for name, table in self._by_name if name == wanted]

    def refresh(self, binding: int) -> BoundTable | SourceError:
        bound = self._bindings[binding]
        with asking(f"reading the columns of {bound.name}"):
            as_of = end_of_log(self._session)
        table = self._present(bound)
        if isinstance(table, SourceError):
            return table
        return self._bind(binding, table, as_of)

    def _present(self, bound: BoundTable) -> Table | SourceError:
        """The table as it is now, or why it cannot be captured."""
        with asking(f"reading the columns of {bound.name}"):
            table = bound_tables(self._session, [bound.resource])[0]
            for failure in definition_failures(self._session, self._config, bound.resource, table):
                return failure
        assert table is not None
        return table

    def _bind(self, binding: int, table: Table, as_of: int) -> BoundTable:
        """It is the log that says when rows have these columns, so that the schema is announced."""
        bound = self._bindings[binding] = self._bindings[binding].read(table, as_of)
        self._differing.discard(binding)
        self._opened.put(bound.opened())
        return bound

    # Tables that are set aside.

    def leave_out(self, binding: int, identity: str = "") -> None:
        self._left_out.add(binding)
        if self._log is not None:
            self._log.leave_out(binding)

    def found_altered(self, binding: int) -> None:
        self._doubted.add(binding)

    def unfit(self, binding: int) -> SourceError | None:
        found = self._present(self._bindings[binding])
        return found if isinstance(found, SourceError) else None

    def regain(self, binding: int, position: int, *, asked: bool) -> Regained | SourceError | None:
        bound = self._bindings[binding]
        with asking("asking for the end of the log"):
            as_of = end_of_log(self._session)
        table = self._present(bound)
        if isinstance(table, SourceError):
            self._returning.pop(binding, None)
            return table
        shape = table.columns, table.key, table.engine
        before, end = self._returning.get(binding, (None, 0))
        if before != shape:
            self._returning[binding] = shape, as_of
            return None
        if position < end:
            return None
        # What the log had of it up to here was passed over; every statement of it after this one is followed.
        del self._returning[binding]
        self._left_out.discard(binding)
        self._bind(binding, table, as_of).definitions.begin(table.columns, as_of)
        self._announce(binding)
        if self._log is not None:
            self._log.take_up(binding)
        return Regained(self._opened[binding], same=True)

    def left_columns(self, binding: int) -> set[str]:
        return self._noted.left[binding]

    def outdated(self, binding: int) -> BoundTable | None:
        bound = self._bindings[binding]
        with asking(f"reading the columns of {bound.name}"):
            (table,) = bound_tables(self._session, [bound.resource])
        if table is None or reads_as(table.columns, bound.table.columns):
            return None
        return bound

    def doubted(self) -> list[BoundTable]:
        found = []
        if self._log is not None and self._log.position >= self._as_of:
            self._doubted |= self._differing  # No statement of the log has made them what they are.
            self._differing = set()
        while self._doubted:
            if (binding := self._doubted.pop()) not in self._left_out:
                found.append(self._bindings[binding])
        return found

    def without_prepared(self) -> set[int]:
        with asking("looking for prepared transactions"):
            seen = may_see_prepared(self._session)
        return set() if seen else {bound.binding for bound in self._bindings if bound.scan.reads}

    def adopt(self, binding: int, columns: tuple[Column, ...]) -> tuple[BoundTable, JsonObject | None]:
        bound = self._bindings[binding] = self._bindings[binding].shown(columns)
        announced = bound.announced
        self._opened.put(bound.opened())
        self._announce(binding)
        bound = self._bindings[binding]
        return bound, bound.announced if bound.announced != announced else None

    def still_prepared(self) -> frozenset[str]:
        with asking("looking for prepared transactions"):
            return prepared_xids(self._session)

    def leaves_out(self, binding: int, gtid: str, position: int, xid: str) -> bool | None:
        return self._snapshots.leaves_out(binding, gtid, position, xid)

    def recode(self, charset: str) -> Recode | None:
        return self._charsets.recode(charset)

    def charset_of(self, collation: int) -> str:
        return self._charsets.of_collation(collation)
