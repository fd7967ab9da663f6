"""Compares a source table with its copy, row by row, in a form in which equal values look equal.

PostgreSQL, through psycopg, gives a timestamp in the session's zone, JSON as objects and a UUID as an object; a lake
gives the same values in UTC, as JSON text and as text. ``canonical`` maps each value to one text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

Values = tuple[str | None, ...]
"""A row's values, or its key's, each in canonical form."""

Row = tuple[tuple[Any, ...], Values]
"""A key, as the database or the lake gives it, and the row in canonical form."""

_MOST_EXAMPLES = 10

_JSON_TYPES = frozenset({114, 3802})
"""Object identifiers of the types json and jsonb, from pg_type.dat."""


@dataclass(slots=True)
class Comparison:
    """What comparing two tables found.

    Attributes:
        rows: How many rows of the source were compared.
        differing: How many keys differ, or are on one side only.
        examples: The first of them, one sentence each: the key and which columns, never the values.
    """

    rows: int = 0
    differing: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return self.differing == 0

    def add(self, key: Sequence[Any], what: str) -> None:
        self.differing += 1
        if len(self.examples) < _MOST_EXAMPLES:
            self.examples.append(f"({', '.join(map(str, key))}) {what}")


def canonical(value: Any) -> str | None:
    """One text for one value, the same from the database's driver and from Arrow."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case datetime():
            moment = value if value.tzinfo is None else value.astimezone(UTC)
            return moment.isoformat(timespec="microseconds")
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case list() | tuple():
            return json.dumps([canonical(item) for item in value])
        case float():
            return repr(value)
    return str(value)


def canonical_json(text: str | bytes | None) -> str | None:
    """One text for all spellings of a JSON value: members sorted, no white space, numbers digit by digit."""
    if text is None:
        return None
    return json.dumps(
        json.loads(text, parse_float=Decimal), sort_keys=True, default=lambda number: {"number": f"{number:f}"}
    )


def source_rows(
    connection: psycopg.Connection[Any], table: str, columns: Sequence[str], key: Sequence[str]
) -> Iterator[Row]:
    """The rows of ``schema.table`` in key order, streamed, all from one snapshot."""
    from psycopg import sql
    from psycopg.types.json import set_json_loads

    with connection.transaction(), connection.cursor("tidemark_comparison") as cursor:
        set_json_loads(canonical_json, cursor)
        cursor.itersize = 10_000
        cursor.execute(
            sql.SQL("SELECT {} FROM {} ORDER BY {}").format(
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.Identifier(*table.split(".", 1)),
                sql.SQL(", ").join(map(sql.Identifier, key)),
            )
        )
        places = [list(columns).index(name) for name in key]
        for row in cursor:
            yield tuple(row[place] for place in places), tuple(map(canonical, row))


def json_columns(connection: psycopg.Connection[Any], table: str) -> frozenset[str]:
    """The columns of ``schema.table`` that hold JSON."""
    from psycopg import sql

    cursor = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(sql.Identifier(*table.split(".", 1))))
    return frozenset(column.name for column in cursor.description or () if column.type_code in _JSON_TYPES)


def compare(source: Iterable[Row], target: Iterable[Row], columns: Sequence[str]) -> Comparison:
    """Walks two tables side by side; both must come in ascending order of their keys, which are not null."""
    found = Comparison()
    left, right = iter(source), iter(target)
    ours, theirs = next(left, None), next(right, None)
    while ours is not None or theirs is not None:
        if theirs is None or (ours is not None and ours[0] < theirs[0]):
            assert ours is not None
            found.rows += 1
            found.add(ours[0], "is missing in the target")
            ours = next(left, None)
        elif ours is None or theirs[0] < ours[0]:
            found.add(theirs[0], "is not in the source")
            theirs = next(right, None)
        else:
            found.rows += 1
            if ours[1] != theirs[1]:
                pairs = zip(columns, ours[1], theirs[1], strict=True)
                found.add(ours[0], "differs in " + ", ".join(name for name, a, b in pairs if a != b))
            ours, theirs = next(left, None), next(right, None)
    return found
