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


def _identity(column: Column, others: Sequence[TableSchema]) -> str:
    if column.id is not None:
        return column.id
    named = (other for schema in others for other in schema.columns if other.in_source == column.in_source)
    return next((other.id for other in named if other.id is not None), _by_name(column))


def _by_name(column: Column) -> str:
    return f"{BY_NAME}{column.in_source}"
