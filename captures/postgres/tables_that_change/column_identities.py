"""Which columns a Relation message shows: it has their names and types, and not their numbers; and a table with them.

The message was written at some time after the table's fingerprint was taken, and before the catalog is read. Columns
are only ever added with greater numbers and dropped, so at that time the table had the fingerprint's columns, without
some that are gone by now, and with some of the later ones. Which ones, is told by how many the message has and by what
they are called. Where other columns can have looked the same, it is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import psycopg

from tidemark.captures.postgres.catalog.columns import Column, Table
from tidemark.captures.postgres.catalog.encodings import is_transcoded, stored_rows
from tidemark.captures.postgres.catalog.reading import read_types
from tidemark.captures.postgres.rows.log_decoder import Relation
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables.noted_table import NotedTable
from tidemark.captures.postgres.tables_that_change.column_fills import present

_COLUMNS = """
SELECT c.relnatts, a.attnum, a.attname, a.atttypid::bigint, a.atttypmod, a.attgenerated::text, a.xmin::text
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.oid = %s
ORDER BY a.attnum
"""

Shown = tuple[str, int, int]
"""A column as a Relation message has it: name, type, modifier."""

_ALIKE = (
    {16}, {17}, {20}, {21}, {23, 26}, {700}, {701}, {1700}, {1082}, {1083}, {1114, 1184}, {1186}, {1266}, {2950},
    {114}, {3802}, {869, 650}, {18, 19, 25, 142, 1042, 1043},
)  # fmt: skip
"""The server's own types. No ALTER makes one of another one outside of its set without writing all rows again."""

_FAMILIES = {oid: family for family, oids in enumerate(_ALIKE) for oid in oids}


class CatalogColumn(NamedTuple):
    """A column as the catalog, or a fingerprint, has it. ``written``: the transaction that wrote its row."""

    number: int
    name: str
    type: int
    typmod: int
    written: str

    @property
    def shown(self) -> Shown:
        return self.name, self.type, self.typmod


class CatalogColumns(NamedTuple):
    """The columns of a table.

    Attributes:
        present: Those that are not generated, in the log's order.
        generated: The others. From version 18 on a publication may have the log show them.
        attributes: How many it has or had.
    """

    present: tuple[CatalogColumn, ...]
    generated: tuple[CatalogColumn, ...]
    attributes: int


class Identities(NamedTuple):
    """The columns of a Relation message.

    Attributes:
        numbers: Parallel to its columns; 0 where the number is not known.
        sure: Of all columns that the table has by now, it is known which value of a row is theirs.
    """

    numbers: tuple[int, ...]
    sure: bool


def read_columns(session: psycopg.Connection, oid: int) -> CatalogColumns:
    """The columns that a table has now; none if it does not exist. Raises psycopg.Error."""
    rows = stored_rows(session, _COLUMNS, [oid])
    present, generated = (
        tuple(CatalogColumn._make((*row[1:5], row[6])) for row in rows if bool(row[5]) is wanted)
        for wanted in (False, True)
    )
    return CatalogColumns(present, generated, rows[0][0] if rows else 0)


def noted_columns(noted: NotedTable) -> list[CatalogColumn]:
    """The columns of a fingerprint that the log has, in its order."""
    return [
        CatalogColumn(int(number), each.name, each.type, each.typmod, each.written)
        for number, each in sorted(noted.columns.items(), key=lambda column: int(column[0]))
        if each.mark != "generated"
    ]


def identities(shown: Sequence[Shown], noted: NotedTable, now: CatalogColumns) -> Identities:
    """The identities of a Relation message's columns.

    Args:
        noted: The fingerprint as of which all captured rows are right.
        now: The table's columns, read after the message came.
    """
    computed = {column.shown: column.number for column in now.generated}
    if any(each in computed for each in shown):
        found = identities([each for each in shown if each not in computed], noted, now)
        rest = iter(found.numbers)
        return found._replace(numbers=tuple(computed.get(each) or next(rest) for each in shown))
    shown = list(shown)
    before, after = noted_columns(noted), now.present
    known = noted.attributes or 0
    untouched = set(before) & set(after)
    # A column that nobody touched has its name and its number in all messages.
    pinned = max((column.number for column in untouched), default=0)
    left = {column.number for column in after}
    dropped = [column for column in before if column.number not in left]
    added = [column for column in after if column.number > known]
    lost = now.attributes - known - len(added) - sum(column.number > known for column in now.generated)
    opened = len(left - {column.number for column in before}) > len(added)
    # Columns are added one after another: it may have had only the first ones that it has now.
    first = after[: max(len(shown), len(after) - len(added))]
    as_before, as_now = ([column.shown for column in columns] == shown for columns in (before, first))
    if not (dropped or lost or opened):
        if len(before) <= len(shown) <= len(after):
            return _first(shown, before, after)
    elif not (added or lost or opened):
        for columns in (before, after):
            if len(shown) == len(columns):
                return Identities(tuple(column.number for column in columns), sure=True)
    elif as_before != as_now:
        loose = [column for column in dropped if column.number > pinned]
        others = any(_alike(one.type, other.type) for one in loose for other in after if other.number > pinned)
        if as_before and not (loose and (lost or opened or others)):
            return Identities(tuple(column.number for column in before), sure=True)
        if as_now and not (lost or opened or others):
            return Identities(tuple(column.number for column in first), sure=True)
    by_name = {column.shown: column.number for column in untouched}
    numbers = tuple(by_name.get(each, 0) for each in shown)
    # Columns that are gone by now may stay unknown.
    return Identities(numbers, sure=bool(after) and (0 not in numbers or set(after) == untouched))


def _first(shown: Sequence[Shown], before: Sequence[CatalogColumn], after: Sequence[CatalogColumn]) -> Identities:
    """Nothing was dropped, and columns are added one after another. A constant is known of the present type only."""
    found = after[: len(shown)]
    new = found[len(before) :]
    same = all(column.type == each[1] for column, each in zip(new, shown[len(before) :], strict=True))
    return Identities(tuple(column.number for column in found), sure=same)


def _alike(one: int, other: int) -> bool:
    """Whether a column can have had both types without its rows having been written again."""
    families = _FAMILIES.get(one), _FAMILIES.get(other)
    return one == other or None in families or families[0] == families[1]


def as_logged(
    session: psycopg.Connection, config: EndpointConfig, binding: PostgresBinding, relation: Relation
) -> tuple[Table, bool]:
    """The table with a relation's columns, than which the catalog's may be newer or older; and whether all are known.

    Raises SourceError when the server cannot be asked.
    """
    logged = [(c.name, c.type_oid, c.typmod) for c in relation.columns]
    bound = [column for column in binding.table.columns if not column.generated]
    found = Identities(tuple(column.number for column in bound), sure=True)
    if binding.identified:
        with asking(f"reading the columns of {binding.name}"):
            found = identities(logged, binding.noted, read_columns(session, relation.oid))
    if logged == [_signature(column) for column in bound] and found.numbers == tuple(c.number for c in bound):
        return binding.table, found.sure
    with asking(f"reading the columns of {binding.name}"):
        # The binding's name counts, whatever the table was called when the log was written.
        fresh = present(session, config, binding)
        types = read_types(session, [c.type_oid for c in relation.columns])
    table = fresh if fresh is not None and fresh.oid == relation.oid else binding.table
    transcoded = is_transcoded(session)
    by_number = {column.number: column for column in table.columns if column.number}
    by_signature = {_signature(column): column for column in table.columns}
    columns = []
    for number, c in zip(found.numbers if binding.identified else [0] * len(logged), relation.columns, strict=True):
        signature = c.name, c.type_oid, c.typmod
        known = by_number.get(number) if binding.identified else by_signature.get(signature)
        if known is None or _signature(known) != signature:
            fill = known.fill if known is not None and known.type.oid == c.type_oid else ""
            of = replace(types[c.type_oid], typmod=c.typmod)
            known = Column(c.name, of, number=number, fill=fill, transcoded=transcoded)
        columns.append(known)
    return replace(table, columns=tuple(columns)), found.sure


def has_another_key(relation: Relation, binding: PostgresBinding) -> bool:
    """Whether the log identifies rows by other columns than the binding's key. A configured key is never another."""
    if binding.resource.key is not None:
        return False
    sent = {column.name for column in relation.columns if column.in_key}
    # DEFAULT sends the primary key. An index may have more columns than the key; FULL sends all columns.
    return sent != set(binding.key) if relation.identity == "d" else not set(binding.key) <= sent


def lacks_the_key(relation: Relation, binding: PostgresBinding) -> bool:
    """Whether old rows in the log have some columns, but not the key."""
    sent = {column.name for column in relation.columns if column.in_key}
    return bool(sent) and not set(binding.key) <= sent


def _signature(column: Column) -> tuple[str, int, int]:
    return column.name, column.type.oid, column.type.typmod
