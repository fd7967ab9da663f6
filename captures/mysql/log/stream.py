"""The log stream: events of the binary log in, protocol lines out, one transaction after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from tidemark.captures.contract.errors import AnotherServer, LostPosition
from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.table_events import RowsAffected
from tidemark.captures.mysql.log import events
from tidemark.captures.mysql.log.binlog_cursor import LogPlace, ReadTo
from tidemark.captures.mysql.log.connection import LIMITS, BinlogConnection, StreamLimits
from tidemark.captures.mysql.log.events import ROW_EVENTS, DamagedEvent, Event
from tidemark.captures.mysql.log.logged_tables import InSnapshot, LoggedTables
from tidemark.captures.mysql.log.mapped_rows import TableMaps
from tidemark.captures.mysql.log.open_transaction import Control, ControlStatement, OpenTransaction, control
from tidemark.captures.mysql.log.statement_effects import StatementEffects
from tidemark.captures.mysql.log.transaction_payload import payload_events
from tidemark.captures.mysql.log.xa_transactions import Committing, XaTransactions, not_recalled
from tidemark.captures.mysql.server.replication import WithoutGtids
from tidemark.captures.mysql.tables.captured_tables import CapturedTables
from tidemark.captures.mysql.tables.table_changes import ROLLED_BACK
from tidemark.captures.mysql.terms.event_bytes import ByteText
from tidemark.captures.mysql.terms.gtid import transaction_id
from tidemark.captures.mysql.terms.position import LogPosition
from tidemark.protocol.errors import SourceError

NEAR_END_BYTES = 1024 * 1024
"""How much further a read goes to reach the end of a transaction before it returns in the middle of one."""


class BinlogLog:
    """Reads a replication connection. See ``tidemark.captures.contract.log.LogStream``.

    Args:
        connect: Opens the log at a position: at first, by ``reconnect``, and for rows of an XA transaction.
        start: Where to begin.
        tables: The captured tables.
        in_snapshot: See ``LoggedTables``.
        mariadb: The server is MariaDB: its GTIDs are others.
        columns: Batches of columns may be sent.
        limits: What is held in memory.

    Raises:
        SourceError: What ``connect`` raises.
    """

    def __init__(
        self,
        connect: Callable[[LogPosition], BinlogConnection],
        start: LogPosition,
        tables: CapturedTables,
        in_snapshot: InSnapshot,
        *,
        mariadb: bool,
        columns: bool = False,
        limits: StreamLimits = LIMITS,
    ) -> None:
        self._connect = connect
        self._truncation = tables.config.truncation
        self._read_to = ReadTo(start, mariadb=mariadb)
        self._next_tracked: frozenset[int] = frozenset()
        self._count = 0
        self._open: OpenTransaction | None = None
        self._broken: OpenTransaction | None = None
        self._payload: Iterator[Event | None] | None = None
        self._failure: SourceError | None = None
        self.position = start.order
        self.committed_at: float | None = None
        committing = Committing(start.prepared, tables.still_prepared) if mariadb else None
        self._connection = self._connected(start)
        self._server = self._connection.server
        self._tables = LoggedTables(tables, in_snapshot, names_columns=self._connection.names_columns, mariadb=mariadb)
        self._statements = StatementEffects(self._tables, mariadb=mariadb)
        self._maps = TableMaps(self._tables, columns=columns)
        self._xa = XaTransactions(self._read_to, self._tables, self._maps, committing, limits.held_bytes)

    def _connected(self, start: LogPosition) -> BinlogConnection:
        try:
            connection = self._connect(start)
        except WithoutGtids:
            self._read_to.forget_gtids()
            start = self.log_position
            connection = self._connect(start)
        self._place = LogPlace(start)
        self._events = connection.events()
        return connection

    def _reopen(self, start: LogPosition) -> None:
        self._connection.close()
        self._connection = self._connected(start)

    @property
    def between_transactions(self) -> bool:
        return self._open is None and self._broken is None

    @property
    def log_position(self) -> LogPosition:
        """The end of the last whole transaction, for the state."""
        return self._read_to.log_position

    @property
    def committing(self) -> Collection[str]:
        """The xids whose XA COMMIT was read and may not be visible yet; none on MySQL, which has GTIDs for that."""
        return () if self._xa.committing is None else self._xa.committing.xids

    def track(self, bindings: frozenset[int]) -> None:
        self._next_tracked = bindings

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._connection.heard_at

    def acknowledge(self, position: int) -> None:
        """Does nothing: the server keeps its log by time."""

    def request_progress(self) -> None:
        """Does nothing: the server sends every event at once, so the end of what was received is the log's end."""

    def close(self) -> None:
        self._connection.close()

    def reconnect(self) -> None:
        self._reopen(self.log_position)
        self._failure = None
        if self._connection.server != self._server:
            # Its files are others, so earlier positions mean nothing. Only a new session can resume there.
            self._failure = AnotherServer(
                "TM-MY-054", f"the log was read from server {self._server}, but now {self._connection.server} answers"
            )
        # The interrupted transaction comes again: what was returned of it is not returned twice.
        written = self._broken.row_events if self._broken is not None else 0
        if self._open is not None and self._open.row_events > written:
            self._broken = self._open
        self._open = None
        self._payload = self._xa.recall = None

    # Tables that are set aside.

    def leave_out(self, binding: int) -> None:
        """Passes over the rows of a binding from here on."""
        self._maps.leave_out(binding)

    def take_up(self, binding: int) -> None:
        """The end of ``leave_out``, between transactions."""
        self._maps.take_up(binding)

    # Reading.

    def read(self, limit: int, wait: float, wakeup: int) -> LogBatch:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        batch = LogBatch()
        try:
            with self._maps.reading(batch):
                self._read(batch, limit, wait, wakeup)
        except SourceError as error:
            if isinstance(error, WithoutGtids):
                self._read_to.forget_gtids()
            failure = error if self._xa.recall is None else not_recalled(error)
            if not batch.says_something:
                raise failure from None
            self._failure = failure  # It is raised after what came before it is returned.
        batch.size = sum(map(len, batch.lines))
        return batch

    def _read(self, batch: LogBatch, limit: int, wait: float, wakeup: int) -> None:
        taken = 0
        if self._xa.committing is not None:
            self._xa.committing.forget()
        event = self._next_event(batch)
        if event is None:
            self._connection.wait(wait, wakeup)
            event = self._next_event(batch)
        while event is not None:
            taken += event[3] - event[2]
            self._event(event, batch)
            if taken >= limit and (self._open is None or taken >= limit + NEAR_END_BYTES):
                return
            event = self._next_event(batch)
        batch.drained = True
        if self._open is None:
            self._maps.drained(self.position, batch)

    def _next_event(self, batch: LogBatch) -> Event | None:
        if self._payload is not None:
            try:
                return next(self._payload)
            except StopIteration:
                self._payload = None
            except DamagedEvent:
                if self._open is not None:
                    self._open.abandoned(batch)  # Some of its rows were already written.
                raise
        return next(self._events)

    def _event(self, event: Event, batch: LogBatch) -> None:
        data, text, start, end, kind, timestamp, server_id, size, log_position, flags = event
        in_log = not flags & events.ARTIFICIAL and self._payload is None
        if in_log:
            passed = self._place.move(kind, size, log_position)
            if not self._read_to.keeps_gtids:
                self._place.note(kind, data, start - events.HEADER, end, passed=passed)
            if passed:
                return
        if self._xa.recall is not None and self._xa.recall.passes_over(kind):
            return
        if kind in ROW_EVENTS:
            self._rows(kind, data, text, start, end, batch)
        elif kind == events.TABLE_MAP:
            self._maps.mapped(data[start:end], batch)
        elif kind == events.XID:
            self._commit(timestamp, batch)
            return  # ``_over`` has moved the position.
        elif kind == events.MARIADB_GTID:
            self._begin(events.read_mariadb_gtid(data[start:end], server_id), timestamp, batch)
        elif kind in (events.GTID, events.ANONYMOUS_GTID):
            self._begin(events.read_gtid(data[start:end]), timestamp, batch)
        elif kind == events.QUERY:
            self._query(events.read_query(data[start:end]), timestamp, server_id, flags, batch)
        elif kind == events.TRANSACTION_PAYLOAD:
            if self._open is not None:
                self._open.row = 0
            self._payload = payload_events(self._connection.payload(data, start, end))
        else:
            self._other(kind, data[start:end], timestamp, server_id, flags, batch)
        if self._open is None and self._xa.recall is None:
            self.position = self._read_to.boundary(self._place)

    def _other(self, kind: int, body: bytes, timestamp: int, server_id: int, flags: int, batch: LogBatch) -> None:
        """Events that are rare."""
        if kind == events.ROTATE:
            self._place.rotate(*events.read_rotate(body))
            self._maps.clear(batch)
        elif kind == events.FORMAT_DESCRIPTION:
            self._place.created(timestamp)
            if self._open is not None and self._xa.recall is None:
                self._open.abandoned(batch)  # The server stopped in the middle of it.
                self._open = None
            if events.server_started(body):
                self._statements.sessions_ended()
        elif kind == events.GTID_TAGGED:
            self._begin(events.read_tagged_gtid(body), timestamp, batch)
        elif kind == events.QUERY_COMPRESSED:
            self._query(events.read_compressed_query(body), timestamp, server_id, flags, batch)
        elif kind == events.XA_PREPARE:
            self._xa_prepare(*events.read_xa_prepare(body), timestamp, batch)
        elif kind in (events.HEARTBEAT, events.HEARTBEAT_V2):
            if kind == events.HEARTBEAT_V2:
                self._place.sent_up_to(*events.read_heartbeat_v2(body))
            self._place.silent(self._tables.tables.end_of_log())
        elif kind == events.INCIDENT:
            raise LostPosition("TM-MY-048", f"the log says at {self._place} that events were lost")
        elif kind == events.EXECUTE_LOAD_QUERY:
            self._query(events.read_load_query(body), timestamp, server_id, flags, batch)
        elif kind not in events.IGNORED and not flags & events.IGNORABLE_FLAG:
            raise SourceError("TM-MY-044", f"the log has an event of type {kind} at {self._place}")

    # Transactions.

    def _begin(self, gtid: events.Gtid, timestamp: int, batch: LogBatch) -> OpenTransaction:
        if self._xa.recall is not None and self._open is not None:
            self._xa.recall.begins(gtid.text)
            return self._open  # It is the one whose rows are read again.
        if self._open is not None:
            self._open.abandoned(batch)  # The server stopped in the middle of it.
        written, broken = 0, self._broken
        if broken is not None:
            if broken.gtid == gtid.text:
                written = broken.row_events
            else:
                for binding in broken.bindings:
                    batch.tell(RowsAffected(binding, ROLLED_BACK.cause()))  # It is no longer in the log.
        self._broken = None
        self._read_to.begun = self._place.file, self._place.event_start
        self._count += 1
        self._open = OpenTransaction(self._count, gtid, timestamp, self._next_tracked, written)
        if gtid.prepares:
            self._xa.begin(self._open)
        return self._open

    def _commit(self, timestamp: int, batch: LogBatch) -> None:
        if self._xa.recall is not None:
            return
        transaction = self._open
        if transaction is None:
            return
        self._over(transaction)
        self.committed_at = transaction.committed_at or float(timestamp)
        finished = transaction.finished(self.position)
        if finished is not None:
            if self._xa.committing is not None:
                finished.txn = transaction_id(transaction.gtid, self._server, self.position, transaction.ends)
            batch.transactions.append(finished)

    def _over(self, transaction: OpenTransaction) -> None:
        self._read_to.over(transaction.gtid, transaction.ends)
        self._xa.over(transaction.ends)
        self._open = None
        self.position = self._read_to.boundary(self._place)

    def _query(self, query: events.Query, timestamp: int, server_id: int, flags: int, batch: LogBatch) -> None:
        recall, statement = self._xa.recall, control(query.text)
        if recall is not None and (statement is not None or recall.passing):
            return
        # Without GTIDs a transaction begins with its first statement.
        transaction = self._open or self._begin(events.Gtid(""), timestamp, batch)
        if statement is not None:
            self._control(transaction, statement, timestamp, batch)
            return
        if transaction.held is not None:
            transaction.held.let_go()  # What it changes counts when it is read again, for the commit.
            return
        if transaction.undecided:
            self._commit(timestamp, batch)
            return
        order, place = (
            (self._place.order, f"{self._place}:") if recall is None else (recall.after.order, self._xa.place)
        )
        self._maps.flush(batch)
        for name, binding in self._statements.follow(query, order, place[:-1], server_id, flags, batch):
            transaction.truncation(binding, name, place, batch, self._truncation)
        if not transaction.explicit and recall is None:
            self._commit(timestamp, batch)

    def _control(
        self, transaction: OpenTransaction, statement: ControlStatement, timestamp: int, batch: LogBatch
    ) -> None:
        match statement.control:
            case Control.BEGIN:
                transaction.explicit = True
            case Control.COMMIT:
                self._commit(timestamp, batch)
            case Control.ROLLBACK:
                transaction.abandoned(batch)
                self._commit(timestamp, batch)
            case Control.ROLLBACK_TO:
                transaction.abandoned(batch)
            case Control.XA_START:
                transaction.explicit = True
                self._xa.begin(transaction)
            case Control.XA_COMMIT:
                self._counted(self._xa.commit(transaction, statement.xid, self._place, batch), timestamp, batch)
            case Control.XA_ROLLBACK:
                transaction.ends = statement.xid
                self._commit(timestamp, batch)

    # Rows.

    def _rows(self, kind: int, data: bytes, text: ByteText, start: int, end: int, batch: LogBatch) -> None:
        rows = self._maps.rows(kind, data, text, start, end, self._place, batch)
        if rows is None:
            if self._open is not None and self._open.held is None:
                self._open.pass_over()
            return
        transaction = self._open or self._begin(events.Gtid(""), 0, batch)
        if transaction.held is not None:
            self._xa.hold(transaction.held, rows)
            return
        table, recall = rows.table, self._xa.recall
        if table.decoder is None or not table.decoder.has_key:
            counts = self._place.order if recall is None else recall.after.order
            if self._tables.leaves_out(table, transaction.gtid, counts, transaction.ends, batch):
                transaction.pass_over()
                return
        if table.as_of and table.as_of < self._place.order:
            table.as_of = 0
        place = f"{self._place.file}:{self._place.event_start}:" if recall is None else self._xa.place
        self._maps.write(rows, transaction, place, batch)

    # XA transactions.

    def _xa_prepare(self, one_phase: bool, xid: str, timestamp: int, batch: LogBatch) -> None:
        transaction = self._open
        if transaction is None:
            return
        if self._xa.recall is not None:
            self._reopen(self._xa.recalled(xid))
            self._commit(timestamp, batch)
        elif one_phase:
            rows_at = self._xa.commit(transaction, xid, self._place, batch, one_phase=True)
            self._counted(rows_at, timestamp, batch)
        else:
            self._xa.prepare(transaction, xid)
            self._over(transaction)

    def _counted(self, rows_at: LogPosition | None, timestamp: int, batch: LogBatch) -> None:
        """Ends a transaction after XA COMMIT: at once, or after its rows were read again from ``rows_at`` on."""
        if rows_at is None:
            self._commit(timestamp, batch)
        else:
            self._reopen(rows_at)
