"""The conditions that the rows of a table's partitions fulfil, by their definitions in the catalog.

The log names a partition and not what it is for. Its definition is known at a place of the log if the catalog was read
when the log ended before that place, since each statement after it that alters the table has it read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tidemark.captures.mysql.server.session import Session
from tidemark.captures.mysql.terms.columns import Column, Table, quoted_name

_PARTITIONS = """
    SELECT DISTINCT t.partition_name, t.partition_method, t.partition_expression, t.partition_description,
           t.partition_ordinal_position
    FROM information_schema.partitions t
    WHERE t.table_schema = %s AND t.table_name = %s AND t.partition_name IS NOT NULL
    ORDER BY t.partition_ordinal_position
"""

_COLUMN = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_SIGNED, _UNSIGNED = (rf"{sign}\d+|'[ -&(->@-\[\]-~]*'" for sign in ("-?", ""))
"""Values that the catalog shows as they are: it has negative numbers for the greatest ones of an unsigned column, and
question marks for characters that it cannot show."""


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partitions of a table whose rows have a condition.

    Attributes:
        conditions: By name, in SQL, for ``Range.where``.
        until: The log ended here after the catalog was read.
    """

    conditions: Mapping[str, str] = field(default_factory=dict)
    until: int = 0

    def condition(self, name: str, position: int) -> str:
        """The condition of a partition at a place of the log; empty if that is not known."""
        named = {known.lower(): condition for known, condition in self.conditions.items()}
        return named.get(name.lower(), "") if position > self.until else ""


def conditions(session: Session, table: Table) -> dict[str, str]:
    """The conditions of the partitions by range or list of one column. Raises pymysql.Error."""
    rows = session.rows(_PARTITIONS, *table.path)
    columns = {column.name.lower(): column for column in table.columns}
    match = _COLUMN.fullmatch(str(rows[0][2])) if rows else None
    column = columns.get((match[1] or match[2]).replace("``", "`").lower()) if match is not None else None
    if column is None:
        return {}
    bounds = [(str(name), str(bound)) for name, _, _, bound, _ in rows]
    match str(rows[0][1]).removesuffix(" COLUMNS"):
        case "RANGE":
            return dict(_of_ranges(column, bounds))
        case "LIST":
            return dict(_of_lists(column, bounds))
        case _:
            return {}


def _of_ranges(column: Column, bounds: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    name, value = quoted_name(column.name), re.compile(_UNSIGNED if column.unsigned else _SIGNED)
    for (_, begin), (partition, end) in pairwise([("", ""), *bounds]):
        limits = [f"{name} >= {begin}"] if begin else []
        limits += [f"{name} < {end}"] if end != "MAXVALUE" else []
        if all(bound in ("", "MAXVALUE") or value.fullmatch(bound) for bound in (begin, end)):
            condition = " AND ".join(limits) or "TRUE"
            yield partition, condition if begin else f"{condition} OR {name} IS NULL"


def _of_lists(column: Column, bounds: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    name, value = quoted_name(column.name), _UNSIGNED if column.unsigned else _SIGNED
    for partition, listed in bounds:
        if re.fullmatch(rf"(?:{value}|NULL)(?:,(?:{value}|NULL))*", listed):
            yield partition, f"{name} IN ({listed}){f' OR {name} IS NULL' if 'NULL' in listed else ''}"
