"""A PostgreSQL database opened for capturing."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import psycopg
from psycopg import sql

from backfill.keys import Key
from captures.contract.capabilities import SplitsPages
from captures.contract.chunk import Barrier
from captures.contract.errors import LostPosition, SessionEnded, TableAway
from captures.contract.source import OpenedTable, Regained, RetainedLog, never
from captures.postgres.chunks.fence import FenceTaker
from captures.postgres.chunks.reader import CopyChunkReader
from captures.postgres.chunks.snapshot import Snapshot, SnapshotFence
from captures.postgres.chunks.split_points import SplitScan, split, split_pages
from captures.postgres.config import EndpointConfig, ResourceConfig
from captures.postgres.log.connection import ReplicationConnection, SlotInUse
from captures.postgres.log.lsn import format_lsn, parse_lsn
from captures.postgres.log.resumption import (
    ServerLog,
    Slot,
    check_log,
    check_slot,
    check_usable,
    read_server_log,
    read_slot,
)
from captures.postgres.log.stream import PgoutputLog, StreamStart
from captures.postgres.server.reader_endpoint import ReaderEndpoint
from captures.postgres.server.retention import Retention, replica_lag
from captures.postgres.server.session import asking, connect, in_recovery
from captures.postgres.server.setup import (
    Made,
    Unpublished,
    drop_slot,
    ensure_publication,
    ensure_slot,
    lacking,
    owned,
    publication_lost,
    slot_statement,
    unpublished,
)
from captures.postgres.server.slot_ownership import NOBODY, Owner, check_owner, note_owner
from captures.postgres.tables.captured_tables import FollowedTables
from captures.postgres.tables.columns import Table
from captures.postgres.tables.prerequisites import kinds_failure, publication_failures
from captures.postgres.tables.table_record import read_publication
from captures.postgres.values.encodings import NoCharacter, stored, transcoder
from captures.scheduling.reader_process import ReaderProcess
from captures.tables.emissions import Emissions
from captures.tables.truncation import Truncation
from protocol.errors import SourceError
from protocol.messages import Binding, JsonObject

logger = logging.getLogger(__name__)

PUBLISH_SECONDS = 2.0
"""How long publishing a table may wait for others while the log is not read."""

SLOT_WAIT_SECONDS = 10.0
"""How long a slot may stay busy before that is an error: a walsender outlives a killed client for a moment."""


class PostgresSource(SplitsPages):
    """See ``captures.contract.source.Source``; ``followed`` are its tables.

    Raises:
        SourceError: No connection, or none of the bound tables can be captured.
    """

    def __init__(
        self,
        config: EndpointConfig,
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        owner: Owner = NOBODY,
    ) -> None:
        self._config = config
        self._owner = owner
        self._session = connect(config)
        self._fences = FenceTaker(self._session, read_only=config.read_only)
        self._standby = in_recovery(self._session)
        try:
            self.followed = FollowedTables(config, bindings, resources, self._session, self.end_of_log)
        except BaseException:
            self._session.close()
            raise
        self._log: ServerLog | None = None
        self._undo: list[sql.Composed] = []
        self._undecodable = False
        self._retention = Retention(config)
        self._emissions = Emissions()
        self._stream: PgoutputLog | None = None
        self.options = config.backfill.options(
            on_lost_position=config.on_lost_position, announced=config.truncation is Truncation.BACKFILL
        )
        self.heartbeat_seconds = config.heartbeat_seconds

    @property
    def tables(self) -> Sequence[OpenedTable]:
        return self.followed.opened.now

    def changed_tables(self) -> Sequence[OpenedTable]:
        return self.followed.opened.hand_over()

    def reconnect(self) -> None:
        self._session.close()
        self._session = self.followed.session = connect(self._config)
        self._fences = FenceTaker(self._session, read_only=self._config.read_only)
        self._standby = in_recovery(self._session)

    def close(self) -> None:
        self._take_back()
        self._session.close()

    # Positions.

    def identity(self) -> JsonObject:
        if self._log is None:
            self._log = read_server_log(self._config)
        return {**self._log.identity(self._config), "tables": self.followed.noted()}

    def start_position(self, cursor: str | None, identity: JsonObject | None, ended: Callable[[], bool] = never) -> int:
        if cursor is None:
            with self._alone():
                slot = self._usable_slot()
                if slot is not None:
                    self._check_publication_lasts()
                    self._check_owner(begun=False)
                self._publish(ended)
                self._note_owner()
                return self._make_slot(ended)
        position = parse_lsn(cursor)
        self._check_owner(begun=True)
        self._check(position, position, identity or {})
        self._check_publication_lasts()
        self._publish(ended)
        self.followed.noted_before(identity or {})
        return position

    def _publication_lost(self) -> LostPosition:
        self._undecodable = True
        return publication_lost(self._config, self._tables())

    def _tables(self) -> list[Table]:
        """Those that are not left out."""
        return [binding.table for binding in self.followed.captured]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Inside, no other capture of this database takes the same slot: two that begin at once are told apart.

        Raises:
            SourceError: ``TM-PG-014`` another one is about to.
        """
        key = f"tidemark slot {self._config.slot}"
        if self._one("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", key) is not True:
            raise SourceError("TM-PG-014", f"another capture is starting with replication slot {self._config.slot}")
        try:
            yield
        finally:
            # A session that is broken has let go of it.
            with suppress(SourceError):
                self._one("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", key)

    def _check_owner(self, *, begun: bool) -> None:
        with asking("looking for the owner of the replication slot"):
            check_owner(self._session, self._config, self._owner, begun=begun)

    def _note_owner(self) -> None:
        if not self._owner.capture or not self._config.create or self._config.read_only or self._standby:
            return
        with asking("recording the owner of the replication slot"):
            if not note_owner(self._session, self._config, self._owner):
                logger.debug("the user may not comment on publication %s", self._config.publication)

    def _check_publication_lasts(self) -> None:
        """Raises LostPosition where there is a slot and no publication: one that is made now would be too young."""
        with asking("looking for the publication"):
            if self._tables() and unpublished(self._session, self._config.publication, []) is None:
                raise self._publication_lost()

    def _publish(self, ended: Callable[[], bool]) -> None:
        """Publishes what is not, as far as that is allowed; tables that cannot be, or stay unpublished, are ``unfit``.

        Raises SourceError where that is all of them.
        """
        with asking("reading the publication"):
            # Before they are published: the server would refuse changes of some of them from then on.
            failures = dict(publication_failures(self._session, self._config, self._tables()))
            published = read_publication(self._session, self._config.publication)
            if (failure := kinds_failure(self._config, published)) is not None:
                failures = {table.oid: failure for table in self._tables()}
            self._cannot_publish(failures)
        if not (tables := self._tables()):
            return
        with asking("preparing the publication"):
            try:
                made = ensure_publication(self._session, self._config, tables, ended)
            except Unpublished as refused:
                made = self._publish_some(tables, refused, ended)
            if self._note(made):
                self.followed.published_anew()
        self._check_published()

    def _publish_some(self, tables: Sequence[Table], refused: Unpublished, ended: Callable[[], bool]) -> Made | None:
        """After it was refused for all: the user's own tables, which need no other role."""
        missing = unpublished(self._session, self._config.publication, tables)
        lacks = tables if missing is None else missing
        published = [table for table in tables if table not in lacks]
        own = owned(self._session, lacks)
        if own and len(own) < len(lacks):
            with suppress(Unpublished):
                return ensure_publication(self._session, self._config, [*published, *own], ended)
        if not published:
            raise refused
        return None

    def _make_slot(self, ended: Callable[[], bool]) -> int:
        with asking("preparing the replication slot"):
            self._note(ensure_slot(self._session, self._config, ended))
        slot = self._usable_slot()
        if slot is None:
            raise SourceError("TM-PG-012", f"replication slot {self._config.slot} was just dropped")
        return slot.confirmed

    def _note(self, made: Made | None) -> bool:
        """Whether something was made. It is not left behind unless something comes of it."""
        if made is None:
            return False
        logger.info("%s", made.text)
        if made.undo is not None:
            self._undo.append(made.undo)
        return True

    def _take_back(self) -> None:
        while self._undo:
            statement = self._undo.pop()
            try:
                self._session.execute(statement)
            except psycopg.Error as error:
                logger.warning(
                    "what was created for this capture remains (%s); to remove it, run: %s;",
                    " ".join(str(error).split()),
                    statement.as_string(None),
                )

    def _check_published(self) -> None:
        """Finds tables whose changes are not in the log, which would not be noticed otherwise."""
        with asking("reading the publication"):
            tables = self._tables()
            missing = unpublished(self._session, self._config.publication, tables)
            if missing is None:
                raise lacking(self._session, self._config, tables, exists=False)
            self._cannot_publish({t.oid: lacking(self._session, self._config, [t], exists=True) for t in missing})

    def _cannot_publish(self, failures: Mapping[int, SourceError]) -> None:
        """Raises SourceError where these are all tables."""
        captured = self.followed.captured
        if captured and failures.keys() >= {binding.table.oid for binding in captured}:
            raise next(iter(failures.values()))
        for binding in captured:
            if (failure := failures.get(binding.table.oid)) is not None:
                self.followed.cannot_publish(binding, failure)

    # Tables that are set aside.

    def leave_out(self, binding: int, identity: str) -> None:
        self.followed.leave_out(binding, identity)
        if self._stream is not None:
            self._stream.leave_out(binding)

    def found_altered(self, binding: int) -> None:
        self.followed.found.add(binding)

    def unfit(self, binding: int) -> SourceError | None:
        return self.followed.unfit(binding)

    def regain(self, binding: int, position: int, *, asked: bool) -> Regained | SourceError | None:
        assert self._stream is not None
        regained = self.followed.regain(binding, position)
        if isinstance(regained, Unpublished) and self._publish_again(binding, asked):
            regained = self.followed.regain(binding, position)
        if regained is None:
            self._stream.request_progress()
        elif isinstance(regained, Regained):
            self._stream.take_up(binding)
        return regained

    def _publish_again(self, binding: int, asked: bool) -> bool:
        """Publishes a table if that needs no waiting: the log is not read meanwhile. Whether it did."""
        if not self._config.create or (table := self.followed.to_publish(binding, asked=asked)) is None:
            return False
        deadline = time.monotonic() + PUBLISH_SECONDS
        try:
            with asking("preparing the publication"):
                made = ensure_publication(self._session, self._config, [table], lambda: time.monotonic() >= deadline)
        except SessionEnded:
            return False  # Somebody holds it: it is tried again.
        except Unpublished:
            return False  # That is said of the table.
        return self._note(made)

    def start_over(self, ended: Callable[[], bool] = never) -> int:
        self._check_owner(begun=True)
        self._publish(ended)
        self._note_owner()
        with asking("preparing the source again"):
            slot = read_slot(self._session, self._config.slot)
            if slot is not None and (slot.invalidated or self._undecodable):
                if self._config.create:
                    self._drop_slot()
                elif self._undecodable:
                    raise self._to_be_made_by_hand()
            self.followed.published_anew()
        self._log = None
        self._undecodable = False
        return self._make_slot(ended)

    def _to_be_made_by_hand(self) -> SourceError:
        again = f"{drop_slot(self._config).as_string(None)}; {slot_statement(self._session, self._config)};"
        return SourceError(
            "TM-PG-015",
            f"replication slot {self._config.slot} is useless: the server cannot decode the log from its position",
            remedy=f"Run: {again}",
        )

    def _drop_slot(self) -> None:
        """Waits for the walsender of our own broken stream, which may not have noticed yet."""
        deadline = time.monotonic() + SLOT_WAIT_SECONDS
        while True:
            try:
                self._session.execute(drop_slot(self._config))
            except psycopg.errors.ObjectInUse:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.1)
                continue
            return

    def _usable_slot(self) -> Slot | None:
        slot = read_slot(self._session, self._config.slot)
        if slot is not None:
            check_usable(self._session, self._config, slot)
        return slot

    def _check(self, position: int, known: int, identity: JsonObject) -> None:
        """Raises unless the server's log, read up to ``known`` under ``identity``, can be resumed."""
        log = read_server_log(self._config)
        slot = read_slot(self._session, self._config.slot)
        # What another log is, says more than what its slots are; a state without identity is one of earlier versions.
        if identity:
            check_log(log, slot, known, identity)
        check_slot(self._session, self._config, slot, position, known)
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
        )
        self._undo.clear()
        return self._stream

    def _start_stream(self, start: StreamStart) -> ReplicationConnection:
        if start.replaces is not None:
            self._check(start.position, start.known, self.identity())
            self._end_walsender(start.replaces)
        with asking("looking for the session beside the stream"):
            descriptor = self._session.fileno()
        deadline = time.monotonic() + SLOT_WAIT_SECONDS
        while True:
            try:
                return ReplicationConnection(
                    self._config,
                    start.position,
                    flushed=start.flushed,
                    session=descriptor,
                    unpublished=self._publication_lost,
                    stored=self._stored,
                )
            except SlotInUse:
                if time.monotonic() >= deadline:
                    raise self._held() from None
                time.sleep(0.1)

    def _stored(self, text: str) -> bytes:
        with asking("asking how the database writes a name"):
            return text.encode() if text.isascii() else stored(self._session, text)

    def _end_walsender(self, pid: int) -> None:
        """Ends the process of our own broken stream, which may not have noticed yet and would hold the slot."""
        self._one(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE slot_name = %s AND active_pid = %s::int",
            self._config.slot,
            str(pid),
        )

    def open_chunk_reader(self) -> ReaderProcess:
        return ReaderProcess(partial(CopyChunkReader, ReaderEndpoint.of(self._config)), self.followed.target)

    def chunk_head(self, binding: int, position: int) -> bytes:
        return self.followed.bindings[binding].chunk_head(position, self._emissions.next())

    def truncation(self, binding: int, position: int) -> bytes:
        return self.followed.bindings[binding].truncation(position, self._emissions.next())

    # What is kept for us.

    def retained(self) -> RetainedLog:
        stream = self._stream
        position, reading = (stream.position, stream.reading()) if stream is not None else (0, "")
        retained = self._retention.retained_bytes(self._session, position, reading)
        self._follow_promotion()
        return RetainedLog(retained, self._retention.limit)

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

    def _held(self) -> SlotInUse:
        """Who reads the slot."""
        with asking("looking for the reader of the replication slot"):
            holder = self._session.execute(
                "SELECT s.active_pid, a.application_name, a.client_addr::text FROM pg_replication_slots s"
                " LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s",
                [self._config.slot],
            ).fetchone()
        pid, application, address = holder or (None, None, None)
        return SlotInUse(
            "TM-PG-014",
            f"replication slot {self._config.slot} is in use by process {pid} "
            f"({application} from {address or 'the server itself'})",
        )
