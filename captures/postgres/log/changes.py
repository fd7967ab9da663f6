"""What the changes of a stream become: captured lines, or batches of columns.

Where batches may be sent, rows wait: those that follow one another, of any transactions, are added to a batch, some at
a time. Before anything else of the log is written, and at the end of each read, none waits any more, and the batch is
written. Rows that columns cannot hold become lines, with all that wait with them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from tidemark.backfill.keys import TouchedKeys
from tidemark.captures.contract.causes import COUNTED_ROWS
from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.table_events import RowsAffected
from tidemark.captures.postgres.catalog.encodings import Transcoder
from tidemark.captures.postgres.log import pgoutput
from tidemark.captures.postgres.log.open_transaction import NO_TRANSACTION, OpenTransaction, WaitingRow
from tidemark.captures.postgres.log.relations import Relations
from tidemark.captures.postgres.rows.generated_source import Misfit
from tidemark.captures.postgres.tables.bound_relations import BoundRelation
from tidemark.captures.postgres.tables_that_change.captured_tables import CapturedTables
from tidemark.captures.rows.captured_line import opening, without_columns
from tidemark.captures.tables.bad_values import BadValues
from tidemark.captures.tables.truncation import Truncation, emptied, ignored

if TYPE_CHECKING:
    from tidemark.captures.postgres.log.column_batches import ColumnBatches

logger = logging.getLogger(__name__)

MOST_WAITING = 512
"""Rows that wait: what they are on their way into columns fits a processor's cache."""


class Changes:
    """The changes of one stream; arguments as there, and of ``StreamLimits``.

    Attributes:
        transaction: The present one.
        waiting: Rows that wait. Whoever appends one has seen that ``waits`` of its relation is the present transaction,
            and calls ``gather`` if there are ``MOST_WAITING``.
    """

    def __init__(
        self,
        tables: CapturedTables,
        relations: Relations,
        *,
        truncation: Truncation,
        texts: Transcoder | None,
        incomplete_limit: int,
        columns: bool,
    ) -> None:
        self._tables = tables
        self._relations = relations
        self._truncation = truncation
        self._texts = texts
        self._incomplete_limit = incomplete_limit
        self._batches = _batches() if columns else None
        self.transaction = NO_TRANSACTION
        self.waiting: list[WaitingRow] = []

    def row(self, message: bytes, lsn: int, place: int, batch: LogBatch) -> None:
        """A row that does not wait yet."""
        oid = message[1:5]
        relation = self._relations.bound[oid]
        if not isinstance(relation, BoundRelation):
            self.flush(batch)
            relation = self._relations.changed(oid, batch)
        if relation is None:
            self._pass_over(oid, message, batch)
            return
        if relation.transaction != self.transaction.number:
            self._enter(relation, batch)
            if relation.waits == self.transaction.number:
                self.waiting.append((relation, message, lsn, place, self.transaction))
                return
        self.flush(batch)
        if relation.counted is not None:
            if relation.left_to_scan:
                return
            if not relation.counted.follow(self.transaction.begin.xid, removes=message[0] != pgoutput.INSERT):
                batch.tell(RowsAffected(relation.binding, COUNTED_ROWS))
        source = self.transaction.source(relation.origin, lsn, place)
        self._decode(relation, message, source, relation.touched, self.transaction, batch)

    def truncate(self, oid: bytes, lsn: int, place: int, batch: LogBatch) -> None:
        """A table of a TRUNCATE, which may have several."""
        self.flush(batch)
        self._relations.partitions.pop(oid, None)  # Tables that are truncated are shown together, too.
        relation = self._relations.changed(oid, batch)
        if relation is None:
            return
        if relation.transaction != self.transaction.number:
            self._enter(relation, batch)
        self._tables.truncated(relation.binding, self.transaction.begin.xid)
        if relation.left_to_scan:
            return
        if relation.touched is not None:
            relation.touched.truncate()
        if self._truncation is Truncation.EMIT:
            source = self.transaction.source(relation.origin, lsn, place)
            batch.lines.append(without_columns(opening(relation.binding, "t").encode() + source))
        elif self._truncation is Truncation.BACKFILL:
            batch.lines += emptied(relation.binding)
        else:
            logger.warning("%s", ignored(name_of(relation)))

    def flush(self, batch: LogBatch) -> None:
        """Writes the rows that wait, and the batch that they belong to."""
        if self._batches is not None:
            if self.waiting:
                self.gather(batch)
            batch.lines += self._batches.take()

    def gather(self, batch: LogBatch) -> None:
        """Adds the rows that wait to the batch of columns, or writes them as lines."""
        assert self._batches is not None
        waiting = self.waiting[:]
        self.waiting.clear()
        incomplete = self._batches.add(waiting)
        if incomplete is not None:
            for binding, key, transaction in incomplete:
                transaction.add_incomplete(binding, key, batch, self._incomplete_limit)
            return
        batch.lines += self._batches.take()
        for _, message, lsn, place, transaction in waiting:
            # An earlier one of them may have its table set aside.
            relation = self._relations.changed(message[1:5], batch)
            if relation is None:
                self._pass_over(message[1:5], message, batch)
            else:
                source = transaction.source(relation.origin, lsn, place)
                self._decode(relation, message, source, None, transaction, batch)

    def _pass_over(self, oid: bytes, message: bytes, batch: LogBatch) -> None:
        if oid in self._relations.unfit:
            row = message if self._texts is None else pgoutput.transcoded_row(message, self._texts)
            self._relations.look_for_more(oid, row, batch)

    def _decode(
        self,
        relation: BoundRelation,
        message: bytes,
        source: bytes,
        touched: TouchedKeys | None,
        transaction: OpenTransaction,
        batch: LogBatch,
    ) -> None:
        """Writes the line of a row; sets its table aside if it has none."""
        try:
            if self._texts is not None:
                message = pgoutput.transcoded_row(message, self._texts)
            kind = message[0]
            if touched is None:
                if kind == pgoutput.INSERT:
                    line = relation.decoder.insert(message, source)
                elif kind == pgoutput.DELETE:
                    line = relation.decoder.delete(message, source)
                else:
                    line, keys = relation.decoder.update_tracked(message, source)
                    if len(keys) > 1 and keys[1][1]:
                        transaction.add_incomplete(relation.binding, keys[1][0], batch, self._incomplete_limit)
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
        except BadValues as error:
            self._relations.set_aside(relation.binding, error, batch)
            self._relations.unfit[message[1:5]] = relation, error
        except Misfit as error:
            # Its table was altered in a way that this row does not know, or does not tell its row.
            self._relations.set_aside(relation.binding, error, batch)

    def _enter(self, relation: BoundRelation, batch: LogBatch) -> None:
        """The relation's first change in this transaction."""
        transaction = self.transaction
        relation.transaction = transaction.number
        relation.touched = None
        if relation.binding in transaction.told.tracked:
            relation.touched = transaction.told.touched.setdefault(relation.binding, TouchedKeys())
        transaction.dirty = True
        if relation.keyless:
            self._enter_counted(relation, batch)
        waits = self._batches is not None and relation.decoder.columns is not None
        if waits and relation.touched is None and relation.counted is None:
            relation.waits = transaction.number

    def _enter_counted(self, relation: BoundRelation, batch: LogBatch) -> None:
        transaction = self.transaction
        relation.left_to_scan, relation.counted = False, self._tables.scans.rows(relation.binding)
        if relation.counted is not None:
            from_scan = relation.counted.from_scan(transaction.begin.xid, transaction.begin.commit_lsn)
            relation.left_to_scan = from_scan is not False
            if from_scan is None:
                batch.tell(RowsAffected(relation.binding, COUNTED_ROWS))


def _batches() -> ColumnBatches:
    # Only where they can be sent, the package that writes them has to be there.
    from tidemark.captures.postgres.log.column_batches import ColumnBatches

    return ColumnBatches()


def name_of(relation: BoundRelation) -> str:
    """For people."""
    return ".".join(orjson.loads(b"{%b}" % relation.origin).values())


def names_of(relations: Sequence[BoundRelation]) -> str:
    """For people."""
    return ", ".join(sorted(map(name_of, relations)))
