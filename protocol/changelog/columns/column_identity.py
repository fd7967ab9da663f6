"""Which columns of a table's schemas are the same column, whatever they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidemark.protocol.changelog.models import Column, TableSchema

Identities = Mapping[str, str]
"""By a column's name in a schema: a text that is equal for the same column of all schemas of one generation."""


BY_NAME = "named "
"""What the identity of a column begins with that only its name tells from others."""


def identities(schemas: Sequence[TableSchema]) -> list[Identities]:
    """For each schema of a generation, which columns it has.

    A column without an id is the one that has its name in the nearest later schema, or else in the nearest earlier one:
    a connector may begin to state ids, and may not know some for a while.

    Args:
        schemas: From the oldest to the newest.
    """
    if not any(column.id for schema in schemas for column in schema.columns):
        return [{column.name: _by_name(column) for column in schema.columns} for schema in schemas]
    return [
        {
            column.name: _identity(column, [*schemas[place + 1 :], *reversed(schemas[:place])])
            for column in schema.columns
        }
        for place, schema in enumerate(schemas)
    ]


def go_on(before: Sequence[TableSchema], after: Sequence[TableSchema]) -> bool:
    """Whether ids mean the same columns in a generation as in the one before it.

    A table that was dropped and created again can have the ids of its columns for others. So each column that is there
    when the generation begins must have the name and the id that it had before, and no id may come again that had gone.

    Args:
        before: The schemas of the earlier generation, from the oldest to the newest.
        after: Those of the later one.
    """
    last, first = _names(before[-1]), _names(after[0])
    gone = {id for schema in before for id in _names(schema)} - last.keys()
    if any(id in gone for schema in after for id in _names(schema)):
        return False
    old, new = ({name: id for id, name in names.items()} for names in (last, first))
    return all(first.get(id, name) == name for id, name in last.items()) and all(
        new.get(name, id) == id for name, id in old.items()
    )


def _names(schema: TableSchema) -> dict[str, str]:
    """By id, what the source calls the columns that have one."""
    return {column.id: column.in_source for column in schema.columns if column.id is not None}


def _identity(column: Column, others: Sequence[TableSchema]) -> str:
    if column.id is not None:
        return column.id
    named = (other for schema in others for other in schema.columns if other.in_source == column.in_source)
    return next((other.id for other in named if other.id is not None), _by_name(column))


def _by_name(column: Column) -> str:
    return f"{BY_NAME}{column.in_source}"
