"""The log stream: pgoutput messages in, protocol lines out, one transaction after another."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass

import orjson
import psycopg

from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.captures.contract.causes import COUNTED_ROWS, PARTIAL_ROWS
from tidemark.captures.contract.log import LogBatch, Transaction
from tidemark.captures.contract.table_events import RowsAffected
from tidemark.captures.postgres.catalog.encodings import Transcoder
from tidemark.captures.postgres.log import pgoutput
from tidemark.captures.postgres.log.connection import LIMITS, POSTGRES_EPOCH, ReplicationConnection, StreamLimits
from tidemark.captures.postgres.log.relations import Relations
from tidemark.captures.postgres.log.transcoded_rows import transcoded_row
from tidemark.captures.postgres.rows.generated_source import Misfit
from tidemark.captures.postgres.tables.rewrite_messages import Reason, note_rewrite
from tidemark.captures.postgres.tables.table_contract import BoundRelation, Tables
from tidemark.captures.rows.captured_line import opening, without_columns
from tidemark.captures.tables.bad_values import BadValues
from tidemark.captures.tables.truncation import Truncation, emptied, ignored
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

ROWS = frozenset((pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE))
XLOG_DATA = ord("w")
KEEPALIVE = ord("k")
_XLOG_HEADER = 25
_START_LSN = struct.Struct(">Q")
_KEEPALIVE = struct.Struct(">QqB")

NEAR_END_BYTES = 1024 * 1024
"""How much further a read goes to reach the end of a transaction before it returns in the middle of one."""


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
        connect: Starts a stream.
        tables: Gives decoders; asked whenever a Relation message comes.
        truncation: What a TRUNCATE becomes.
        texts: Converts those of a database whose encoding is not UTF-8.
        limits: What is remembered.
    """

    def __init__(
        self,
        connect: Callable[[StreamStart], ReplicationConnection],
        position: int,
        tables: Tables,
        *,
        truncation: Truncation,
        texts: Transcoder | None = None,
        limits: StreamLimits = LIMITS,
    ) -> None:
        self._connect = connect
        self._connection = connect(StreamStart(position, position, position))
        self._flushed = position
        self._tables = tables
        self._truncation = truncation
        self._texts = texts
        self._incomplete_limit = limits.incomplete_keys
        self._relations = Relations(tables)
        self._begin = pgoutput.Begin(0, 0, 0)
        self._count = 0
        self._record = 0
        self._place = 0
        self._commit = b""
        self._suffix = b""
        self._next_tracked: frozenset[int] = frozenset()
        self._current = Transaction(0, frozenset())
        self._dirty = False
        # Row and TRUNCATE messages of the present transaction: how many came on this connection, and how many had been
        # returned when an earlier one broke.
        self._changes = 0
        self._returned = 0
        self._resuming = False
        self._given_up: set[int] = set()
        self._rewrites: dict[int, Reason] = {}  # Of the present transaction, by the relation's oid.
        self._told = False  # The transaction that was read last rewrote captured tables.
        self._failure: SourceError | None = None
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

    def close(self) -> None:
        self._connection.close()

    def reconnect(self) -> None:
        replaces = self._connection.backend_pid
        self._connection.close()
        # A transaction that broke off comes again as a whole. The server decodes by the catalogs as they were, so it
        # brings the same messages in the same order, and those that were returned need only be counted.
        known = self.position if self.between_transactions else max(self.position, self._begin.commit_lsn)
        self._connection = self._connect(StreamStart(self.position, known, self._flushed, replaces))
        self._relations.forget()
        self._failure = None
        self._record = 0
        if not self.between_transactions:
            self._resuming = True
            self._returned = max(self._returned, self._changes)
            self._changes = 0

    # Tables that are set aside.

    def leave_out(self, binding: int) -> None:
        """Passes over the rows of a binding from here on."""
        self._relations.leave_out(binding)

    def take_up(self, binding: int) -> None:
        """The end of ``leave_out``, between transactions."""
        self._relations.take_up(binding)

    def reading(self) -> str:
        """The captured tables of the transaction that is being read, for people; empty between transactions."""
        if self.between_transactions:
            return ""
        bound = [each for each in self._relations.bound.values() if isinstance(each, BoundRelation)]
        return ", ".join(sorted(_name(each) for each in bound if each.transaction == self._count))

    def read(self, limit: int, wait: float, wakeup: int) -> LogBatch:
        if self._failure is not None:
            raise self._failure
        batch = LogBatch()
        self._relations.unfit.clear()
        try:
            self._fill(batch, limit, wait, wakeup)
        except (SourceError, psycopg.OperationalError) as error:
            failure = error if isinstance(error, SourceError) else self._connection.broken(error)
            if not batch.says_something:
                raise failure from None
            # What was read up to here counts as returned, so it must be: the error comes with the next call.
            self._failure = failure
        # What comes after a change that was left out must not be returned.
        self._connection.check_published()
        if batch.lines:
            batch.size = sum(map(len, batch.lines))
            self._relations.count_bad(batch)
        self._relations.note(batch)
        return batch

    def _fill(self, batch: LogBatch, limit: int, wait: float, wakeup: int) -> None:
        receive = self._connection.receive
        start_lsn = _START_LSN.unpack_from
        relations = self._relations
        bound, unfit = relations.bound, relations.unfit
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
                        if not isinstance(relation, BoundRelation):
                            relation = relations.changed(message[1:5], batch)
                        if relation is not None:
                            try:
                                self._row(relation, message, lsn, batch)
                            except BadValues as error:
                                relations.set_aside(relation.binding, error, batch)
                                unfit[message[1:5]] = relation, error
                            except Misfit as error:
                                # Its table was altered in a way that this row does not know, or does not tell its row.
                                relations.set_aside(relation.binding, error, batch)
                        elif message[1:5] in unfit:
                            row = message if self._texts is None else transcoded_row(message, self._texts)
                            relations.look_for_more(message[1:5], row, batch)
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
        if self.between_transactions:
            self._relations.take_altered(self.position, batch, returned=self._changes < self._returned)
            if batch.undecided:
                self.request_progress()
        batch.drained = length == 0
        self._connection.keep_alive(self.position, reply=False)

    def _row(self, relation: BoundRelation, message: bytes, lsn: int, batch: LogBatch) -> None:
        if relation.transaction != self._count:
            self._enter(relation, batch)
        if relation.counted is not None:
            if relation.left_to_scan:
                return
            if not relation.counted.follow(self._begin.xid, removes=message[0] != pgoutput.INSERT):
                batch.tell(RowsAffected(relation.binding, COUNTED_ROWS))
        if self._texts is not None:
            message = transcoded_row(message, self._texts)
        source = b"%b%d%b%d%b" % (relation.source, lsn, self._commit, self._place, self._suffix)
        kind = message[0]
        touched = relation.touched
        if touched is None:
            if kind == pgoutput.INSERT:
                line = relation.decoder.insert(message, source)
            elif kind == pgoutput.DELETE:
                line = relation.decoder.delete(message, source)
            else:
                line, keys = relation.decoder.update_tracked(message, source)
                if len(keys) > 1 and keys[1][1]:
                    self._incomplete(relation.binding, keys[1][0], batch)
        elif kind == pgoutput.INSERT:
            line, key = relation.decoder.insert_tracked(message, source)
            touched.add(key, False)
        elif kind == pgoutput.DELETE:
            line, key = relation.decoder.delete_tracked(message, source)
            touched.add(key, False)
        else:
            line, keys = relation.decoder.update_tracked(message, source)
            # A second key is a new one, to which the row came.
            for index, (key, partial) in enumerate(keys):
                touched.add(key, partial, index > 0)
        batch.lines.append(line)

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
            if self._dirty:
                batch.transactions.append(self._current)
        elif kind == pgoutput.RELATION:
            returned = self._changes < self._returned
            shown = pgoutput.read_relation(message, self._texts)
            moment = self._begin.xid, self._changes
            self._relations.show(message[1:5], shown, batch, returned=returned, moment=moment)
        elif kind == pgoutput.TRUNCATE:
            if self._changes >= self._returned:
                for place, oid in enumerate(pgoutput.read_truncate(message)):
                    self._relations.partitions.pop(oid, None)  # Tables that are truncated are shown together, too.
                    if (relation := self._relations.changed(oid, batch)) is not None:
                        self._truncate(relation, lsn, place, batch)
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
        self._count += 1
        self._commit = b",%d," % begin.commit_lsn
        self._suffix = b'],"txid":%d}' % begin.xid
        self._record = 0
        self._current = Transaction(begin.xid, self._next_tracked)
        self._dirty = False
        self._changes = self._returned = 0
        self._given_up.clear()

    def _not_the_same(self) -> SourceError:
        return SourceError(
            "TM-PG-033",
            f"transaction {self._begin.xid}, which was partly captured when the connection broke, is now another "
            "transaction",
        )

    def _incomplete(self, binding: int, key: Key, batch: LogBatch) -> None:
        """The missing columns under this key are unknown downstream: the row must be read again."""
        incomplete = self._current.incomplete
        if binding in self._given_up:
            return
        incomplete.append((binding, key))
        if len(incomplete) > self._incomplete_limit:
            # More than can be remembered: it costs less to read the tables again.
            for given_up in {binding for binding, _ in incomplete}:
                self._given_up.add(given_up)
                batch.tell(RowsAffected(given_up, PARTIAL_ROWS))
            incomplete.clear()

    def _enter(self, relation: BoundRelation, batch: LogBatch) -> None:
        """The relation's first change in this transaction."""
        relation.transaction = self._count
        milliseconds = self._begin.commit_time // 1000 + POSTGRES_EPOCH * 1000
        # loc begins where the log stood before this transaction: between transactions it only ever grows.
        relation.source = b'{"ts_ms":%d,%b,"loc":[%d,' % (milliseconds, relation.origin, self.position)
        relation.touched = None
        if relation.binding in self._current.tracked:
            relation.touched = self._current.touched.setdefault(relation.binding, TouchedKeys())
        self._dirty = True
        if relation.keyless:
            self._enter_counted(relation, batch)

    def _enter_counted(self, relation: BoundRelation, batch: LogBatch) -> None:
        relation.left_to_scan, relation.counted = False, self._tables.counted(relation.binding)
        if relation.counted is not None:
            from_scan = relation.counted.from_scan(self._begin.xid, self._begin.commit_lsn)
            relation.left_to_scan = from_scan is not False
            if from_scan is None:
                batch.tell(RowsAffected(relation.binding, COUNTED_ROWS))

    def _truncate(self, relation: BoundRelation, lsn: int, place: int, batch: LogBatch) -> None:
        if relation.transaction != self._count:
            self._enter(relation, batch)
        self._tables.truncated(relation.binding, self._begin.xid)
        if relation.left_to_scan:
            return
        if relation.touched is not None:
            relation.touched.truncate()
        if self._truncation is Truncation.EMIT:
            source = b"%b%d%b%d%b" % (relation.source, lsn, self._commit, place, self._suffix)
            batch.lines.append(without_columns(opening(relation.binding, "t").encode() + source))
        elif self._truncation is Truncation.BACKFILL:
            batch.lines += emptied(relation.binding)
        else:
            logger.warning("%s", ignored(_name(relation)))

    def _keepalive(self, data: memoryview) -> None:
        end, _, reply = _KEEPALIVE.unpack_from(data, 1)
        # Between transactions a keepalive says that everything up to its position has been sent.
        if self.between_transactions and end > self.position:
            self.position = end
        self._connection.keep_alive(self.position, reply=bool(reply))


def _name(relation: BoundRelation) -> str:
    """For people."""
    return ".".join(orjson.loads(b"{%b}" % relation.origin).values())
