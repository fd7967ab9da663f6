"""The tables of an open capture as they are bound now, for the log and for chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from tidemark.captures.contract.source import Regained
from tidemark.captures.mysql.server.replication import end_of_log, may_see_prepared, prepared_xids
from tidemark.captures.mysql.server.session import Session, asking
from tidemark.captures.mysql.statements.actions import Alteration
from tidemark.captures.mysql.tables.bindings import BoundTable, Layout, absent, bound_tables, read_layout
from tidemark.captures.mysql.tables.catalog import Partitions, conditions
from tidemark.captures.mysql.tables.constants import constants
from tidemark.captures.mysql.tables.conversions import Definitions
from tidemark.captures.mysql.tables.followed_columns import followed, same_names
from tidemark.captures.mysql.tables.noted_tables import ColumnIdentities, NotedTables
from tidemark.captures.mysql.tables.prerequisites import definition_failures, seen_readable
from tidemark.captures.mysql.terms.columns import Column, Table
from tidemark.captures.mysql.terms.config import EndpointConfig, ResourceConfig
from tidemark.captures.mysql.values.charsets import Charsets
from tidemark.captures.tables.altered_tables import AlteredTables
from tidemark.captures.tables.opened_tables import OpenedTables
from tidemark.captures.tables.table_binding import check_any_fit
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding, Json, JsonObject


class TableLog(Protocol):
    """The log, as the tables know it."""

    def leave_out(self, binding: int) -> None:
        """Passes over the rows of a binding from here on."""

    def take_up(self, binding: int) -> None:
        """The end of ``leave_out``, between transactions."""


class CapturedTables:
    """Knows the captured tables, for the engine and for the log's thread.

    Names are compared as the server compares them (``lower_case_table_names``).

    Args:
        layouts: What ``layout`` said of tables in an earlier session, by their state keys.

    Raises:
        SourceError: None of the bound tables can be captured.
        pymysql.Error: The server refuses.
    """

    def __init__(
        self,
        config: EndpointConfig,
        session: Callable[[], Session],
        bindings: Sequence[Binding],
        resources: Sequence[ResourceConfig],
        layouts: Mapping[str, str],
    ) -> None:
        self.config = config
        self._ask = session
        self._as_of = end_of_log(self._session)
        self._bindings = self._bound(bindings, resources, layouts)
        self._by_name = {self._session.folded(b.table.path): b.binding for b in self._bindings}
        self._doubted = AlteredTables()
        self._layouts: dict[int, tuple[Layout, str]] = {}
        for bound in self._bindings:
            text = layouts.get(bound.state_key)
            if bound.unfit is None and text:
                resumed = self._bindings[bound.binding] = bound.resumed(read_layout(text))
                if resumed.table.columns != bound.table.columns:
                    self._doubted.add(bound.binding, self._until)
        self.charsets = Charsets(session)
        self._following: set[int] = set()
        self._left_out = {bound.binding for bound in self._bindings if bound.unfit is not None}
        self._returning: dict[int, tuple[tuple[object, ...], int]] = {}
        self._log: TableLog | None = None
        self.noted = NotedTables(self._bindings, identified=config.identifies_columns)
        self._bindings[:] = map(self._identified, self._bindings)
        self.opened = OpenedTables(bound.opened() for bound in self._bindings)
        for bound in list(self._bindings):
            self._announce(bound.binding)

    def _bound(
        self, bindings: Sequence[Binding], resources: Sequence[ResourceConfig], layouts: Mapping[str, str]
    ) -> list[BoundTable]:
        """The tables by the catalog. Raises SourceError where none of them can be captured."""
        bound = []
        tables = bound_tables(self._session, resources)
        seen = seen_readable(self._session, [table for table in tables if table is not None])
        parts = [self._conditions(table) for table in tables]
        self._until = end_of_log(self._session)
        for index, (binding, resource, table) in enumerate(zip(bindings, resources, tables, strict=True)):
            unfit = next(definition_failures(self._session, self.config, resource, table, seen), None)
            there = table if table is not None and unfit is None else absent(resource)
            captured = binding.state_key in layouts
            one = BoundTable(
                index,
                binding.state_key,
                resource,
                there,
                emit_truncate=self.config.truncation is Truncation.EMIT,
                tinyint1_as_bool=self.config.tinyint1_as_bool,
                salt=self.config.hash_salt.get_secret_value().encode(),
                on_bad_value=self.config.on_bad_value,
                definitions=Definitions(there.columns, self._until, captured=captured),
                partitions=Partitions(parts[index], self._until),
            )
            bound.append(replace(one.read(there, self._as_of, self._until), unfit=unfit))
        check_any_fit(bound)
        return bound

    @property
    def _session(self) -> Session:
        return self._ask()

    def __getitem__(self, binding: int) -> BoundTable:
        return self._bindings[binding]

    def follow(self, log: TableLog) -> None:
        """Sets the log that shows the tables."""
        self._log = log

    def restore(self, identity: JsonObject | None) -> None:
        """Restores what ``noted`` said in the last session."""
        otherwise = self.noted.restore(identity)
        for bound in map(self._identified, self._bindings):
            self._bindings[bound.binding] = bound
            self.opened.put(replace(bound.opened(), captured_otherwise=bound.binding in otherwise))
            self._announce(bound.binding)
            if bound.follows:
                self._following.add(bound.binding)

    def on_another_server(self) -> None:
        """Positions in another server's log mean nothing here."""
        for bound in list(self._bindings):
            as_of, until = bound.as_of and self._as_of, bound.until and self._until
            self._bindings[bound.binding] = replace(bound, as_of=as_of, until=until)
            bound.definitions.on_another_server(self._until)

    def read_all(self) -> None:
        """Reads the catalog: the last session knew the tables at a position that the log no longer has."""
        for bound in list(self._bindings):
            if bound.unfit is None and bound.binding not in self._left_out:
                fresh = self.refresh(bound.binding)
                if not isinstance(fresh, SourceError):
                    fresh.definitions.begin(fresh.defined, fresh.until)

    def layout(self, binding: int, position: int) -> str:
        """See ``tidemark.captures.contract.capabilities.RemembersLayouts``."""
        now = self._bindings[binding].layout(position)
        before, text = self._layouts.get(binding, (None, ""))
        if before is None or before.columns is not now.columns or before != now:
            text = now.text()
            self._layouts[binding] = now, text
        return text

    def _announce(self, binding: int) -> None:
        """Notes the schema that the engine has announced."""
        bound = self._bindings[binding]
        if bound.unfit is None:
            self._bindings[binding] = replace(bound, announced=self.opened[binding].document_schema)

    # Tables that are set aside.

    def leave_out(self, binding: int) -> None:
        """Captures nothing more of this binding from here on."""
        self._left_out.add(binding)
        if self._log is not None:
            self._log.leave_out(binding)

    def found_altered(self, binding: int) -> None:
        """See ``tidemark.captures.contract.source.Source``, also for the methods below."""
        self._doubted.add(binding)

    def unfit(self, binding: int) -> SourceError | None:
        found = self._present(self._bindings[binding])
        return found if isinstance(found, SourceError) else None

    def regain(self, binding: int, position: int) -> Regained | SourceError | None:
        bound = self._bindings[binding]
        as_of = self.end_of_log()
        table = self._present(bound)
        if isinstance(table, SourceError):
            self._returning.pop(binding, None)
            return table
        shape = table.columns, table.key, table.engine
        before, end = self._returning.get(binding, (None, 0))
        if before != shape:
            self._returning[binding] = shape, as_of
            return None
        if position < end:
            return None
        # The log's events of it up to here were passed over; every later statement is followed.
        del self._returning[binding]
        self._left_out.discard(binding)
        self._bind(binding, table, as_of).definitions.begin(table.columns, as_of)
        self._announce(binding)
        if self._log is not None:
            self._log.take_up(binding)
        return Regained(self.opened[binding], same=True)

    # Tables, as the log shows them. Each method may raise SourceError when it asks the server.

    def bound(self, schema: str, table: str) -> BoundTable | None:
        """The captured table of this name, without asking the server; None when no binding captures it."""
        binding = self._by_name.get(self._session.folded((schema, table)))
        return None if binding is None or binding in self._left_out else self._bindings[binding]

    def captures(self, binding: int) -> bool:
        """Whether a binding is captured, and not left out."""
        return binding not in self._left_out

    def left_out(self, schema: str, table: str) -> int | None:
        """The binding of this name that is left out; None where there is none, or it is captured."""
        binding = self._by_name.get(self._session.folded((schema, table)))
        return binding if binding in self._left_out else None

    def in_schema(self, schema: str) -> list[str]:
        """The names of all tables of a schema that are bound."""
        wanted = self._session.folded((schema, ""))[0]
        return [table for name, table in self._by_name if name == wanted]

    def refresh(self, binding: int, filled: Collection[str] = ()) -> BoundTable | SourceError:
        """Reads the catalog again; ``filled`` names the columns of ``BoundTable.fills``. An error if the table cannot
        be captured.
        """
        bound = self._bindings[binding]
        with asking(f"reading the columns of {bound.name}"):
            as_of = end_of_log(self._session)
        table = self._present(bound)
        if isinstance(table, SourceError):
            return table
        with asking(f"reading the defaults of {bound.name}"):
            fills = constants(self._session, bound.read(table, as_of, as_of), filled) if filled else {}
        return self._bind(binding, table, as_of, fills)

    def apply(self, binding: int, alteration: Alteration) -> BoundTable | SourceError:
        """Applies a statement to the columns, which are those before it: the catalog may have later ones, too. As
        ``refresh``; where the catalog no longer tells what the statement did, the columns are the catalog's, and
        ``follows`` is false.
        """
        columns = self._bindings[binding].followed
        fresh = self.refresh(binding, {*alteration.added} & {*alteration.revalued})
        if isinstance(fresh, SourceError):
            return fresh
        after = followed(columns, alteration, fresh.table.columns)
        if after is None or not set(fresh.key) <= {column.name for column in after}:
            fresh = self._bindings[binding] = replace(fresh, fills={})
            return fresh
        self.noted.columns[binding].follow(alteration)
        self._following.add(binding)
        bound = self._bindings[binding] = replace(fresh.shown(after), follows=True)
        return bound

    def misled(self, position: int) -> list[BoundTable]:
        """Those that were followed to where the catalog was read, and do not have its columns there."""
        found = []
        for binding in list(self._following):
            bound = self._bindings[binding]
            if bound.follows and position < bound.until:
                continue
            self._following.discard(binding)
            if bound.follows and binding not in self._left_out:
                self._bindings[binding] = replace(bound, follows=False)
                if not same_names(bound.table.columns, bound.defined):
                    found.append(self._bindings[binding])
        return found

    @property
    def identified(self) -> bool:
        """Whether schemas say the identities of columns."""
        return self.config.identifies_columns

    def identities(self, binding: int) -> ColumnIdentities:
        """Those of a table's columns. Kept with the state: to be changed."""
        return self.noted.columns[binding]

    def rows_replaced(self, binding: int) -> None:
        """All rows of a table are read again, so no row downstream has values of earlier columns.

        Where that may wait, and be dropped, some may have them.
        """
        if not self.config.asks:
            self.noted.replaced(binding)

    def _identified(self, bound: BoundTable) -> BoundTable:
        """The table with the identities of its columns, where schemas say them."""
        if not self.config.identifies_columns or bound.unfit is not None:
            return bound
        names = [column.name for column in bound.table.columns if not column.hidden]
        return replace(bound, identities=self.noted.columns[bound.binding].identified(names))

    def _present(self, bound: BoundTable) -> Table | SourceError:
        """The table as it is now, or why it cannot be captured."""
        with asking(f"reading the columns of {bound.name}"):
            table = bound_tables(self._session, [bound.resource])[0]
            for failure in definition_failures(self._session, self.config, bound.resource, table):
                return failure
        assert table is not None
        return table

    def _bind(self, binding: int, table: Table, as_of: int, fills: Mapping[str, Json] | None = None) -> BoundTable:
        """Binds it to the table. The schema is announced later, when the log shows rows with these columns."""
        with asking(f"reading the partitions of {table.name_in_full}"):
            parts = self._conditions(table)
        until = self.end_of_log()
        read = self._identified(self._bindings[binding].read(table, as_of, until))
        bound = self._bindings[binding] = replace(read, fills=fills or {}, partitions=Partitions(parts, until))
        self._doubted.forget(binding)
        self.opened.put(bound.opened())
        return bound

    def _conditions(self, table: Table | None) -> Mapping[str, str]:
        """Those of its partitions, where they matter. Raises pymysql.Error."""
        if table is None or self.config.on_partition_gone != "warn":
            return {}
        return conditions(self._session, table)

    def table_now(self, binding: int) -> Table | None:
        """The table as the catalog has it; None where it is gone, or left out."""
        bound = self._bindings[binding]
        if binding in self._left_out:
            return None
        with asking(f"reading the columns of {bound.name}"):
            (table,) = bound_tables(self._session, [bound.resource])
        return table

    def doubted(self, position: int) -> list[BoundTable]:
        """Those in which chunks found other columns, and of which the log told nothing up to its end, ``position``."""
        due = sorted(self._doubted.due(position, self.end_of_log))
        return [self._bindings[binding] for binding in due if binding not in self._left_out]

    def end_of_log(self) -> int:
        """Where the server's log ends now."""
        with asking("asking for the end of the log"):
            return end_of_log(self._session)

    def without_prepared(self) -> set[int]:
        """The bindings that may lack the rows of an XA transaction that was prepared before the capture began.

        None do where the user may see such transactions: tables are not read before they are over.
        """
        with asking("looking for prepared transactions"):
            seen = may_see_prepared(self._session)
        return set() if seen else {bound.binding for bound in self._bindings if bound.scan.reads}

    def adopt(self, binding: int, columns: tuple[Column, ...]) -> tuple[BoundTable, JsonObject | None]:
        """The log's rows have these columns from here on."""
        bound = self._bindings[binding] = self._identified(self._bindings[binding].shown(columns))
        announced = bound.announced
        self.opened.put(bound.opened())
        self._announce(binding)
        bound = self._bindings[binding]
        return bound, bound.announced if bound.announced != announced else None

    def still_prepared(self) -> frozenset[str]:
        """The xids of XA transactions that are prepared, or whose commit is not over."""
        with asking("looking for prepared transactions"):
            return prepared_xids(self._session)
