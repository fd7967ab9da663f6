"""What statements of the log do to captured tables: which are read again, followed to another name, or backfilled."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from captures.contract.log import LogBatch
from captures.contract.table_changes import Consequence
from captures.mysql.config import OnStatement
from captures.mysql.log.events import Query, client_collation
from captures.mysql.log.table_contract import Tables
from captures.mysql.rows.table_map import read_table_name
from captures.mysql.statements.actions import Action, Change
from captures.mysql.statements.changes import changes
from captures.mysql.statements.temporary import SessionId, TemporaryTables
from captures.mysql.statements.tokens import Name
from captures.mysql.tables.bindings import BoundTable
from captures.mysql.tables.logged_tables import LoggedTable, logged_table
from captures.mysql.tables.unlogged_alterations import UnloggedAlterations
from protocol.codec import encode
from protocol.errors import SourceError
from protocol.messages import SourcedSchema

logger = logging.getLogger(__name__)

_REMEMBERED = 10_000
"""TABLE_MAP events that are remembered."""


@dataclass(frozen=True, slots=True)
class StatementPlace:
    """Where a statement stands.

    Attributes:
        position: In the log, where it ends.
        text: File and offset, for people.
        session: That carried it out.
        uses_temporary_tables: The log marks it as one that may use some of its session.
        strict: It would have failed rather than to change a value that does not fit.
    """

    position: int
    text: str
    session: SessionId
    uses_temporary_tables: bool
    strict: bool


class LoggedTables:
    """The tables that TABLE_MAP events name, as long as no statement changes them.

    Args:
        tables: The captured tables.
        names_columns: TABLE_MAP events are expected to name the columns.
        mariadb: The server is MariaDB.
        on_statement: What is done where the log has a statement instead of rows.
    """

    def __init__(self, tables: Tables, *, names_columns: bool, mariadb: bool, on_statement: OnStatement) -> None:
        self._tables = tables
        self._on_statement = on_statement
        self._temporary = TemporaryTables(self._place)
        self._unlogged = UnloggedAlterations(tables)
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
            table = self._unknown(key, body, batch)
        if table is None and key in self._left_out:
            batch.passed.add(self._left_out[key])
        elif table is not None and not table.named:
            self._unlogged.mapped(table.binding, body[:6])
        return table

    def _unknown(self, key: bytes, body: bytes, batch: LogBatch) -> LoggedTable | None:
        """A table that no event named since it was altered."""
        if len(self._known) >= _REMEMBERED:
            self.forget()
        table = logged_table(body, self._tables, mariadb=self._mariadb)
        if table is not None and table.unfit is not None:
            self.set_aside(table.binding, table.unfit, batch)
            table = None
        self._known[key] = table
        if table is None and (left_out := self._tables.left_out(*read_table_name(body))) is not None:
            self._left_out[key] = left_out
        if table is not None:
            self._named[table.binding] = table.named
            if table.rekeyed:
                self._empty(table.binding, batch)
            if table.new_schema is not None:
                batch.lines.append(encode(SourcedSchema(binding=table.binding, document_schema=table.new_schema)))
                batch.changed.add(table.binding)
        return table

    def statement(self, query: Query, where: StatementPlace, batch: LogBatch) -> list[tuple[Name, int]]:
        """Follows a statement.

        Returns:
            Names and bindings of the captured tables that it emptied.
        """
        emptied = []
        renames = []
        unread = []
        gone: dict[int, SourceError] = {}
        position = where.position
        found = self._temporary.without(self._changes(query), where.session, uses_some=where.uses_temporary_tables)
        for change in found:
            if change.action in (Action.WRITTEN, Action.NAMED):
                unread.append(change.name)
                continue
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
                case Action.EMPTIED:
                    emptied.append((change.name, bound.binding))
                case Action.ALTERED:
                    self._altered(bound, change, where, batch)
                case Action.ENSURED if not self._may_be_new(bound, change.name[0], position):
                    pass
                case Action.CREATED | Action.ENSURED | Action.REFILLED:
                    self._replaced(bound, batch)
        self._renamed(renames, batch)
        self._unread(unread, where, batch)
        batch.away |= {binding: why for binding, why in gone.items() if binding in self._gone_tables}
        return emptied

    def sessions_ended(self) -> None:
        """The server was restarted: its sessions' temporary tables no longer exist."""
        self._temporary.forget()

    def _unread(self, names: Sequence[Name], where: StatementPlace, batch: LogBatch) -> None:
        """The log has a statement instead of rows: those of the tables that it names, or else of their databases."""
        found = self._captured(names) or self._captured(
            (schema, table) for schema in {schema for schema, _ in names} for table in self._tables.in_schema(schema)
        )
        for binding, name in found.items():
            if self._tables.bound(*name) is None:
                batch.passed.add(binding)
                continue
            error = SourceError(
                "TM-MY-045", f"{'.'.join(name)}: the log has a statement instead of rows at {where.text}"
            )
            if self._on_statement == "warn":
                logger.warning("%s", error.message, extra={"code": error.code, "remedy": error.remedy})
            else:
                self.set_aside(binding, error, batch)

    def _captured(self, names: Iterable[Name]) -> dict[int, Name]:
        """Those of the names that are tables of bindings."""
        return {place: name for name in names if isinstance(place := self._place(name), int)}

    def _place(self, name: Name) -> int | Name:
        """The binding of a name, or the name itself where it has none."""
        if (bound := self._tables.bound(*name)) is not None:
            return bound.binding
        left_out = self._tables.left_out(*name)
        return name if left_out is None else left_out

    def _changes(self, query: Query) -> Iterator[Change]:
        """What a statement changes; dropping a schema drops its tables."""
        for change in changes(self._text(query), query.schema):
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

    def _altered(self, bound: BoundTable, change: Change, where: StatementPlace, batch: LogBatch) -> None:
        """Columns or keys may be others, and values of which no event tells."""
        alteration, binding = change.alteration, bound.binding
        left = self._tables.left_columns(binding)
        reused = alteration.reused(left)
        left |= alteration.left()
        batch.noted |= bool(alteration.left())
        self.forget()
        self._unlogged.told(binding)
        now = bound
        if where.position > bound.as_of:
            fresh = self._read_again(bound, batch)
            if fresh is None:
                return
            now = fresh
            reused &= now.emitted
        elif (
            alteration.primary
            or (alteration.unique and not bound.by_primary_key)
            or ((alteration.of_columns or alteration.unique) and not self._named.get(binding, self._names_columns))
        ):
            # Rows before this statement were read by the columns, or told apart by the key, that the table had only
            # after it.
            self._empty(binding, batch)
        if self._mariadb:
            now.definitions.note_own_types(alteration, (*bound.defined, *bound.table.columns))
        converted = now.definitions.converted(
            alteration,
            where.position,
            now.defined,
            now.as_of,
            emitted=now.emitted,
            strict=where.strict,
            tinyint1_as_bool=now.tinyint1_as_bool,
        )
        if binding in batch.restarted or not (reused or converted):
            return
        batch.follow(binding, Consequence.READ_AGAIN)
        if reused:
            left.clear()
        names = ".".join(change.name), where.text, ", ".join(sorted({*reused, *converted}))
        if now.scan.reads:
            logger.info("%s was altered at %s: no event has the values of %s; its rows are read again", *names)
        else:
            logger.warning(
                "%s was altered at %s: no event has the values of %s. Rows captured before keep what they had until "
                "they change, since the table is captured from its log only (scan: none)",
                *names,
            )

    def doubted(self, position: int, batch: LogBatch) -> None:
        """Reads tables again that are not as the log says, now that all of it was read up to ``position``: it does not
        have what a session with ``sql_log_bin = 0`` did.
        """
        for bound in self._tables.doubted():
            self.forget()
            self._read_again(bound, batch)
        for bound in self._unlogged.found(position):
            # Rows of since then were read by the columns of before.
            self._replaced(bound, batch)

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
        """See ``captures.mysql.log.table_contract.Tables``."""
        return self._tables.without_prepared()

    def still_prepared(self) -> Collection[str]:
        """See ``captures.mysql.log.table_contract.Tables``."""
        return self._tables.still_prepared()

    def _read_again(self, bound: BoundTable, batch: LogBatch) -> BoundTable | None:
        """Takes the table as the catalog has it now; None where it cannot be captured so."""
        fresh = self._tables.refresh(bound.binding)
        if isinstance(fresh, SourceError):
            # What rows say from here on cannot be told: those of a system-versioned table have its history among them.
            self.set_aside(bound.binding, fresh, batch)
            return None
        # Not only with the next row: until then chunks would find a table that is not as they know it.
        fresh, schema = self._tables.adopt(bound.binding, fresh.table.columns)
        batch.changed.add(bound.binding)
        if fresh.identity != bound.identity:
            self._empty(bound.binding, batch)
        if schema is not None:
            batch.lines.append(encode(SourcedSchema(binding=bound.binding, document_schema=schema)))
        return fresh

    def _replaced(self, bound: BoundTable, batch: LogBatch) -> None:
        """Another table has the name now, or rows came and went without events."""
        self._gone_tables.discard(bound.binding)
        self._unlogged.told(bound.binding)
        self.forget()
        if (fresh := self._read_again(bound, batch)) is not None:
            fresh.definitions.begin(fresh.defined, fresh.as_of)
            self._empty(bound.binding, batch)

    def _empty(self, binding: int, batch: LogBatch) -> None:
        """What there is of a table downstream counts no more."""
        batch.follow(binding, Consequence.EMPTIED)
        self._tables.left_columns(binding).clear()

    def set_aside(self, binding: int, error: SourceError, batch: LogBatch) -> None:
        """Nothing of a binding can be captured from here on."""
        self._tables.leave_out(binding)
        self.forget()
        batch.set_aside[binding] = error

    def _renamed(self, renames: Iterable[Change], batch: LogBatch) -> None:
        """Follows tables through the names that they have within one statement.

        What takes a captured name is read as a whole, also where it was made as a copy: that it is one is in no log.
        """
        before: dict[Name, Name] = {}
        for rename in renames:
            before[rename.new_name] = before.pop(rename.name, rename.name)
        for name, was in before.items():
            bound = self._tables.bound(*name)
            if bound is not None and name != was:
                self._replaced(bound, batch)

    def forget(self) -> None:
        """Table definitions are read again."""
        self._known.clear()
        self._left_out.clear()
