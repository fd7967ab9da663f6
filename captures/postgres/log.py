"""The log stream: pgoutput messages in, protocol lines out, one transaction after another."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Protocol

import orjson

from backfill.keys import TouchedKeys
from captures.interface import LogBatch, Transaction
from captures.postgres import pgoutput
from captures.postgres.pgoutput import Relation
from captures.postgres.replication import POSTGRES_EPOCH, ReplicationConnection
from captures.postgres.rows import LogDecoder
from protocol.codec import CAPTURED_SUFFIX, captured_prefix, encode
from protocol.messages import JsonObject, SourcedSchema

ROWS = frozenset((pgoutput.INSERT, pgoutput.UPDATE, pgoutput.DELETE))
XLOG_DATA = ord("w")
KEEPALIVE = ord("k")
_XLOG_HEADER = 25
_START_LSN = struct.Struct(">Q")
_KEEPALIVE = struct.Struct(">QqB")

NEAR_END_BYTES = 1024 * 1024
"""How much further a read goes to reach the end of a transaction before it returns in the middle of one."""


class Tables(Protocol):
    """Knows how the rows of a relation are decoded."""

    def relation(self, relation: Relation) -> BoundRelation | None:
        """The binding and decoder of a relation's rows; None when no binding captures it."""


@dataclass(slots=True)
class BoundRelation:
    """A captured relation, between one Relation message and the next.

    Attributes:
        binding: Index of its binding.
        decoder: Generated for its columns.
        origin: The JSON members ``"schema":…,"table":…`` of ``_meta.source``.
        new_schema: Set when the columns are not the ones whose schema was announced last.
    """

    binding: int
    decoder: LogDecoder
    origin: bytes
    new_schema: JsonObject | None = None
    # Of the present transaction: its number, the beginning of `source`, and the touched keys if they are recorded.
    transaction: int = -1
    source: bytes = b""
    touched: TouchedKeys | None = None


def origin_members(schema: str, table: str) -> bytes:
    """The members of ``_meta.source`` that say which table a document is of."""
    return b'"schema":%b,"table":%b' % (orjson.dumps(schema), orjson.dumps(table))


class PgoutputLog:
    """Reads a replication connection. See ``captures.interface.LogStream``.

    Args:
        connection: Started at ``position``.
        tables: Gives decoders; asked whenever a Relation message comes.
        emit_truncate: Whether TRUNCATE becomes documents.
    """

    def __init__(
        self, connection: ReplicationConnection, position: int, tables: Tables, *, emit_truncate: bool
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._emit_truncate = emit_truncate
        self._relations: dict[bytes, BoundRelation | None] = {}
        self._begin = pgoutput.Begin(0, 0, 0)
        self._count = 0
        self._suffix = b""
        self._next_tracked: frozenset[int] = frozenset()
        self._current = Transaction(0, frozenset())
        self._dirty = False
        self.position = position
        self.between_transactions = True
        self.committed_at: float | None = None

    def track(self, bindings: frozenset[int]) -> None:
        self._next_tracked = bindings

    def acknowledge(self, position: int) -> None:
        self._connection.confirm(position)

    def request_progress(self) -> None:
        self._connection.send_status(request_reply=True)

    def close(self) -> None:
        self._connection.close()

    def read(self, limit: int, wait: float, wakeup: int) -> LogBatch:
        batch = LogBatch()
        receive = self._connection.receive
        start_lsn = _START_LSN.unpack_from
        length, data = receive(1)
        if length == 0:
            self._connection.wait(wait, wakeup)
            length, data = receive(1)
        raw = 0
        while length > 0:
            kind = data[0]
            if kind == XLOG_DATA:
                raw += length
                message = bytes(data[_XLOG_HEADER:])
                if message[0] in ROWS:
                    relation = self._relations[message[1:5]]
                    if relation is not None:
                        self._row(relation, message, start_lsn(data, 1)[0], batch)
                else:
                    self._message(message, start_lsn(data, 1)[0], batch)
                    if raw >= limit and self.between_transactions:
                        break
                if raw >= limit + NEAR_END_BYTES:
                    break
            elif kind == KEEPALIVE:
                self._keepalive(data)
            length, data = receive(1)
            if length == 0:
                self._connection.consume()
                length, data = receive(1)
        self._connection.check_published()
        if length < 0:
            raise self._connection.ended()
        batch.size = sum(map(len, batch.lines))
        batch.drained = length == 0
        self._connection.keep_alive(self.position, reply=False)
        return batch

    def _row(self, relation: BoundRelation, message: bytes, lsn: int, batch: LogBatch) -> None:
        if relation.transaction != self._count:
            self._enter(relation)
        source = b"%b%d%b" % (relation.source, lsn, self._suffix)
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
                    # Nobody downstream has the missing columns under this key: the row must be read again.
                    self._current.incomplete.append((relation.binding, keys[1][0]))
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
            self._begin = begin = pgoutput.read_begin(message)
            self._count += 1
            self._suffix = b',%d],"txid":%d}' % (begin.commit_lsn, begin.xid)
            self._current = Transaction(begin.xid, self._next_tracked)
            self._dirty = False
            self.between_transactions = False
        elif kind == pgoutput.COMMIT:
            self.position = pgoutput.read_commit_end(message)
            self.committed_at = self._begin.commit_time / 1e6 + POSTGRES_EPOCH
            self.between_transactions = True
            if self._dirty:
                batch.transactions.append(self._current)
        elif kind == pgoutput.RELATION:
            bound = self._tables.relation(pgoutput.read_relation(message))
            self._relations[message[1:5]] = bound
            if bound is not None and bound.new_schema is not None:
                batch.lines.append(encode(SourcedSchema(binding=bound.binding, document_schema=bound.new_schema)))
                batch.changed.add(bound.binding)
        elif kind == pgoutput.TRUNCATE:
            for oid in pgoutput.read_truncate(message):
                relation = self._relations[oid]
                if relation is not None:
                    self._truncate(relation, lsn, batch)
        elif kind not in pgoutput.IGNORED:
            raise pgoutput.unknown_message(message)

    def _enter(self, relation: BoundRelation) -> None:
        """The relation's first change in this transaction."""
        relation.transaction = self._count
        milliseconds = self._begin.commit_time // 1000 + POSTGRES_EPOCH * 1000
        # loc begins where the log stood before this transaction: between transactions it only ever grows.
        relation.source = b'{"ts_ms":%d,%b,"loc":[%d,' % (milliseconds, relation.origin, self.position)
        relation.touched = None
        if relation.binding in self._current.tracked:
            relation.touched = self._current.touched.setdefault(relation.binding, TouchedKeys())
        self._dirty = True

    def _truncate(self, relation: BoundRelation, lsn: int, batch: LogBatch) -> None:
        if relation.transaction != self._count:
            self._enter(relation)
        if relation.touched is not None:
            relation.touched.truncate()
        if self._emit_truncate:
            document = b'{"_meta":{"op":"t","source":%b%d%b}}' % (relation.source, lsn, self._suffix)
            batch.lines.append(captured_prefix(relation.binding) + document + CAPTURED_SUFFIX)

    def _keepalive(self, data: memoryview) -> None:
        end, _, reply = _KEEPALIVE.unpack_from(data, 1)
        # Between transactions a keepalive says that everything up to its position has been sent.
        if self.between_transactions and end > self.position:
            self.position = end
        self._connection.keep_alive(self.position, reply=bool(reply))
