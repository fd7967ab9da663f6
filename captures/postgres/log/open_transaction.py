"""A transaction whose changes are being read."""

from __future__ import annotations

from tidemark.backfill.keys import Key
from tidemark.captures.contract.causes import PARTIAL_ROWS
from tidemark.captures.contract.log import LogBatch, Transaction
from tidemark.captures.contract.table_events import RowsAffected
from tidemark.captures.postgres.log.connection import POSTGRES_EPOCH
from tidemark.captures.postgres.log.pgoutput import Begin
from tidemark.captures.postgres.tables.bound_relations import BoundRelation


class OpenTransaction:
    """What the changes of a transaction have in common. There may be one for each change, so it costs little to make.

    Args:
        begin: Its Begin message.
        number: Of the stream's transactions.
        since: Where the log stood before it: between transactions that only ever grows, so ``loc`` begins with it.
        told: What is told of it at its end.

    Attributes:
        dirty: It changed captured tables.
        milliseconds: When it was committed, since 1970.
    """

    __slots__ = ("_given_up", "_source", "begin", "dirty", "milliseconds", "number", "since", "told")

    def __init__(self, begin: Begin, number: int, since: int, told: Transaction) -> None:
        self.begin = begin
        self.number = number
        self.since = since
        self.told = told
        self.dirty = False
        self.milliseconds = begin.commit_time // 1000 + POSTGRES_EPOCH * 1000
        self._source: tuple[bytes, bytes, bytes, bytes] | None = None
        self._given_up: set[int] | None = None

    def source(self, origin: bytes, lsn: int, place: int) -> bytes:
        """The JSON of ``_meta.source`` of a change; ``origin`` are its members that name the table."""
        if self._source is None:
            self._source = (
                b'{"ts_ms":%d,' % self.milliseconds,
                b',"loc":[%d,' % self.since,
                b",%d," % self.begin.commit_lsn,
                b'],"txid":%d}' % self.begin.xid,
            )
        start, since, commit, end = self._source
        return b"%b%b%b%d%b%d%b" % (start, origin, since, lsn, commit, place, end)

    def add_incomplete(self, binding: int, key: Key, batch: LogBatch, limit: int) -> None:
        """The missing columns under this key are unknown downstream: the row must be read again."""
        incomplete = self.told.incomplete
        if self._given_up is None:
            self._given_up = set()
        if binding in self._given_up:
            return
        incomplete.append((binding, key))
        if len(incomplete) > limit:
            # More than can be remembered: it costs less to read the tables again.
            for given_up in {binding for binding, _ in incomplete}:
                self._given_up.add(given_up)
                batch.tell(RowsAffected(given_up, PARTIAL_ROWS))
            incomplete.clear()


WaitingRow = tuple[BoundRelation, bytes, int, int, OpenTransaction]
"""A row that waits to be in a batch of columns: its relation, message, LSN, place in the record, and transaction."""

NO_TRANSACTION = OpenTransaction(Begin(0, 0, 0), 0, 0, Transaction(0, frozenset()))
"""Before the first."""
