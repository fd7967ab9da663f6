"""The captured tables that TABLE_MAP events name, with the columns of the rows that follow."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.table_changes import Cause
from tidemark.captures.contract.table_events import ChangesPassed, ColumnsChanged, RowsAffected
from tidemark.captures.mysql.rows.table_map import read_table_name
from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.tables import table_changes
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.tables.captured_tables import CapturedTables
from tidemark.captures.mysql.tables.logged_table import LoggedTable, logged_table
from tidemark.captures.mysql.terms.columns import Table
from tidemark.protocol.codec import encode
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject, SourcedSchema

logger = logging.getLogger(__name__)

_REMEMBERED = 10_000
"""The most TABLE_MAP events that are remembered."""

_LOOKS = 10
"""The most tables that are looked at in one turn, because the log waits meanwhile."""

InSnapshot = Callable[[int, str, int, str], bool | None]
"""Whether the snapshot of a table without a key, by its binding, has what a transaction did; None if that is unknown.

Takes the transaction's GTID, a position in it, and the xid of the prepared transaction that it commits, empty for none.
"""


class LoggedTables:
    """The tables that TABLE_MAP events name, until a statement changes them; ``gone`` are the bindings whose tables
    were dropped or renamed, while no other table has their names.
    """

    def __init__(self, tables: CapturedTables, in_snapshot: InSnapshot, *, names_columns: bool, mariadb: bool) -> None:
        self.tables = tables
        self._in_snapshot = in_snapshot
        self._unlogged = _UnloggedAlterations(tables)
        self._mariadb = mariadb
        self._names_columns = names_columns
        self._named: dict[int, bool] = {}
        self._known: dict[bytes, LoggedTable | ChangesPassed | None] = {}
        self.gone: set[int] = set()

    def knows(self, body: bytes) -> bool:
        """Whether a TABLE_MAP event names a table as an earlier one did: ``mapped`` announces nothing."""
        return body[6:] in self._known

    def mapped(self, body: bytes, batch: LogBatch) -> LoggedTable | None:
        """The captured table that a TABLE_MAP event names; announces a new schema when its columns changed."""
        key = body[6:]  # the table's number changes whenever the server opens the table
        try:
            found = self._known[key]
        except KeyError:
            found = self._unknown(key, body, batch)
        if isinstance(found, ChangesPassed):
            batch.tell(found)
            return None
        if found is not None:
            self._unlogged.mapped(found.binding, body[:6], as_known=found.named and not found.differs)
        return found

    def _unknown(self, key: bytes, body: bytes, batch: LogBatch) -> LoggedTable | ChangesPassed | None:
        """The first event of a table since it was altered, or left out."""
        if len(self._known) >= _REMEMBERED:
            self.forget()
        table = logged_table(body, self.tables, mariadb=self._mariadb)
        if table is not None and table.unfit is not None:
            self.set_aside(table.binding, table.unfit, batch)
            table = None
        if table is None:
            left_out = self.tables.left_out(*read_table_name(body))
            passed = self._known[key] = None if left_out is None else ChangesPassed(left_out)
            return passed
        self._known[key] = table
        self._named[table.binding] = table.named
        if table.rekeyed:
            self.empty(table.binding, batch, table_changes.KEY.cause())
        if table.new_schema is not None:
            self._announce(table.binding, table.new_schema, batch)
        return table

    def names_columns(self, binding: int) -> bool:
        """Whether the log named the columns of this table with its latest rows."""
        return self._named.get(binding, self._names_columns)

    def doubted(self, position: int, batch: LogBatch) -> None:
        """Reads tables again that differ from what the log says, after all of it was read up to ``position``: the log
        lacks what a session with ``sql_log_bin = 0`` did.
        """
        for bound in self.tables.doubted(position):
            self.forget()
            self.read_again(bound, batch)
            self._unlogged.suspect(bound.binding)
        for bound in self._unlogged.found(position, self.names_columns):
            # No event has its values, and later rows may have been read by the earlier columns.
            self.replaced(bound, batch, table_changes.WITHOUT_A_STATEMENT.cause())
        for bound in self.tables.misled(position):
            logger.warning("%s was altered in a way that is not understood: it is read again", bound.name)
            self.replaced(bound, batch, table_changes.NOT_UNDERSTOOD.cause())

    def altered(self, binding: int) -> None:
        """A statement of the log has altered the table."""
        self._unlogged.suspect(binding)  # The catalog may also have changes of later statements.
        self.forget()

    def leaves_out(self, table: LoggedTable, gtid: str, position: int, xid: str, batch: LogBatch) -> bool:
        """Whether the snapshot of a table without a key already has what a transaction does to the table.

        If that is unknown, the table is read again.

        Args:
            position: In the log, where what it does counts.
            xid: Of the prepared transaction that it commits, empty for none.
        """
        left_out = self._in_snapshot(table.binding, gtid, position, xid)
        if left_out is None:
            batch.tell(RowsAffected(table.binding, table_changes.COUNTED_ROWS.cause()))
        return left_out is not False

    def read_again(
        self, bound: BoundTable, batch: LogBatch, alteration: Alteration | None = None, *, marked: bool = False
    ) -> BoundTable | None:
        """Reads the catalog again, and announces the schema. Returns None if the table had to be set aside.

        Args:
            alteration: The statement of the log that is followed, see ``CapturedTables.apply``.
            marked: The schema is announced even if it is the same: it marks this place in the log.
        """
        binding = bound.binding
        fresh = self.tables.refresh(binding) if alteration is None else self.tables.apply(binding, alteration)
        if isinstance(fresh, SourceError):
            # Its rows mean something else from here on: those of a system-versioned table include its history.
            self.set_aside(bound.binding, fresh, batch)
            return None
        # At once and not with the next row: until then chunks would find unknown columns.
        fresh, schema = self.tables.adopt(bound.binding, fresh.table.columns)
        batch.tell(ColumnsChanged(bound.binding))
        if fresh.identity != bound.identity:
            self.empty(bound.binding, batch, table_changes.KEY.cause())
        if marked or schema is not None:
            self._announce(binding, fresh.announced or {}, batch)
        return fresh

    def mark(self, binding: int, batch: LogBatch) -> None:
        """Announces the schema with the present identities of the columns, at this place in the log."""
        bound, _ = self.tables.adopt(binding, self.tables[binding].table.columns)
        self._announce(binding, bound.announced or {}, batch)

    @staticmethod
    def _announce(binding: int, schema: JsonObject, batch: LogBatch) -> None:
        batch.lines.append(encode(SourcedSchema(binding=binding, document_schema=schema)))
        batch.tell(ColumnsChanged(binding))
        batch.noted = True

    def replaced(self, bound: BoundTable, batch: LogBatch, cause: Cause) -> None:
        """Empties a table and reads it again: another table has its name, or its rows changed without events."""
        self.gone.discard(bound.binding)
        self._unlogged.replaced(bound.binding)
        self.forget()
        if (fresh := self.read_again(bound, batch)) is not None:
            fresh.definitions.begin(fresh.defined, fresh.until)
            self.empty(bound.binding, batch, cause)

    def empty(self, binding: int, batch: LogBatch, cause: Cause) -> None:
        """The rows downstream are removed, and the table is read again."""
        batch.tell(RowsAffected(binding, cause))
        self.tables.rows_replaced(binding)

    def set_aside(self, binding: int, error: SourceError, batch: LogBatch) -> None:
        """Stops the capture of a binding, for the reason ``error``."""
        self.tables.leave_out(binding)
        self.forget()
        batch.set_aside(binding, error)

    def forget(self) -> None:
        """Forgets all tables: the next events define them again."""
        self._known.clear()


class _UnloggedAlterations:
    """Finds tables that a session with ``sql_log_bin = 0`` altered: the log has neither the statement nor new values.

    From then on the log names the table by another number, as it does whenever the server opens a table again. So each
    new number leads to a look at the catalog. A difference that no statement up to the end of the log explains was not
    logged.
    """

    def __init__(self, tables: CapturedTables) -> None:
        self._tables = tables
        self._numbers: dict[int, bytes] = {}
        self._suspects: set[int] = set()
        self._differ: dict[int, tuple[Table, int, int]] = {}

    def mapped(self, binding: int, number: bytes, *, as_known: bool) -> None:
        """The log names a table by this number; ``as_known``: and its columns, which are those that were known."""
        before = self._numbers.get(binding)
        if before != number:
            self._numbers[binding] = number
            if before is not None or not as_known:
                self._suspects.add(binding)

    def suspect(self, binding: int) -> None:
        """The table is looked at even if its number stays the same."""
        self._suspects.add(binding)

    def replaced(self, binding: int) -> None:
        """The whole table is read again."""
        self._suspects.discard(binding)
        self._differ.pop(binding, None)

    def found(self, position: int, named: Callable[[int], bool]) -> list[BoundTable]:
        """The tables that were altered without a statement in the log. Raises SourceError."""
        for binding in sorted(self._suspects)[:_LOOKS]:
            self._suspects.discard(binding)
            table, bound = self._tables.table_now(binding), self._tables[binding]
            if table is not None and not (table.key == bound.table.key and bound.definitions.settled(table.columns)):
                self._differ[binding] = table, position, self._tables.end_of_log()
        found = []
        for binding, (table, since, end) in list(self._differ.items()):
            if position < end:
                continue
            del self._differ[binding]
            bound = self._tables[binding]
            if table.key != bound.table.key or bound.definitions.unexplained(
                table.columns,
                since,
                key=bound.key,
                of_values=bound.emitted if named(binding) else None,
                tinyint1_as_bool=bound.tinyint1_as_bool,
            ):
                found.append(bound)
        return found
