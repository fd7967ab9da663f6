"""What statements of the log do to captured tables: which are read again, followed to another name, or backfilled."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from captures.interface import LogBatch
from captures.mysql import ddl
from captures.mysql.ddl import Action, Change
from captures.mysql.events import Query, client_collation
from captures.mysql.log_tables import BoundTable, Tables
from captures.mysql.logged_tables import LoggedTable, logged_table
from captures.mysql.table_map import read_table_name
from protocol.codec import encode
from protocol.errors import SourceError
from protocol.messages import SourcedSchema

_REMEMBERED = 10_000
"""TABLE_MAP events that are remembered."""

_COPIES = ("_{}_gho", "_{}_new", "__{}_new", "___{}_new")
"""What gh-ost and pt-online-schema-change call the copy of a table that takes its place at the end."""


class LoggedTables:
    """The tables that TABLE_MAP events name, as long as no statement changes them.

    Args:
        tables: The captured tables.
        names_columns: TABLE_MAP events are expected to name the columns.
        mariadb: The server is MariaDB.
    """

    def __init__(self, tables: Tables, *, names_columns: bool, mariadb: bool) -> None:
        self._tables = tables
        self._mariadb = mariadb
        self._names_columns = names_columns
        self._named: dict[int, bool] = {}
        self._known: dict[bytes, LoggedTable | None] = {}
        self._left_out: dict[bytes, int] = {}
        self._gone_tables: set[int] = set()
        self._gone_schemas: set[str] = set()

    def mapped(self, body: bytes, batch: LogBatch) -> LoggedTable | None:
        """The captured table that a TABLE_MAP event names; announces a new schema when its columns changed."""
        key = body[6:]  # the table's number changes whenever the server opens the table
        try:
            table = self._known[key]
        except KeyError:
            pass
        else:
            if table is None and key in self._left_out:
                batch.passed.add(self._left_out[key])
            return table
        if len(self._known) >= _REMEMBERED:
            self.forget()
        table = logged_table(body, self._tables, mariadb=self._mariadb)
        if table is not None and table.unfit is not None:
            self.set_aside(table.binding, table.unfit, batch)
            table = None
        self._known[key] = table
        if table is None and (left_out := self._tables.left_out(*read_table_name(body))) is not None:
            self._left_out[key] = left_out
            batch.passed.add(left_out)
        if table is not None:
            self._named[table.binding] = table.named
            if table.new_schema is not None:
                batch.lines.append(encode(SourcedSchema(binding=table.binding, document_schema=table.new_schema)))
                batch.changed.add(table.binding)
        return table

    def statement(self, query: Query, position: int, where: str, batch: LogBatch) -> list[tuple[ddl.Name, int]]:
        """Follows a statement that ends at ``position``.

        Args:
            where: File and offset, for errors.

        Returns:
            Names and bindings of the captured tables that it emptied.

        Raises:
            SourceError: ``TM-MY-045`` it changed rows of a captured table.
        """
        emptied = []
        renames = []
        gone: dict[int, SourceError] = {}
        for change in self._changes(query):
            for name in (change.name, change.new_name):
                if (left_out := self._tables.left_out(*name)) is not None:
                    batch.passed.add(left_out)
            bound = self._tables.bound(*change.name)
            if change.action is Action.RENAMED:
                renames.append(change)
            elif change.action is Action.DROPPED and not change.name[1]:
                self._gone_schemas.add(change.name[0].lower())
            if bound is None:
                continue
            match change.action:
                case Action.DROPPED | Action.RENAMED:
                    self._gone_tables.add(bound.binding)
                    if position > bound.as_of:  # Otherwise the catalog had it after that.
                        gone[bound.binding] = SourceError("TM-MY-007", f"{'.'.join(change.name)} was {change.action}")
                case Action.WRITTEN:
                    raise SourceError("TM-MY-045", f"{'.'.join(change.name)}: a statement instead of rows at {where}")
                case Action.EMPTIED:
                    emptied.append((change.name, bound.binding))
                case Action.ALTERED:
                    self._altered(bound, position, batch)
                case Action.ENSURED if not self._may_be_new(bound, change.name[0], position):
                    pass
                case Action.CREATED | Action.ENSURED | Action.REFILLED:
                    self._replaced(bound, batch)
        self._renamed(renames, position, batch)
        batch.away |= {binding: why for binding, why in gone.items() if binding in self._gone_tables}
        return emptied

    def _changes(self, query: Query) -> Iterator[Change]:
        """What a statement changes; dropping a schema drops its tables."""
        for change in ddl.changes(self._text(query), query.schema):
            yield change
            if change.action is Action.DROPPED and not change.name[1]:
                for table in self._tables.in_schema(change.name[0]):
                    yield Change(Action.DROPPED, (change.name[0], table))

    def _text(self, query: Query) -> bytes:
        """The statement in UTF-8: its tables' names may need more than ASCII."""
        number = None if query.text.isascii() else client_collation(query.variables)
        if number is None:
            return query.text
        try:
            recode = self._tables.recode(self._tables.charset_of(number)) or str
            return recode(query.text.decode("latin-1")).encode("latin-1")
        except (ValueError, LookupError):
            return query.text  # Bytes that are no text, perhaps in a string: the names are as good as they were.

    def _may_be_new(self, bound: BoundTable, schema: str, position: int) -> bool:
        """Whether a statement that creates the table only where it is not there may have done so."""
        # What was dropped before the capture stood here is not known while the log is behind the catalog.
        return position <= bound.as_of or bound.binding in self._gone_tables or schema.lower() in self._gone_schemas

    def _altered(self, bound: BoundTable, position: int, batch: LogBatch) -> None:
        self.forget()
        if position <= bound.as_of:
            if not self._named.get(bound.binding, self._names_columns):
                # Rows before this statement were read by the columns that the table had only after it.
                batch.restarted.add(bound.binding)
            return
        self._read_again(bound, batch)

    def doubted(self, batch: LogBatch) -> None:
        """Reads tables again whose chunks found other columns, now that all of the log was read: it does not have what
        a session with ``sql_log_bin = 0`` did.
        """
        for bound in self._tables.doubted():
            self.forget()
            self._read_again(bound, batch)

    def leaves_out(self, table: LoggedTable, gtid: str, position: int, xid: str, batch: LogBatch) -> bool:
        """Whether the snapshot in which a table without a key is read has what a transaction does to it.

        Where that cannot be told the table is read again.

        Args:
            gtid: The transaction's.
            position: In the log, where what it does counts.
            xid: Of the prepared transaction that it commits, empty for none.
        """
        left_out = self._tables.leaves_out(table.binding, gtid, position, xid)
        if left_out is None:
            batch.restarted.add(table.binding)
        return left_out is not False

    def end_of_log(self) -> int:
        """Where the server's log ends now. Raises SourceError."""
        return self._tables.end_of_log()

    def without_prepared(self) -> set[int]:
        """See ``captures.mysql.log_tables.Tables``."""
        return self._tables.without_prepared()

    def still_prepared(self) -> Collection[str]:
        """See ``captures.mysql.log_tables.Tables``."""
        return self._tables.still_prepared()

    def _read_again(self, bound: BoundTable, batch: LogBatch) -> None:
        fresh = self._tables.refresh(bound.binding)
        if isinstance(fresh, SourceError):
            # What rows say from here on cannot be told: those of a system-versioned table have its history among them.
            self.set_aside(bound.binding, fresh, batch)
        else:
            # Not only with the next row: until then chunks would find a table that is not as they know it.
            _, schema = self._tables.adopt(bound.binding, fresh.columns)
            batch.changed.add(bound.binding)
            if fresh.identity != bound.identity:
                batch.restarted.add(bound.binding)
            if schema is not None:
                batch.lines.append(encode(SourcedSchema(binding=bound.binding, document_schema=schema)))

    def _replaced(self, bound: BoundTable, batch: LogBatch) -> None:
        """Another table has the name now, or rows came and went without events."""
        self._gone_tables.discard(bound.binding)
        self.forget()
        fresh = self._tables.refresh(bound.binding)
        if isinstance(fresh, SourceError):
            self.set_aside(bound.binding, fresh, batch)
        else:
            batch.restarted.add(bound.binding)

    def set_aside(self, binding: int, error: SourceError, batch: LogBatch) -> None:
        """Nothing of a binding can be captured from here on."""
        self._tables.leave_out(binding)
        self.forget()
        batch.set_aside[binding] = error

    def _renamed(self, renames: Iterable[Change], position: int, batch: LogBatch) -> None:
        """Follows tables through the names that they have within one statement."""
        before: dict[ddl.Name, ddl.Name] = {}
        for rename in renames:
            before[rename.new_name] = before.pop(rename.name, rename.name)
        for name, was in before.items():
            bound = self._tables.bound(*name)
            if bound is None or name == was:
                continue
            self._gone_tables.discard(bound.binding)
            if was[0] == name[0] and was[1] in [copy.format(name[1]) for copy in _COPIES]:
                # The same rows, copied by an online schema change.
                self._altered(bound, position, batch)
            else:
                self._replaced(bound, batch)

    def forget(self) -> None:
        """What tables are is asked for anew."""
        self._known.clear()
        self._left_out.clear()
