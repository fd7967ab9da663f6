"""A MySQL or MariaDB server opened for capturing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from tidemark.backfill.fence import TransactionId
from tidemark.backfill.keys import Key
from tidemark.captures.contract.capabilities import Begun, ReadsInSnapshots, RemembersLayouts
from tidemark.captures.contract.chunk import Barrier, Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ChunkHead
from tidemark.captures.contract.errors import TableAltered, TableAway
from tidemark.captures.contract.log import silence_limit
from tidemark.captures.contract.source import OpenedTable, Regained, RetainedLog, ScanMethod, never
from tidemark.captures.mysql.chunks.fence import ServerFence, ensure_watermark_table, fence_taker
from tidemark.captures.mysql.chunks.reader import PACKAGES, SelectChunkReader
from tidemark.captures.mysql.chunks.scan_target import ScanTarget
from tidemark.captures.mysql.chunks.snapshot_scans import SnapshotScan, SnapshotScans
from tidemark.captures.mysql.chunks.split_points import split
from tidemark.captures.mysql.log.connection import LIMITS, BinlogConnection, StreamLimits
from tidemark.captures.mysql.log.resumption import check_gtids, continued, end_position, retained_from, server_identity
from tidemark.captures.mysql.log.stream import BinlogLog
from tidemark.captures.mysql.server.replication import XA, prepared_transactions, replica_status, server_name
from tidemark.captures.mysql.server.session import asking, connect
from tidemark.captures.mysql.tables.captured_tables import CapturedTables
from tidemark.captures.mysql.tables.noted_tables import MEMBER
from tidemark.captures.mysql.tables.prerequisites import condition_failure
from tidemark.captures.mysql.terms.config import EndpointConfig, ResourceConfig, replica_id
from tidemark.captures.mysql.terms.position import OFFSET_BITS, LogPosition, parse_position
from tidemark.captures.readers.reader_process import ReaderProcess
from tidemark.captures.rows.captured_line import Emissions
from tidemark.captures.tables.read_as_columns import columns_offered
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding, Json, JsonObject

logger = logging.getLogger(__name__)

OFFSET_MASK = (1 << OFFSET_BITS) - 1


class _ChunkReader(ReaderProcess):
    """Another process reads rows without keys: it holds their snapshot open."""

    def __init__(
        self, open_reader: Callable[[], SelectChunkReader], table: Callable[[int], ScanTarget], snapshots: SnapshotScans
    ) -> None:
        super().__init__(open_reader, table)
        self._snapshots = snapshots

    def read(self, request: ChunkRequest) -> Chunk:
        return self._snapshots.read(request) if request.plan.physical else super().read(request)


class MysqlSource(RemembersLayouts, ReadsInSnapshots):
    """See ``tidemark.captures.contract.source.Source``.

    Args:
        layouts: What ``layout`` said of tables in an earlier session, by their state keys.
        limits: Of the log's stream.

    Raises:
        SourceError: There is no connection, or none of the bound tables can be captured.
    """

    def __init__(
        self,
        config: EndpointConfig,
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        *,
        only_reads: bool = False,
        layouts: Mapping[str, str] | None = None,
        limits: StreamLimits = LIMITS,
    ) -> None:
        self._config = config
        # By itself the server says often enough that it lives.
        often = min(limits.heartbeat, silence_limit(config.heartbeat_seconds) / 2)
        self._limits = replace(limits, heartbeat=often)
        self._only_reads = only_reads
        self._server_id = replica_id(config, resources)
        self._session = connect(config)
        try:
            with asking("opening the source"):
                self._fences = fence_taker(self._session, config, only_reads=only_reads)
                identity = server_identity(self._session)
                self._base, self._server = str(identity["base"]), str(identity["server"])
                self.captured = CapturedTables(config, lambda: self._session, bindings, resources, layouts or {})
        except BaseException:
            self._session.close()
            raise
        self.snapshots = SnapshotScans(partial(ReaderProcess, partial(SnapshotScan, config), self._target))
        self._emissions = Emissions()
        self._start: LogPosition | None = None
        self._log: BinlogLog | None = None
        self.options = config

    @property
    def tables(self) -> Sequence[OpenedTable]:
        return self.captured.opened.now

    def changed_tables(self) -> Sequence[OpenedTable]:
        return self.captured.opened.hand_over()

    def reconnect(self) -> None:
        self._session.close()
        self._session = connect(self._config)
        with asking("preparing the session"):
            self._fences = fence_taker(self._session, self._config, only_reads=self._only_reads)
            self._prepare()

    def close(self) -> None:
        self.snapshots.close()
        self._session.close()

    # Positions.

    def identity(self) -> JsonObject:
        with asking("asking the server for its identity"):
            return {**server_identity(self._session), MEMBER: self.captured.noted.to_state()}

    def start_position(self, cursor: str | None, identity: JsonObject | None, ended: Callable[[], bool] = never) -> int:
        with asking("looking for the start position in the log"):
            if cursor is None:
                self._start = end_position(self._session)
            else:
                self._start = continued(self._session, self._config, parse_position(cursor), identity or {})
                self.captured.restore(identity)
            if not self._start.file:
                self.captured.on_another_server()
            self._prepare()
        return self._start.order

    def _prepare(self) -> None:
        if ensure_watermark_table(self._session, self._config):
            logger.info("created table %s", self._config.watermark_table)

    def start_over(self, ended: Callable[[], bool] = never) -> int:
        self.snapshots.close()  # Their positions mean nothing in another log.
        self.captured.noted.start_over()
        with asking("looking for the end of the log"):
            self._start = end_position(self._session)
            self._prepare()
        self.captured.read_all()
        return self._start.order

    def layout(self, binding: int, position: int) -> str:
        return self.captured.layout(binding, position)

    def format_position(self, position: int) -> str:
        log = self._log
        if log is not None and log.log_position.order == position:
            return str(log.log_position)
        assert self._start is not None and self._start.order == position
        return str(self._start)

    def end_of_log(self) -> int:
        return self.captured.end_of_log()

    def open_log(self, position: int) -> BinlogLog:
        assert self._start is not None and self._start.order == position
        self._log = BinlogLog(
            self._stream,
            self._start,
            self.captured,
            self.snapshots.leaves_out,
            mariadb=self._session.mariadb,
            columns=self._columns,
            limits=self._limits,
        )
        self.captured.follow(self._log)
        return self._log

    def _stream(self, start: LogPosition) -> BinlogConnection:
        beside = self._session.descriptor
        with asking("looking for the next transaction in the log"):
            if start.file and start.gtids and not self._session.mariadb and server_name(self._session) == self._server:
                check_gtids(self._session, start)
        return BinlogConnection(connect(self._config), self._server_id, start, beside, self._limits)

    # Visibility.

    def visibility(self) -> ServerFence:
        with asking("opening a snapshot"):
            fence = self._fences.open()
            self._session.rows("ROLLBACK")
        return fence

    def barrier(self) -> Barrier:
        """What is in the log and perhaps not visible, and the prepared transactions, whose rows are in the log."""
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

    def refused_condition(self, binding: int, where: str) -> str:
        with asking("checking a condition"):
            failure = condition_failure(self._session, self.captured[binding].table, where, whose="the command's where")
        return "" if failure is None else failure.message

    def awaited(self, barrier: Barrier) -> str:
        return ""  # The log does not tell which connection a transaction is of.

    # Reading.

    def open_chunk_reader(self) -> ReaderProcess:
        opens = partial(SelectChunkReader, self._config, only_reads=self._only_reads, columns=self._columns)
        return _ChunkReader(opens, self._target, self.snapshots)

    @cached_property
    def _columns(self) -> bool:
        return columns_offered(PACKAGES)

    def _target(self, binding: int) -> ScanTarget:
        """What chunks of a table select. Readers' threads call it while the log's thread may change the columns."""
        return ScanTarget.of(self.captured[binding])

    def split(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        target = self._target(binding)
        try:
            with asking(f"looking for the smallest and greatest key of {target.name}"):
                return split(self._session, target, cursor, until, parts)
        except (TableAway, TableAltered):
            return []  # The next chunk reports it.

    def chunk_head(self, binding: int, position: int) -> ChunkHead:
        bound = self.captured[binding]
        if bound.scan is ScanMethod.SNAPSHOT:
            # Its rows are numbered over all chunks, and have the position of the snapshot.
            return bound.chunk_head(self._document_cursor(self.snapshots.place(binding, position)))
        return bound.chunk_head(f"{self._document_cursor(position)}{self._emissions.next()}")

    def truncation(self, binding: int, position: int) -> bytes:
        return self.captured[binding].truncation(f"{self._document_cursor(position)}0")

    def key_of(self, binding: int, values: Sequence[Json]) -> Key | None:
        return self.captured[binding].key_of(values)

    def deletion(self, binding: int, position: int, values: Sequence[Json]) -> bytes:
        place = f"{self._document_cursor(position)}{self._emissions.next()}{0:07}"
        return self.captured[binding].deletion(place, values)

    def await_snapshot(self, binding: int, kept: str | None) -> None:
        self.snapshots.expect(binding, self._target(binding).name, kept)

    def begin_snapshot(self, binding: int, unseen: Collection[TransactionId]) -> Begun:
        assert self._log is not None
        # GTIDs or positions say which transactions the snapshot shows: it needs no list.
        return self.snapshots.begin(binding, self._log.log_position, self._log.committing)

    def kept_snapshot(self, binding: int) -> str | None:
        return self.snapshots.kept(binding)

    def end_snapshot(self, binding: int) -> None:
        self.snapshots.end(binding)

    def _document_cursor(self, position: int) -> str:
        """``cursor`` up to the number of a row."""
        return f"{self._base}.{position >> OFFSET_BITS:06d}:{position & OFFSET_MASK}:"

    # What the server retains.

    def retained(self) -> RetainedLog:
        if self._log is None:
            return RetainedLog(None)
        with asking("asking for the log's files"):
            return retained_from(self._session, self._log.log_position)

    def replica_lag(self) -> float | None:
        """How far this server is behind its primary. A primary does not know the lag of its replicas."""
        with asking("asking for the replication lag"):
            status = replica_status(self._session)
        lags = [row.get("Seconds_Behind_Source", row.get("Seconds_Behind_Master")) for row in status]
        return max((float("inf") if lag is None else float(lag) for lag in lags), default=None)

    # Tables.

    def leave_out(self, binding: int, identity: str = "") -> None:
        self.captured.leave_out(binding)

    def found_altered(self, binding: int) -> None:
        self.captured.found_altered(binding)

    def unfit(self, binding: int) -> SourceError | None:
        return self.captured.unfit(binding)

    def regain(self, binding: int, position: int, *, asked: bool) -> Regained | SourceError | None:
        return self.captured.regain(binding, position)
