"""The relations that a stream has shown, and how the rows of each are decoded.

The stream looks into the collections itself: a call for each row would cost too much.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.table_events import (
    BadValuesCounted,
    ChangesPassed,
    ColumnsChanged,
    RowPartlyKnown,
    RowsAffected,
    WentAway,
)
from tidemark.captures.postgres.log import pgoutput
from tidemark.captures.postgres.rows.generated_source import Misfit
from tidemark.captures.postgres.rows.log_decoder import Relation
from tidemark.captures.postgres.tables.bound_relations import AlteredTable, BoundRelation, LeftOut, ShownPartition
from tidemark.captures.postgres.tables_that_change.captured_tables import CapturedTables
from tidemark.captures.tables.bad_values import BadValues
from tidemark.protocol.codec import encode
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import SourcedSchema


@dataclass(frozen=True, slots=True)
class Outdated:
    """A relation whose rows are to be decoded in another way than they were."""

    relation: Relation


class Relations:
    """Those of one connection, by the number that messages have.

    Attributes:
        bound: Every relation that was shown, and what becomes of its rows. They are passed over where its binding is
            left out, and ignored where it has none.
        unfit: Those that were set aside for their values in the present batch, and why.
        partitions: Those whose rows are a captured table's, since the log was last read to the end of a transaction.
    """

    def __init__(self, tables: CapturedTables) -> None:
        self._tables = tables
        self._shown: dict[bytes, Relation] = {}  # Those of captured tables, also of those that are left out.
        self.bound: dict[bytes, BoundRelation | Outdated | ChangesPassed | None] = {}
        self.unfit: dict[bytes, tuple[BoundRelation, BadValues]] = {}
        self.partitions: dict[bytes, ShownPartition] = {}
        self._before: tuple[int | None, tuple[int, int]] = None, (0, 0)

    def forget(self) -> None:
        """The connection is another one: the server shows each relation again."""
        self.bound.clear()
        self._shown.clear()
        self._before = None, (0, 0)

    # What the log shows.

    def show(
        self, oid: bytes, relation: Relation, batch: LogBatch, *, returned: bool, moment: tuple[int, int] | None = None
    ) -> None:
        """A Relation message came.

        Args:
            returned: What it says was returned before the connection broke.
            moment: Its transaction, and how many changes came of that before; None for one that came earlier.
        """
        found = self._tables.relation(relation)
        # The server shows a partition straight after the table whose rows it holds, before the first of them.
        if moment is not None:
            table, shown_at = self._before
            if shown_at == moment and (table is not None or found is not None):
                name = f"{relation.schema}.{relation.table}"
                self.partitions.setdefault(oid, ShownPartition(table, relation.oid, moment[0], name))
                if table is not None and not returned:
                    self._tables.filled(table, relation.oid, moment[0])
            self._before = found.binding if isinstance(found, BoundRelation) else None, moment
        self.bound[oid] = found if isinstance(found, BoundRelation) else None
        if found is None:
            return
        self._shown[oid] = relation
        if isinstance(found, BoundRelation):
            # No row of a table that had the name before counts any more.
            self._outdate(found.binding, batch, but=oid)
        if isinstance(found, LeftOut):
            self.bound[oid] = ChangesPassed(found.binding)
            if found.error is not None:
                self.set_aside(found.binding, found.error, batch)
        else:
            _announce(found, batch, returned=returned)

    def changed(self, oid: bytes, batch: LogBatch) -> BoundRelation | None:
        """The relation of a change. None if the change is not captured; one that is passed over is told."""
        found = self.bound[oid]
        if isinstance(found, Outdated):  # The server shows none again that is as it was.
            self.show(oid, found.relation, batch, returned=False)
            found = self.bound[oid]
        if isinstance(found, ChangesPassed):
            batch.tell(found)
        return found if isinstance(found, BoundRelation) else None

    def take_altered(self, position: int, batch: LogBatch, *, returned: bool) -> None:
        """Takes the tables of ``CapturedTables.altered``, between transactions, with the log read to ``position``."""
        if self.partitions:
            batch.noted |= self._tables.shown(self.partitions.values())
            self.partitions.clear()
        altered = self._tables.altered(position)
        batch.events += (WentAway(binding, error) for binding, error in self._tables.away().items())
        if altered is None:
            batch.undecided = True
            return
        for table in altered:
            batch.noted = True
            self._outdate(table.binding, batch)
            _announce(table, batch, returned=returned)

    def _outdate(self, binding: int, batch: LogBatch, but: bytes = b"") -> None:
        """The rows of a binding's relations, but for one, get another decoder when the next one comes."""
        outdated = [oid for oid in self._of(binding, BoundRelation) if oid != but]
        if outdated:
            self.count_bad(batch)
        for oid in outdated:
            self.bound[oid] = Outdated(self._shown[oid])

    def _of(self, binding: int, kind: type[BoundRelation | ChangesPassed]) -> list[bytes]:
        """The relations of a binding that are decoded, or passed over."""
        return [oid for oid, found in self.bound.items() if isinstance(found, kind) and found.binding == binding]

    # Tables that are set aside.

    def leave_out(self, binding: int) -> None:
        """Passes over the rows of a binding from here on."""
        for oid in self._of(binding, BoundRelation):
            self.bound[oid] = ChangesPassed(binding)

    def take_up(self, binding: int) -> None:
        """The end of ``leave_out``, between transactions."""
        for oid in self._of(binding, ChangesPassed):
            self.bound[oid] = Outdated(self._shown[oid])

    def set_aside(self, binding: int, error: SourceError, batch: LogBatch) -> None:
        """Nothing of a binding can be captured from here on."""
        self._tables.leave_out(binding)
        self.leave_out(binding)
        batch.set_aside(binding, error)

    # Bad values.

    def count_bad(self, batch: LogBatch) -> None:
        """Tells of the bad values since this was called last, and of the rows that a consumer may know in part."""
        for relation in self.bound.values():
            if not isinstance(relation, BoundRelation):
                continue
            if relation.decoder.bad:
                bad = relation.decoder.bad
                batch.events += (BadValuesCounted(relation.binding, policy, count) for policy, count in bad.items())
                bad.clear()
            if relation.decoder.apart:
                apart = relation.decoder.apart
                batch.events += (RowPartlyKnown(relation.binding, key, marked) for key, marked in apart)
                apart.clear()

    def look_for_more(self, oid: bytes, message: bytes, batch: LogBatch) -> None:
        """All bad columns that a batch shows of a table in ``unfit`` are said at once; ``message`` is a row of it."""
        relation, known = self.unfit[oid]
        decoder = relation.decoder
        by_kind = {pgoutput.INSERT: decoder.insert, pgoutput.DELETE: decoder.delete, pgoutput.UPDATE: decoder.update}
        try:
            by_kind[message[0]](message, b"{}")
        except Misfit:
            return  # What is wrong with this row is another matter.
        except BadValues as error:
            if not error.columns.keys() <= known.columns.keys():
                self.unfit[oid] = relation, known.joined(error)
                batch.set_aside(relation.binding, self.unfit[oid][1])


def _announce(table: BoundRelation | AlteredTable, batch: LogBatch, *, returned: bool) -> None:
    for cause in table.causes:
        batch.tell(RowsAffected(table.binding, cause))
        batch.noted = True
    if table.new_schema is not None:
        batch.tell(ColumnsChanged(table.binding))
        if not returned:
            batch.lines.append(encode(SourcedSchema(binding=table.binding, document_schema=table.new_schema)))
