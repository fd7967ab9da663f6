"""A bound table with the columns of the log's rows. The catalog's columns may be newer or older."""

from __future__ import annotations

from dataclasses import replace

import psycopg

from tidemark.captures.postgres.catalog.columns import Column, Table
from tidemark.captures.postgres.catalog.encodings import is_transcoded
from tidemark.captures.postgres.catalog.reading import read_types
from tidemark.captures.postgres.rows.log_decoder import Relation
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.tables.bindings import PostgresBinding
from tidemark.captures.postgres.tables_that_change.column_identities import Identities, identities, read_columns
from tidemark.captures.postgres.tables_that_change.comparison import present


def as_logged(
    session: psycopg.Connection, config: EndpointConfig, binding: PostgresBinding, relation: Relation
) -> tuple[Table, bool]:
    """The table with the columns of a relation, and whether it is known which columns these are.

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
    if not binding.identified:
        latest = {_signature(column): column for column in table.columns}
        columns = [
            latest.get((c.name, c.type_oid, c.typmod))
            or Column(c.name, replace(types[c.type_oid], typmod=c.typmod), transcoded=transcoded)
            for c in relation.columns
        ]
        return replace(table, columns=tuple(columns)), True
    by_number = {column.number: column for column in table.columns if column.number}
    columns = []
    for number, c in zip(found.numbers, relation.columns, strict=True):
        known = by_number.get(number)
        if known is None or _signature(known) != (c.name, c.type_oid, c.typmod):
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
