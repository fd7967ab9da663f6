"""A bound table: its columns, its schema, its identity."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import ClassVar

import msgspec
import orjson

from tidemark.backfill.keys import Key
from tidemark.captures.contract.chunk_rows import ChunkHead
from tidemark.captures.contract.source import OpenedTable, ScanMethod
from tidemark.captures.mysql.server.session import Session
from tidemark.captures.mysql.tables.catalog import Partitions, await_statements, read_tables
from tidemark.captures.mysql.tables.conversions import Definitions
from tidemark.captures.mysql.tables.document_schema import document_schema
from tidemark.captures.mysql.terms.columns import Column, Table
from tidemark.captures.mysql.terms.config import ResourceConfig
from tidemark.captures.mysql.values.types import key_of
from tidemark.captures.rows.captured_line import chunk_head, deletion, without_columns
from tidemark.captures.tables.bad_values import Policy
from tidemark.captures.tables.table_binding import TableBinding, check_bound_once
from tidemark.protocol.errors import ProtocolError, SourceError
from tidemark.protocol.messages import Json, JsonObject

_BEYOND_BASIC_PLANE = re.compile("[\U00010000-\U0010ffff]")


def captured_columns(columns: Sequence[Column]) -> Iterator[Column]:
    """The columns that documents can have, including generated and invisible ones, which the log carries."""
    # A column that once had the name of our own member is still in older rows of the log.
    return (column for column in columns if not column.hidden and column.name != "_meta")


def bound_tables(session: Session, resources: Sequence[ResourceConfig]) -> list[Table | None]:
    """The table of each resource with all that the log has of it; None where there is none that can be captured.

    Raises as ``shown_tables``.
    """
    await_statements(session, [(resource.schema_name, resource.table) for resource in resources])
    return shown_tables(session, resources)


def shown_tables(session: Session, resources: Sequence[ResourceConfig]) -> list[Table | None]:
    """The tables of ``bound_tables``, with what the catalog shows already.

    Raises pymysql.Error, and SourceError ``TM-MY-023`` where a table is bound twice: the changes of the log would go to
    one of the bindings only.
    """
    names = [session.folded((resource.schema_name, resource.table)) for resource in resources]
    check_bound_once(names, "TM-MY-023")
    found = {session.folded(table.path): table for table in read_tables(session, names)}
    return [found.get(name) for name in names]


def absent(resource: ResourceConfig) -> Table:
    """A placeholder for the table of a resource that cannot be captured."""
    return Table(resource.schema_name, resource.table, (), (), "", False, "", False)


@dataclass(frozen=True, slots=True)
class BoundTable(TableBinding):
    """The table of a binding, as the catalog had it, or as the log has shown it since. Each change makes a new one.

    Attributes:
        table: Its columns are those of the log's rows, in their order.
        as_of: The catalog was read when the log ended here: a statement of the log before this position that alters
            the table was already part of what the catalog said.
        until: The log ended here after that: a statement between the two may be part of what the catalog said.
        defined: The columns as the catalog had them then.
        past: Columns that the table had before, by name.
        definitions: The columns as the statements of the log find them that are yet to be read.
        follows: ``table`` has the columns of the log at its position, statement by statement, although the catalog
            may have later ones.
        identities: What identifies the columns, by name; None where schemas do not say it.
        fills: The constants of the columns that the latest statement added, by name.
        partitions: Empty with ``on_partition_gone: reread``, where they do not matter.
        unfit: Why it cannot be captured. ``table`` has a name then, and nothing else.

    Raises:
        SourceError: ``TM-MY-023`` columns are to be hashed, and there is no salt.
    """

    wrong_config: ClassVar[str] = "TM-MY-023"

    binding: int
    state_key: str
    resource: ResourceConfig
    table: Table
    emit_truncate: bool
    tinyint1_as_bool: bool
    salt: bytes = field(default=b"", repr=False)
    on_bad_value: Policy = "stop"
    as_of: int = 0
    until: int = 0
    defined: tuple[Column, ...] = ()
    nullable: frozenset[str] = frozenset()
    past: Mapping[str, Column] = field(default_factory=dict)
    definitions: Definitions = field(default_factory=lambda: Definitions((), 0, captured=False), compare=False)
    announced: JsonObject | None = None
    follows: bool = False
    identities: Mapping[str, str] | None = None
    fills: Mapping[str, Json] = field(default_factory=dict)
    partitions: Partitions = field(default_factory=Partitions)
    unfit: SourceError | None = None

    def read(self, table: Table, as_of: int, until: int) -> BoundTable:
        """The table by the catalog, which was read while the log's end went from ``as_of`` to ``until``."""
        nullable = frozenset(column.name for column in table.columns if column.nullable)
        return replace(
            self._with(table),
            unfit=None,
            as_of=as_of,
            until=until,
            defined=table.columns,
            nullable=nullable,
            follows=False,
            fills={},
        )

    def resumed(self, layout: Layout) -> BoundTable:
        """The table where reading the log begins, by what the last session noted of its rows there."""
        now = self.table
        bound = self
        if layout.complete and set(self.key) <= {column.name for column in layout.columns}:
            bound = replace(
                self,
                table=_with_columns(now, layout.columns, frozenset()),
                as_of=layout.as_of,
                until=layout.until,
                defined=layout.columns,
                follows=layout.follows,
                definitions=Definitions(layout.columns, layout.until, captured=True),
            )
        present = {column.name for column in now.columns}
        bound.definitions.own |= {column.name: column for column in layout.past}
        known = (*layout.past, *layout.columns)
        return replace(bound, past={column.name: column for column in known if column.name not in present})

    def shown(self, columns: tuple[Column, ...]) -> BoundTable:
        """The table by the rows of the log, which have these columns from here on."""
        if columns == self.table.columns:
            return self
        return self._with(_with_columns(self.table, columns, self.nullable))

    def _with(self, table: Table) -> BoundTable:
        past = {**self.past, **{column.name: column for column in self.table.columns}}
        for column in table.columns:
            past.pop(column.name, None)
        return replace(self, table=table, past=past)

    def layout(self, position: int) -> Layout:
        """The state's description of its rows, for a log that was read to ``position``."""
        as_of, until = (each if each > position else 0 for each in (self.as_of, self.until))
        follows = self.follows and until > 0
        columns = self.table.columns if follows else self.defined
        past = (each for each in {**self.past, **self.definitions.own}.values() if each.log_says_less)
        return Layout(columns, True, as_of, until, tuple(past), follows)

    @property
    def captured(self) -> tuple[Column, ...]:
        """The columns that documents have."""
        return self._captured(captured_columns(self.table.columns))

    @property
    def followed(self) -> tuple[Column, ...]:
        """The columns before the next statement of the log, if that comes after ``until`` or ``follows`` is true."""
        return self.table.columns if self.follows else self.defined

    @property
    def emitted(self) -> frozenset[str]:
        """The names of ``captured``."""
        return frozenset(column.name for column in self.captured)

    @property
    def emitted_as_defined(self) -> frozenset[str]:
        """The names of the columns that documents have by ``defined``, of which the log may not have shown a row."""
        return frozenset(column.name for column in self._captured(captured_columns(self.defined)))

    def captures_alike(self, name: str, other: str) -> bool:
        """Whether documents have the values of columns of these two names, and in the same way."""
        resource = self.resource
        named = [name in resource.exclude or name == "_meta", name in resource.hash, self.policies.columns.get(name)]
        return named == [other in resource.exclude, other in resource.hash, self.policies.columns.get(other)]

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The columns of ``key``, whether or not documents have them."""
        columns = {column.name: column for column in self.table.columns}
        return tuple(columns[name] for name in self.key)

    @property
    def by_primary_key(self) -> bool:
        return self.table.key_index == "PRIMARY"

    @property
    def scan(self) -> ScanMethod:
        """A table with a key is not read in one transaction: the key may be newer than the configuration."""
        method = ScanMethod(self.resource.scan)
        return ScanMethod.KEY if method is ScanMethod.SNAPSHOT and self.key else method

    @property
    def name(self) -> str:
        return self.table.name_in_full

    @property
    def document_schema(self) -> JsonObject:
        return document_schema(
            self.table,
            self.captured,
            self.key,
            truncates=self.emit_truncate,
            tinyint1_as_bool=self.tinyint1_as_bool,
            identities=self.identities,
            fills=self.fills,
        )

    @property
    def identity(self) -> str:
        """The key, its types and its order. A scan cannot resume in another key, and the texts of keys, which identify
        rows downstream, depend on the types.

        The log shows when a table is dropped and created again: the server has no id that an ALTER TABLE keeps.
        """
        return self._key_text(lambda column: [column.name, column.type_text, _order(column)])

    @property
    def former_identity(self) -> str:
        """``identity`` of earlier versions, without the types."""
        return self._key_text(lambda column: [column.name, _order(column)])

    @property
    def whole_rows(self) -> str:
        return (
            "Run: SET GLOBAL binlog_row_image = 'FULL'; and, where the server is MySQL: SET GLOBAL "
            "binlog_row_value_options = ''; and let the applications connect again."
        )

    def _key_text(self, parts: Callable[[Column], list[str]]) -> str:
        return " ".join(part for column in self.key_columns for part in parts(column) if part)

    def opened(self) -> OpenedTable:
        """The table as the engine sees it."""
        return self._opened(self.binding)

    def truncation(self, cursor: str) -> bytes:
        """The captured line that empties the table downstream; nothing where the configuration ignores TRUNCATE."""
        return without_columns(self._head("t", cursor) + b'"}') if self.emit_truncate else b""

    def deletion(self, cursor: str, values: Sequence[Json]) -> bytes:
        """The captured line that deletes the row with these values of its key columns downstream."""
        return deletion(self._head("d", cursor) + b'"}', dict(zip(self.key, values, strict=True)))

    def key_of(self, values: Sequence[Json]) -> Key | None:
        """See ``values.key_texts.key_of``."""
        return key_of(self.key_columns, values)

    def chunk_head(self, cursor: str) -> ChunkHead:
        """The head of rows. ``cursor`` is the document's, up to the number of a row, or the digits in front of it."""
        return ChunkHead(self.binding, self._head("c", cursor), (orjson.dumps(cursor)[:-1].decode(), '"'))

    def _head(self, op: str, cursor: str) -> bytes:
        return chunk_head(self.binding, op, self.table.path, b'"cursor":%b' % orjson.dumps(cursor)[:-1])


def _with_columns(table: Table, columns: tuple[Column, ...], nullable: frozenset[str]) -> Table:
    """The table with the log's columns, and what only the catalog knows of those that it knows too. Those that are
    ``nullable`` may be NULL now, as chunks read them, whether or not they could be then.
    """
    known = {column.name: column for column in table.columns}
    merged = []
    for column in columns:
        if column.name in nullable and not column.nullable:
            column = replace(column, nullable=True)
        before = known.get(column.name)
        if before is not None and column == before:
            column = before
        elif before is not None:
            column = replace(column, collation=column.collation or before.collation, description=before.description)
        merged.append(column)
    return replace(table, columns=tuple(merged))


def _order(column: Column) -> str:
    """What orders a column's values, if it can change while the type stays the same."""
    if column.labels:
        # The catalog has a question mark where the log may have such a character.
        labels = tuple(_BEYOND_BASIC_PLANE.sub("?", label) for label in column.labels)
        return f"{zlib.crc32(repr(labels).encode()):08x}"
    return column.collation or ""


_NOT_KEPT = frozenset(("salt", "on_bad_value", "description"))
"""Fields from the configuration, and those that only the schemas of documents have."""

_DEFAULTS = {each.name: each.default for each in fields(Column) if each.name not in _NOT_KEPT}


class Layout(msgspec.Struct, frozen=True):
    """The columns of a table.

    Attributes:
        columns: All of them, in the order of the log's rows; or, of earlier versions, those of which the log says less
            than we know.
        complete: It is all of them.
        as_of: The catalog was read when the log ended here, and the log was not read to here; 0 when it was: the
            columns are those of the rows that come next.
        until: The same of where the log ended after that: the columns may be those after a statement between the two.
        past: Columns that the table had before, of which the log says less than we know.
        follows: The columns are those of the rows that come next, although the log was not read to ``as_of``.
    """

    columns: tuple[Column, ...]
    complete: bool = False
    as_of: int = 0
    until: int = 0
    past: tuple[Column, ...] = ()
    follows: bool = False

    def text(self) -> str:
        """For the state. Members but ``columns`` are left out that are empty."""
        members = msgspec.structs.asdict(self) | {name: [*map(_members, getattr(self, name))] for name in _OF_COLUMNS}
        return msgspec.json.encode({name: each for name, each in members.items() if each or name == "columns"}).decode()


_OF_COLUMNS = ("columns", "past")


def read_layout(text: str) -> Layout:
    """The inverse of ``Layout.text``. Raises ProtocolError ``TM-PRO-003``."""
    try:
        found = msgspec.json.decode(text, type=Layout)
    except msgspec.MsgspecError:
        raise ProtocolError("TM-PRO-003", "open.state: a layout of a table that this connector did not write") from None
    # Earlier versions had only the one position.
    return found if found.until else msgspec.structs.replace(found, until=found.as_of)


def _members(column: Column) -> dict[str, object]:
    """The fields that do not have their defaults."""
    found = {name: getattr(column, name) for name in _DEFAULTS}
    return {name: value for name, value in found.items() if _DEFAULTS[name] is MISSING or value != _DEFAULTS[name]}
