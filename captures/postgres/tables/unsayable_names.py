"""Tables that cannot be captured because of a name that no statement and no document can contain.

A database whose encoding is not UTF-8 stores names with bytes that stand for no character. Texts for people show such a
byte as ``\\x81``, and so does the option ``exclude``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from tidemark.captures.postgres.catalog.columns import Column, ColumnType, Table
from tidemark.captures.postgres.catalog.encodings import Unsayable
from tidemark.captures.postgres.catalog.table_record import Store
from tidemark.protocol.errors import SourceError

CODE = "TM-PG-043"

_WHY = "has bytes that stand for no character in the database's encoding"


def unsayable_failures(table: Table, exclude: Collection[str], key: Sequence[str]) -> Iterator[SourceError]:
    """One error for each name of a column, attribute, key's type or partition that prevents the capture of a table."""
    for column in table.columns:
        if column.name not in exclude and not column.generated:
            yield from _of_column(table, column, in_key=column.name in key)
    for store in table.stores:
        yield from _of_store(table, store)


def _of_column(table: Table, column: Column, *, in_key: bool) -> Iterator[SourceError]:
    name = table.qualified_name
    if isinstance(column.name, Unsayable):
        leave_out = f"Or leave the column out: exclude: ['{_quoted(column.name)}']"
        remedy = f"{_rename_column(table, column)} {leave_out}".strip()
        yield SourceError(CODE, f"{name}: the name of column {column.name} {_WHY}", remedy=remedy)
    for owner, place, attribute in _attributes(column.type):
        what = f"the name of attribute {attribute} of type {owner.name}, which column {column.name} has,"
        remedy = f"{_rename_attribute(owner, place)} Or leave the column out by `exclude`."
        yield SourceError(CODE, f"{name}: {what} {_WHY}", remedy=remedy)
    if in_key and (of := _unsayable_type(column.type)) is not None:
        schema = _renaming("SCHEMA", f"(SELECT typnamespace::regnamespace FROM pg_type WHERE oid = {of.oid})")
        yield SourceError(
            CODE,
            f"{name}: the name of type {of.name} of the key column {column.name} {_WHY}",
            remedy=f"Run: {_renaming('TYPE', f'{of.oid}::regtype')} Or, if it is its schema's name, run: {schema}",
        )


def _of_store(table: Table, store: Store) -> Iterator[SourceError]:
    """The errors for a partition. Statements that read it by pages contain its name."""
    if isinstance(store.name, Unsayable):
        yield _of_relation(table, store.oid, "TABLE", f"partition {store.schema}.{store.name}")
    if isinstance(store.schema, Unsayable):
        yield _of_relation(table, store.oid, "SCHEMA", f"schema {store.schema}, which partition {store.name} is in,")


def unsayable_table(table: Table) -> SourceError | None:
    """The error for a table that no statement can name; None if its name and its schema's consist of characters."""
    if isinstance(table.schema, Unsayable):
        return _of_relation(table, table.oid, "SCHEMA", "the schema")
    return _of_relation(table, table.oid, "TABLE", "the table") if isinstance(table.name, Unsayable) else None


def _of_relation(table: Table, oid: int, kind: Literal["SCHEMA", "TABLE"], what: str) -> SourceError:
    """The error for the name of a relation, or of its schema."""
    schema = f"(SELECT relnamespace::regnamespace FROM pg_class WHERE oid = {oid})"
    remedy = f"Run: {_renaming(kind, schema if kind == 'SCHEMA' else f'{oid}::regclass')}"
    return SourceError(CODE, f"{table.qualified_name}: the name of {what} {_WHY}", remedy=remedy)


def _attributes(column_type: ColumnType) -> Iterator[tuple[ColumnType, int, str]]:
    """The unsayable attributes of the composite types in a type, and their places in these."""
    for place, field in enumerate(column_type.fields):
        if isinstance(field.name, Unsayable):
            yield column_type, place, field.name
        yield from _attributes(field.type)
    for inner in (column_type.base, column_type.element):
        if inner is not None:
            yield from _attributes(inner)


def _unsayable_type(column_type: ColumnType | None) -> ColumnType | None:
    while column_type is not None:
        if isinstance(column_type.name, Unsayable):
            return column_type
        column_type = column_type.base
    return None


def _rename_column(table: Table, column: Column) -> str:
    columns = table.record.columns if table.record is not None else ()
    number = next((each.number for each in columns if each.name == column.name), None)
    if number is None:
        return ""  # It was renamed meanwhile.
    name = f"(SELECT attname FROM pg_attribute WHERE attrelid = {table.oid} AND attnum = {number})"
    return f"Run: {_executing('ALTER TABLE %s RENAME COLUMN %I TO new_name', f'{table.oid}::regclass', name)}"


def _rename_attribute(owner: ColumnType, place: int) -> str:
    name = (
        "(SELECT attname FROM pg_attribute a JOIN pg_type t ON t.typrelid = a.attrelid"
        f" WHERE t.oid = {owner.oid} AND attnum > 0 AND NOT attisdropped ORDER BY attnum OFFSET {place} LIMIT 1)"
    )
    return f"Run: {_executing('ALTER TYPE %s RENAME ATTRIBUTE %I TO new_name', f'{owner.oid}::regtype', name)}"


def _renaming(kind: str, what: str) -> str:
    return _executing(f"ALTER {kind} %s RENAME TO new_name", what)


def _executing(statement: str, *names: str) -> str:
    """A statement that lets the server insert names which nobody can type."""
    return f"DO $$ BEGIN EXECUTE format('{statement}', {', '.join(names)}); END $$;"


def _quoted(name: str) -> str:
    return name.replace("'", "''")
