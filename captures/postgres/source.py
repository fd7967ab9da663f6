"""A PostgreSQL database opened for capturing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial

import psycopg
from psycopg import sql

from tidemark.backfill.fence import TransactionId
from tidemark.backfill.keys import Key
from tidemark.captures.contract.capabilities import Begun, ReadsInSnapshots, SplitsPages
from tidemark.captures.contract.chunk import Barrier, Chunk, ChunkRequest
from tidemark.captures.contract.chunk_rows import ChunkHead
from tidemark.captures.contract.errors import LostPosition, TableAway
from tidemark.captures.contract.source import OpenedTable, Regained, RetainedLog, never
from tidemark.captures.postgres.catalog.encodings import NoCharacter, stored, transcoder
from tidemark.captures.postgres.chunks.opened_reader import PACKAGES, open_reader
from tidemark.captures.postgres.chunks.reader import CopyChunkReader
from tidemark.captures.postgres.chunks.split_points import SplitScan, split, split_pages
from tidemark.captures.postgres.log.connection import LIMITS, ReplicationConnection, StreamLimits
from tidemark.captures.postgres.log.slot import SourceSlot
from tidemark.captures.postgres.log.stream import PgoutputLog, StreamStart
from tidemark.captures.postgres.server.config import EndpointConfig, ResourceConfig
from tidemark.captures.postgres.server.positions import format_lsn, parse_lsn
from tidemark.captures.postgres.server.resumption import ServerLog, check_resumption, read_server_log, read_slot
from tidemark.captures.postgres.server.retention import Retention, replica_lag
from tidemark.captures.postgres.server.session import (
    ANSWER_SECONDS,
    LONG_ANSWER_SECONDS,
    ReaderEndpoint,
    asking,
    connect,
    in_recovery,
)
from tidemark.captures.postgres.server.setup import MadeForCapture, Unpublished
from tidemark.captures.postgres.server.slot_ownership import NOBODY, Owner
from tidemark.captures.postgres.server.waiting import running_before
from tidemark.captures.postgres.tables.snapshots import Snapshot, SnapshotFence, high_position
from tidemark.captures.postgres.tables_that_change.captured_tables import CapturedTables
from tidemark.captures.postgres.tables_that_change.publishing import Publishing
from tidemark.captures.postgres.tables_that_change.told_tables import ToldTables
from tidemark.captures.readers.reader_process import ReaderProcess
from tidemark.captures.rows.captured_line import Emissions
from tidemark.captures.tables.read_as_columns import columns_offered
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding, Json, JsonObject


class _ChunkReader(ReaderProcess):
    """A chunk that fails may have lost the snapshot that it was to be read in."""

    def __init__(self, open_reader: Callable[[], CopyChunkReader], followed: CapturedTables) -> None:
        super().__init__(open_reader, followed.target)
        self._scans = followed.scans

    def read(self, request: ChunkRequest) -> Chunk:
        try:
            return super().read(request)
        except SourceError:
            self._scans.doubt(request.binding)
            raise


class PostgresSource(SplitsPages, ReadsInSnapshots):
    """See ``tidemark.captures.contract.source.Source``; ``followed`` are its tables.

    Args:
        owner: The capture that the slot is to belong to.
        limits: Of the log's stream.

    Raises:
        SourceError: No connection, or none of the bound tables can be captured.
    """

    def __init__(
        self,
        config: EndpointConfig,
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        owner: Owner = NOBODY,
        limits: StreamLimits = LIMITS,
    ) -> None:
        self._config = config
        self._limits = limits
        self._session = connect(config, LONG_ANSWER_SECONDS)
        self._standby = in_recovery(self._session)
        try:
            self.followed = ToldTables(config, bindings, resources, self._session, self.end_of_log)
        except BaseException:
            self._session.close()
            raise
        self._log: ServerLog | None = None
        self._made = MadeForCapture()
        self._owner = owner
        self._slot = SourceSlot(config, self._session, owner, self._made.note)
        self._publishing = Publishing(config, self.followed, self._made.note)
        self._undecodable = False
        self._retention = Retention(config)
        self._emissions = Emissions()
        self._stream: PgoutputLog | None = None
        self.options = config

    @property
    def tables(self) -> Sequence[OpenedTable]:
        return self.followed.opened.now

    def changed_tables(self) -> Sequence[OpenedTable]:
        return self.followed.opened.hand_over()

    def reconnect(self) -> None:
        self._session.close()
        self._session = self.followed.session = self._slot.session = connect(self._config)
        self._standby = in_recovery(self._session)
        self.followed.scans.doubt_all()

    def close(self) -> None:
        self.followed.scans.close()
        self._made.take_back(self._session)
        self._session.close()

    # Positions.

    def identity(self) -> JsonObject:
        if self._log is None:
            self._log = read_server_log(self._config)
        return {**self._log.identity(self._config), "tables": self.followed.noted()}

    def start_position(self, cursor: str | None, identity: JsonObject | None, ended: Callable[[], bool] = never) -> int:
        if cursor is None:
            with self._slot.alone():
                if self._slot.usable() is not None:
                    self._check_publication_lasts()
                    self._slot.check_owner(begun=False)
                self._publishing.publish(ended)
                self._slot.note_owner(standby=self._standby)
                return self._slot.made(ended)
        position = parse_lsn(cursor)
        self._slot.check_owner(begun=True)
        self._check(position, position, identity or {})
        self._check_publication_lasts()
        self._publishing.publish(ended)
        self.followed.noted_before(identity or {})
        return position

    def start_over(self, ended: Callable[[], bool] = never) -> int:
        self._slot.check_owner(begun=True)
        self._publishing.publish(ended)
        self._slot.note_owner(standby=self._standby)
        with asking("preparing the source again"):
            self._slot.drop_useless(undecodable=self._undecodable)
            self.followed.published_again()
        self._log = None
        self._undecodable = False
        return self._slot.made(ended)

    def _check_publication_lasts(self) -> None:
        """Raises LostPosition where there is a slot and no publication: one that is made now would be too young."""
        if not self._publishing.is_there():
            raise self._publication_lost()

    def _publication_lost(self) -> LostPosition:
        self._undecodable = True
        return self._publishing.lost()

    # Tables that are set aside.

    def leave_out(self, binding: int, identity: str) -> None:
        self.followed.scans.end(binding)
        self.followed.leave_out(binding, identity)
        if self._stream is not None:
            self._stream.relations.leave_out(binding)

    def found_altered(self, binding: int) -> None:
        self.followed.found.add(binding)

    def unfit(self, binding: int) -> SourceError | None:
        return self.followed.unfit(binding)

    def regain(self, binding: int, position: int, *, asked: bool) -> Regained | SourceError | None:
        assert self._stream is not None
        regained = self.followed.regain(binding, position)
        if isinstance(regained, Unpublished) and self._publishing.publish_again(binding, asked=asked):
            regained = self.followed.regain(binding, position)
        if regained is None:
            self._stream.request_progress()
        elif isinstance(regained, Regained):
            self._stream.relations.take_up(binding)
        return regained

    def _check(self, position: int, known: int, identity: JsonObject) -> None:
        """Raises unless the server's log, read up to ``known`` under ``identity``, can be resumed."""
        slot = read_slot(self._session, self._config.slot)
        self._log = check_resumption(self._session, self._config, slot, position, known, identity)

    def format_position(self, position: int) -> str:
        return format_lsn(position)

    def end_of_log(self) -> int:
        return high_position(self._session, read_only=self._config.read_only)

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

    def awaited(self, barrier: Barrier) -> str:
        with asking("looking for the transactions that a backfill waits for"):
            return running_before(self._session, int(barrier))

    def split(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        return self._split(split, binding, cursor, until, parts)

    def split_pages(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        return self._split(split_pages, binding, cursor, until, parts)

    def _split(self, cut: SplitScan, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        try:
            with asking(f"splitting the scan of {self.followed.bindings[binding].name}"), suppress(*NoCharacter):
                return cut(self._session, self.followed.target(binding), cursor, until, parts)
            return []  # A key among the statistics cannot be sent: one reader reads the table.
        except TableAway:
            return []  # The next chunk tells.

    def refused_condition(self, binding: int, where: str) -> str:
        target = self.followed.target(binding)
        with asking(f"planning a scan of {target.name}"):
            try:
                with self._session.transaction():
                    self._session.execute("SET TRANSACTION READ ONLY")
                    if (operators := target.operators()) is not None:
                        self._session.execute(operators.as_bytes(self._session))
                    for query in target.conditioned(where):
                        # What is prepared is one statement: a condition cannot bring another one with it.
                        self._session.execute(sql.SQL("EXPLAIN {}").format(query), prepare=True)
            except (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled):
                pass  # Somebody locks the table: the scan tells.
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                return error.diag.message_primary or type(error).__name__
        return ""

    def _snapshot(self) -> Snapshot:
        recovery = in_recovery(self._session)  # Before the snapshot is taken: see CopyChunkReader.
        return Snapshot.parse(str(self._one("SELECT pg_current_snapshot()::text")), recovery=recovery)

    # Reading.

    def open_log(self, position: int) -> PgoutputLog:
        self._stream = PgoutputLog(
            self._start_stream,
            position,
            self.followed,
            truncation=self._config.truncation,
            texts=transcoder(lambda: self._session),
            limits=self._limits,
            columns=self._columns,
        )
        self._made.keep()
        self._session.answer_seconds = ANSWER_SECONDS  # From here on the log waits for each answer.
        return self._stream

    def _start_stream(self, start: StreamStart) -> ReplicationConnection:
        if start.replaces is not None:
            self._check(start.position, start.known, self.identity())
            self._slot.end_walsender(start.replaces)
        with asking("looking for the session beside the stream"):
            descriptor = self._session.fileno()
        stream = partial(
            ReplicationConnection,
            self._config,
            start.position,
            flushed=start.flushed,
            application=self._owner.application,
            session=descriptor,
            unpublished=self._publication_lost,
            stored=self._stored,
            limits=self._limits,
        )
        return self._slot.once_free(stream)

    def _stored(self, text: str) -> bytes:
        with asking("asking how the database writes a name"):
            return text.encode() if text.isascii() else stored(self._session, text)

    def open_chunk_reader(self) -> ReaderProcess:
        return _ChunkReader(partial(open_reader, ReaderEndpoint.of(self._config), columns=self._columns), self.followed)

    @cached_property
    def _columns(self) -> bool:
        return columns_offered(PACKAGES)

    def chunk_head(self, binding: int, position: int) -> ChunkHead:
        return self.followed.bindings[binding].chunk_head(position, self._emissions.next())

    def truncation(self, binding: int, position: int) -> bytes:
        return self.followed.bindings[binding].truncation(position, self._emissions.next())

    def key_of(self, binding: int, values: Sequence[Json]) -> Key | None:
        return self.followed.bindings[binding].key_of(values)

    def deletion(self, binding: int, position: int, values: Sequence[Json]) -> bytes:
        return self.followed.bindings[binding].deletion(position, self._emissions.next(), values)

    # Tables without a key.

    def await_snapshot(self, binding: int, kept: str | None) -> None:
        self.followed.scans.expect(binding, self.followed.bindings[binding].name, kept)

    def begin_snapshot(self, binding: int, unseen: Collection[TransactionId]) -> Begun:
        return self.followed.scans.begin(binding, self.followed.bindings[binding].relations, unseen)

    def kept_snapshot(self, binding: int) -> str | None:
        return self.followed.scans.kept(binding)

    def end_snapshot(self, binding: int) -> None:
        self.followed.scans.end(binding)

    # What is kept for us.

    def retained(self) -> RetainedLog:
        stream = self._stream
        position, reading = (stream.position, stream.reading()) if stream is not None else (0, "")
        retained = self._retention.retained(self._session, position, reading)
        if stream is not None and retained.end is not None:
            retained = replace(retained, end=stream.end_of(retained.end))
        self._follow_promotion()
        return retained

    def replica_lag(self) -> float | None:
        return replica_lag(self._session, self._config.user)

    def _follow_promotion(self) -> None:
        """A promoted standby continues its own log on another timeline, and the stream continues with it.

        Raises a SourceError that passes: the state must have the new timeline, which it gets at the reconnect.
        """
        if self._standby and not in_recovery(self._session):
            self._log = read_server_log(self._config)
            raise SourceError("TM-PG-020", f"the standby was promoted, and is now on timeline {self._log.timeline}")

    # Queries.

    def _one(self, query: str, *parameters: str) -> object:
        with asking("asking the server for its position"):
            row = self._session.execute(query, parameters).fetchone()
        return row[0] if row is not None else None
