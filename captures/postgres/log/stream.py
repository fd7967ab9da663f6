"""The log stream: pgoutput messages in, protocol lines out, one transaction after another."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from tidemark.captures.contract.log import LogBatch, Transaction
from tidemark.captures.postgres.catalog.encodings import Transcoder
from tidemark.captures.postgres.log import pgoutput
from tidemark.captures.postgres.log.changes import MOST_WAITING, Changes, names_of
from tidemark.captures.postgres.log.connection import LIMITS, POSTGRES_EPOCH, ReplicationConnection, StreamLimits
from tidemark.captures.postgres.log.open_transaction import OpenTransaction
from tidemark.captures.postgres.log.relations import Relations
from tidemark.captures.postgres.server.rewrite_trigger import Reason, note_rewrite
from tidemark.captures.postgres.tables.bound_relations import BoundRelation
from tidemark.captures.postgres.tables_that_change.told_tables import ToldTables
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.errors import SourceError

ROWS = frozenset((pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE))
XLOG_DATA = ord("w")
KEEPALIVE = ord("k")
_XLOG_HEADER = 25
_START_LSN = struct.Struct(">Q")
_KEEPALIVE = struct.Struct(">QqB")

NEAR_END_BYTES = 1024 * 1024
"""How much further a read goes to reach the end of a transaction before it returns in the middle of one."""

_PAGE = 8192
"""The server may have written a part of a record, less than about a page, which it does not send yet."""


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Where a stream begins.

    Attributes:
        position: The first transaction that it brings is the first that ends after this.
        known: How far the log was seen: its server must have all of it.
        flushed: How far it was acknowledged.
        replaces: The walsender's process of the stream that broke; None for a first one.
    """

    position: int
    known: int
    flushed: int
    replaces: int | None = None


class PgoutputLog:
    """Reads a replication connection. See ``tidemark.captures.contract.log.LogStream``.

    Args:
        texts: Converts those of a database whose encoding is not UTF-8.
        columns: Batches of columns may be sent.

    Attributes:
        relations: Those that the connection has shown.
    """

    def __init__(
        self,
        connect: Callable[[StreamStart], ReplicationConnection],
        position: int,
        tables: ToldTables,
        *,
        truncation: Truncation,
        texts: Transcoder | None = None,
        limits: StreamLimits = LIMITS,
        columns: bool = False,
    ) -> None:
        self._connect = connect
        self._connection = connect(StreamStart(position, position, position))
        self._flushed = position
        self._tables = tables
        self._texts = texts
        self.relations = Relations(tables)
        self._rows = Changes(
            tables,
            self.relations,
            truncation=truncation,
            texts=texts,
            incomplete_limit=limits.incomplete_keys,
            columns=columns,
        )
        self._begin = pgoutput.Begin(0, 0, 0)
        self._record = 0
        self._place = 0
        self._next_tracked: frozenset[int] = frozenset()
        # Row and TRUNCATE messages of the present transaction: how many came on this connection, and how many had been
        # returned when an earlier one broke.
        self._changes = 0
        self._returned = 0
        self._resuming = False
        self._rewrites: dict[int, Reason] = {}  # Of the present transaction, by the relation's oid.
        self._told = False  # The transaction that was read last rewrote captured tables.
        self._failure: SourceError | None = None
        self._stood = 0  # Keepalives that brought the position no further.
        self._written = self._stood_before = 0  # See ``end_of``.
        self.position = position
        self.between_transactions = True
        self.committed_at: float | None = None

    def track(self, bindings: frozenset[int]) -> None:
        self._next_tracked = bindings

    def acknowledge(self, position: int) -> None:
        self._flushed = max(self._flushed, position)
        self._connection.confirm(position)

    @property
    def silent_seconds(self) -> float:
        return self._connection.silent_seconds

    def request_progress(self) -> None:
        self._connection.send_status(request_reply=True)

    def end_of(self, written: int) -> int:
        """Where the log ends that can be read, of which the server has written up to a position.

        A server that stands before the end may have a large transaction to decode there, or a part of a record. It has
        the part where it says twice, after that was written, that it stands.
        """
        if self.between_transactions and 0 < written - self.position < _PAGE:
            if written != self._written:
                self._written, self._stood_before = written, self._stood
            if self._stood - self._stood_before >= 2:
                return self.position
            self.request_progress()
        return written

    def close(self) -> None:
        self._connection.close()

    def reconnect(self) -> None:
        replaces = self._connection.backend_pid
        self._connection.close()
        # A transaction that broke off comes again as a whole. The server decodes by the catalogs as they were, so it
        # brings the same messages in the same order, and those that were returned need only be counted.
        known = self.position if self.between_transactions else max(self.position, self._begin.commit_lsn)
        self._connection = self._connect(StreamStart(self.position, known, self._flushed, replaces))
        self.relations.forget()
        self._failure = None
        self._record = 0
        if not self.between_transactions:
            self._resuming = True
            self._returned = max(self._returned, self._changes)
            self._changes = 0

    def reading(self) -> str:
        """The captured tables of the transaction that is being read, for people; empty between transactions."""
        if self.between_transactions:
            return ""
        bound = [each for each in self.relations.bound.values() if isinstance(each, BoundRelation)]
        return names_of([each for each in bound if each.transaction == self._rows.transaction.number])

    def read(self, limit: int, wait: float, wakeup: int) -> LogBatch:
        if self._failure is not None:
            raise self._failure
        batch = LogBatch()
        self.relations.unfit.clear()
        try:
            self._fill(batch, limit, wait, wakeup)
        except (SourceError, psycopg.OperationalError) as error:
            failure = error if isinstance(error, SourceError) else self._connection.broken(error)
            self._rows.flush(batch)
            if not batch.says_something:
                raise failure from None
            # What was read up to here counts as returned, so it must be: the error comes with the next call.
            self._failure = failure
        # What comes after a change that was left out must not be returned.
        self._connection.check_published()
        if batch.lines:
            batch.size = sum(map(len, batch.lines))
            self.relations.count_bad(batch)
        # The state keeps what the batch has shown of tables with the batch's position.
        batch.noted |= self._tables.shown()
        return batch

    def _fill(self, batch: LogBatch, limit: int, wait: float, wakeup: int) -> None:
        receive = self._connection.receive
        start_lsn = _START_LSN.unpack_from
        rows, bound = self._rows, self.relations.bound
        waiting = rows.waiting
        length, data = receive(1)
        if length == 0:
            self._connection.wait(wait, wakeup)
            length, data = receive(1)
        if length > 0:
            self._connection.heard()
        raw = 0
        while length > 0:
            kind = data[0]
            if kind == XLOG_DATA:
                raw += length
                message = bytes(data[_XLOG_HEADER:])
                lsn = start_lsn(data, 1)[0]
                del data  # A row may be large, and decoding it needs room for it several times.
                if message[0] in ROWS:
                    self._place = self._place + 1 if lsn == self._record else 0
                    self._record = lsn
                    if self._changes >= self._returned:
                        relation = bound[message[1:5]]
                        if isinstance(relation, BoundRelation) and relation.waits == rows.transaction.number:
                            waiting.append((relation, message, lsn, self._place, rows.transaction))
                            if len(waiting) >= MOST_WAITING:
                                rows.gather(batch)
                        else:
                            rows.row(message, lsn, self._place, batch)
                    self._changes += 1
                else:
                    self._message(message, lsn, batch)
                    if (raw >= limit or self._told) and self.between_transactions:
                        break
                if raw >= limit + NEAR_END_BYTES:
                    break
                del message
            elif kind == KEEPALIVE:
                self._keepalive(data)
            length, data = receive(1)
            if length == 0:
                self._connection.consume()
                length, data = receive(1)
        if length < 0:
            raise self._connection.ended()
        rows.flush(batch)
        if self.between_transactions:
            self.relations.take_altered(self.position, batch, returned=self._changes < self._returned)
            if batch.undecided:
                self.request_progress()
        batch.drained = length == 0
        self._connection.keep_alive(self.position, reply=False)

    def _message(self, message: bytes, lsn: int, batch: LogBatch) -> None:
        kind = message[0]
        if kind == pgoutput.BEGIN:
            self._start(pgoutput.read_begin(message))
        elif kind == pgoutput.COMMIT:
            if self._changes < self._returned:
                raise self._not_the_same()
            self.position = pgoutput.read_commit_end(message)
            self.committed_at = self._begin.commit_time / 1e6 + POSTGRES_EPOCH
            self.between_transactions = True
            self._told = bool(self._rewrites) and self._tables.rewritten(self._rewrites, self._begin.xid)
            if self._rows.transaction.dirty:
                batch.transactions.append(self._rows.transaction.told)
        elif kind == pgoutput.RELATION:
            self._rows.flush(batch)
            returned = self._changes < self._returned
            shown = pgoutput.read_relation(message, self._texts)
            moment = self._begin.xid, self._changes
            self.relations.show(message[1:5], shown, batch, returned=returned, moment=moment)
        elif kind == pgoutput.TRUNCATE:
            if self._changes >= self._returned:
                for place, oid in enumerate(pgoutput.read_truncate(message)):
                    self._rows.truncate(oid, lsn, place, batch)
            self._changes += 1
        elif kind == pgoutput.MESSAGE:
            note_rewrite(message, self._rewrites)
        elif kind not in pgoutput.IGNORED:
            raise pgoutput.unknown_message(message)

    def _start(self, begin: pgoutput.Begin) -> None:
        self.between_transactions = False
        self._rewrites.clear()
        if self._resuming:
            self._resuming = False
            if begin != self._begin:
                raise self._not_the_same()
            return
        self._begin = begin
        number = self._rows.transaction.number + 1
        told = Transaction(begin.xid, self._next_tracked)
        self._rows.transaction = OpenTransaction(begin, number, self.position, told)
        self._record = 0
        self._changes = self._returned = 0

    def _not_the_same(self) -> SourceError:
        return SourceError(
            "TM-PG-033",
            f"transaction {self._begin.xid}, which was partly captured when the connection broke, is now another "
            "transaction",
        )

    def _keepalive(self, data: memoryview) -> None:
        end, _, reply = _KEEPALIVE.unpack_from(data, 1)
        # Between transactions a keepalive says that everything up to its position has been sent.
        if self.between_transactions:
            self._stood += end <= self.position
            self.position = max(self.position, end)
        self._connection.keep_alive(self.position, reply=bool(reply))
