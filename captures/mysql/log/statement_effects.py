"""What statements of the log do to captured tables: which are read again, followed to another name, or backfilled."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tidemark.captures.contract.log import LogBatch
from tidemark.captures.contract.table_changes import Cause, Consequence, decided
from tidemark.captures.contract.table_events import ChangesPassed, RowsAffected, WentAway
from tidemark.captures.mysql.log.events import THREAD_SPECIFIC, Query, client_collation, sql_mode, used_databases
from tidemark.captures.mysql.log.logged_tables import LoggedTables
from tidemark.captures.mysql.statements.actions import UNREAD, WRITES, Action, Alteration, Change, TemporaryTables
from tidemark.captures.mysql.statements.changes import changes
from tidemark.captures.mysql.statements.tokens import Name, SqlMode
from tidemark.captures.mysql.tables import table_changes
from tidemark.captures.mysql.tables.bindings import BoundTable
from tidemark.captures.mysql.tables.followed_columns import resolved
from tidemark.captures.mysql.tables.prerequisites import versioned
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)


class _Place(NamedTuple):
    """Where a statement stands."""

    position: int
    text: str
    mode: SqlMode


class StatementEffects:
    """Applies the statements of the log to the captured tables."""

    def __init__(self, logged: LoggedTables, *, mariadb: bool) -> None:
        self._tables = logged.tables
        self._logged = logged
        self._config = logged.tables.config
        self._temporary = TemporaryTables(self._place)
        self._mariadb = mariadb
        self._gone_schemas: set[str] = set()

    def follow(
        self, query: Query, position: int, place: str, server_id: int, flags: int, batch: LogBatch
    ) -> list[tuple[Name, int]]:
        """Applies a statement to the captured tables. Returns names and bindings of those that it emptied.

        Args:
            position: In the log, where it ends; ``place`` is its file and offset, for people.
            server_id: Of the server that it is of, as ``flags`` from the header of its event.
        """
        emptied = []
        renames = []
        unread: list[Change] = []
        gone: dict[int, SourceError] = {}
        where = _Place(position, place, sql_mode(query.variables))
        session = server_id, query.session
        found = self._temporary.without(
            self._changes(query, where.mode), session, uses_some=bool(flags & THREAD_SPECIFIC)
        )
        for change in found:
            if change.action in UNREAD:
                unread.append(change)
            if change.action in (Action.WRITTEN, Action.NAMED):
                continue
            for name in (change.name, change.new_name):
                if (left_out := self._tables.left_out(*name)) is not None:
                    batch.tell(ChangesPassed(left_out))
            bound = self._tables.bound(*change.name)
            if change.action is Action.RENAMED:
                renames.append(change)
            elif change.action is Action.DROPPED and not change.name[1]:
                self._gone_schemas.add(change.name[0].lower())
            if bound is None:
                continue
            match change.action:
                case Action.DROPPED | Action.RENAMED:
                    self._logged.gone.add(bound.binding)
                    if position > bound.as_of:  # Otherwise the catalog had it after that.
                        gone[bound.binding] = SourceError("TM-MY-007", f"{'.'.join(change.name)} was {change.action}")
                case Action.EMPTIED | Action.CLEARED:
                    emptied.append((change.name, bound.binding))
                case Action.ALTERED:
                    self._altered(bound, change, where, batch)
                case Action.ENSURED if not self._may_be_new(bound, change.name[0], position):
                    pass
                case Action.CREATED | Action.ENSURED:
                    self._logged.replaced(bound, batch, table_changes.MADE_AGAIN.cause())
                case Action.PARTITION_GONE if self._config.on_partition_gone == "warn":
                    _warn_of_partitions(change, where)
                case Action.PARTITION_GONE:
                    self._logged.replaced(bound, batch, table_changes.PARTITION_REMOVED.cause(change.partitions))
                case Action.EXCHANGED if part := bound.partitions.condition(change.partitions[0], position):
                    _warn_of_partitions(change, where)
                    batch.tell(
                        RowsAffected(bound.binding, table_changes.PARTITION_EXCHANGED.cause(change.partitions, [part]))
                    )
                case Action.REFILLED | Action.EXCHANGED:
                    self._logged.replaced(bound, batch, _why_refilled(found, change))
                case Action.VERSIONED:
                    self._logged.set_aside(bound.binding, versioned(bound.table.path), batch)
        self._renamed(renames, batch)
        self._unread(unread, used_databases(query.variables), where, batch)
        batch.events += (WentAway(binding, why) for binding, why in gone.items() if binding in self._logged.gone)
        return emptied

    def sessions_ended(self) -> None:
        """The server was restarted: its sessions' temporary tables no longer exist."""
        self._temporary.forget()

    def _unread(
        self, changed: Sequence[Change], databases: Sequence[str] | None, where: _Place, batch: LogBatch
    ) -> None:
        """Sets aside the captured tables that a statement without rows may have changed, or warns of them.

        They are those that it names and, unless it writes to captured tables only, all of the databases that it uses:
        triggers, functions or views may write to them.

        Args:
            changed: What it writes to, or names; empty for other statements.
            databases: Those that it uses, None where the log does not say: then they are those that it names.
        """
        if not changed:
            return
        found = named = self._captured(change.name for change in changed if change.action is not Action.CLEARED)
        targets = [change.name for change in changed if change.action in WRITES]
        written = self._captured(targets)
        itself = bool(written) and all(isinstance(self._place(name), int) for name in targets)
        if databases is None:
            databases = [] if itself else list({schema for schema, _ in (change.name for change in changed)})
        for schema in databases:
            there = self._captured((schema, table) for table in self._tables.in_schema(schema))
            if not itself or there.keys().isdisjoint(named.keys() | written.keys()):
                found = found | there
        for binding, name in found.items():
            if self._tables.bound(*name) is None:
                batch.tell(ChangesPassed(binding))
                continue
            error = SourceError(
                "TM-MY-045", f"{'.'.join(name)}: the log has a statement instead of rows at {where.text}"
            )
            if self._config.on_statement == "warn":
                _warn(error)
            else:
                self._logged.set_aside(binding, error, batch)

    def _captured(self, names: Iterable[Name]) -> dict[int, Name]:
        """Those of the names that are tables of bindings."""
        return {place: name for name in names if isinstance(place := self._place(name), int)}

    def _place(self, name: Name) -> int | Name:
        """The binding of a name, or the name itself where it has none."""
        if (bound := self._tables.bound(*name)) is not None:
            return bound.binding
        left_out = self._tables.left_out(*name)
        return name if left_out is None else left_out

    def _changes(self, query: Query, mode: SqlMode) -> Iterator[Change]:
        """What a statement changes; dropping a schema drops its tables."""
        for change in changes(self._text(query), query.schema, mode, mariadb=self._mariadb):
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
            recode = self._tables.charsets.recode(self._tables.charsets.of_collation(number)) or str
            return recode(query.text.decode("latin-1")).encode("latin-1")
        except (ValueError, LookupError):
            return query.text  # Bytes that are no text, perhaps in a string: the names are as good as they were.

    def _may_be_new(self, bound: BoundTable, schema: str, position: int) -> bool:
        """Whether a statement that creates the table only where it is not there may have done so."""
        # What was dropped before the capture stood here is not known while the log is behind the catalog.
        return position <= bound.as_of or bound.binding in self._logged.gone or schema.lower() in self._gone_schemas

    def _altered(self, bound: BoundTable, change: Change, where: _Place, batch: LogBatch) -> None:
        """An ALTER TABLE: the key may be another, and columns may have values that no event has."""
        alteration, binding = change.alteration, bound.binding
        self._logged.altered(binding)
        marked = self._tables.identified and alteration.of_columns
        followed = self._followed(bound, alteration, where.position)
        reused = self._left(binding, alteration, batch) if followed is None else set()
        now = bound
        if followed is not None or bound.follows or where.position > bound.as_of:
            fresh = self._logged.read_again(bound, batch, followed, marked=marked)
            if fresh is None:
                return
            now = fresh
            if followed is not None and not now.follows:
                followed, reused = None, self._left(binding, alteration, batch)
                self._logged.mark(binding, batch)
            reused &= now.emitted
        else:
            # Rows before this statement were read by the columns, or told apart by the key, that the table had only
            # after it.
            if alteration.primary or (alteration.unique and not bound.by_primary_key):
                self._logged.empty(binding, batch, table_changes.KEY.cause())
            elif (alteration.of_columns or alteration.unique) and not self._logged.names_columns(binding):
                self._logged.empty(binding, batch, table_changes.UNKNOWN_ROWS.cause())
            if marked:
                self._logged.mark(binding, batch)
        if followed is not None:
            alteration = followed
            reused = {new for old, new in followed.renamed if not now.captures_alike(old, new)} & now.emitted
            if not (self._logged.names_columns(binding) or now.definitions.knows(followed, where.position)):
                # Rows before this statement were read by a later definition.
                self._logged.empty(binding, batch, table_changes.UNKNOWN_ROWS.cause())
        if self._mariadb:
            before = bound.followed if followed is not None else (*bound.defined, *bound.table.columns)
            now.definitions.note_own_types(alteration, before)
        filled = now.fills.keys() if followed is not None else ()
        key = {*bound.key, *now.key}
        converted = now.definitions.converted(
            alteration,
            where.position,
            now.defined,
            now.until,
            emitted=now.emitted | now.emitted_as_defined | key,
            key=key,
            mode=where.mode,
            tinyint1_as_bool=now.tinyint1_as_bool,
            filled=filled if self._tables.identified else None,
        )
        names_of_key = alteration.of_names() & {name.lower() for name in key}
        found = decided(
            keeps_values=not (reused or converted or names_of_key),
            of_key=bool(names_of_key) or not key.isdisjoint({*reused, *converted}),
        )
        columns = tuple(sorted({*reused, *converted, *names_of_key}))
        if found is Consequence.EMPTIED:
            self._logged.empty(binding, batch, table_changes.KEY_VALUES.cause(columns))
        if found is Consequence.NOTHING or batch.empties(binding):
            return
        batch.tell(RowsAffected(binding, table_changes.COLUMN_VALUES.cause(columns)))
        if reused:
            self._tables.rows_replaced(binding)
        names = ".".join(change.name), where.text, ", ".join(columns)
        if now.scan.reads:
            logger.info("%s was altered at %s: no event has the values of %s; its rows are read again", *names)
        else:
            logger.warning(
                "%s was altered at %s: no event has the values of %s. Rows captured before keep what they had until "
                "they change, since the table is captured from its log only (scan: none)",
                *names,
            )

    def _followed(self, bound: BoundTable, alteration: Alteration, position: int) -> Alteration | None:
        """The statement, if it is sure what became of which column: all events so far were read by the columns before
        it, all of it is understood, and the key stays. A table without a key has no rows downstream that get values.
        """
        exactly = bound.follows or position > bound.until
        other_key = alteration.primary or (alteration.unique and not bound.by_primary_key)
        if not self._tables.identified or not exactly or other_key or not bound.key:
            return None
        return resolved(alteration, bound.followed)

    def _left(self, binding: int, alteration: Alteration, batch: LogBatch) -> set[str]:
        """Notes names that are no longer those of a column, or of another one. Returns those under which rows that were
        captured before may have other columns' values.
        """
        identities = self._tables.identities(binding)
        reused = alteration.reused(identities.used)
        identities.end(alteration.left())
        batch.noted |= bool(alteration.left())
        return reused

    def _renamed(self, renames: Iterable[Change], batch: LogBatch) -> None:
        """Follows tables through all renames of one statement.

        A table that takes a captured name is emptied and read again. It may be a copy, but the log does not say so.
        """
        before: dict[Name, Name] = {}
        for rename in renames:
            before[rename.new_name] = before.pop(rename.name, rename.name)
        for name, was in before.items():
            bound = self._tables.bound(*name)
            if bound is not None and name != was:
                self._logged.replaced(bound, batch, table_changes.MADE_AGAIN.cause())


def _warn_of_partitions(change: Change, where: _Place) -> None:
    error = SourceError(
        "TM-MY-056",
        f"{'.'.join(change.name)}: {', '.join(change.partitions)} went at {where.text}, and their rows stay downstream",
    )
    _warn(error)


def _warn(error: SourceError) -> None:
    logger.warning("%s", error.message, extra={"code": error.code, "remedy": error.remedy})


def _why_refilled(found: Iterable[Change], change: Change) -> Cause:
    """Why a table may have lost or got rows: a clause of the statement is not known, or it is known to do so."""
    unknown = any(other.alteration.unknown for other in found if other.name == change.name)
    return (table_changes.NOT_UNDERSTOOD if unknown else table_changes.ROWS_WITHOUT_EVENTS).cause()
