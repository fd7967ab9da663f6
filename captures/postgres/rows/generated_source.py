"""Generates decoders of the log's rows: functions for each version of a table, without decisions per value.

The source is built from the columns' places and types, and from the texts of a document. Every character of these texts
that has a meaning in source is escaped (see ``tidemark.captures.rows.source_literals``).

In a generated function ``v3`` is the text of the row's column 3, a byte text (see
``tidemark.captures.postgres.values.json_values``), or None for NULL, or ``UNCHANGED``; ``m3`` is its JSON with its
name, as a member of an object, with a comma in front.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final

from tidemark.captures.postgres.catalog.columns import Column
from tidemark.captures.postgres.values import json_values
from tidemark.captures.postgres.values.types import INLINE_NAMES, Conversion, EnumLabels, byte_text, column_conversion
from tidemark.captures.rows.source_literals import generated, literal, quoted
from tidemark.protocol.errors import SourceError


class _Unchanged:
    """The type of ``UNCHANGED``."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged()
"""A value that the log did not carry: an unchanged TOAST value."""

Value = str | _Unchanged | None

MISFITS = (ValueError, LookupError, struct.error)
"""What conversions and unpacking raise when a text is not as it must be. They may hold values: never chain them."""


class Member:
    """A column as a member of the document: its place in the row, and ``,"name":`` as a byte text, its label."""

    __slots__ = ("column", "conversion", "label", "place")

    def __init__(self, place: int, column: Column, *, in_key: bool, labels: EnumLabels | None = None) -> None:
        self.place = place
        self.column = column
        self.label = f",{json_values.string(byte_text(column.name))}:"
        self.conversion: Conversion = column_conversion(column, in_key=in_key, labels=labels)

    @property
    def members_line(self) -> str:
        """The statement that makes ``m`` from ``v``, whatever the text."""
        v, m = f"v{self.place}", f"m{self.place}"
        general = f'f"{literal(self.label)}{{convert{self.place}({v})}}"'
        inline = self.conversion.inline
        if inline is None:
            made = general
        else:
            mark = '"' if inline.quoted else ""
            made = f'f"{literal(self.label + mark)}{inline.value(v, 0)}{literal(mark)}"'
            if inline.unusual is not None:
                made = f"{general} if {inline.unusual(v, 0)} else {made}"
        made = f'"" if {v} is UNCHANGED else {made}'
        return f"{m} = {quoted(self.label + 'null')} if {v} is None else {made}"

    def spliced(self, variable: str, at: int) -> str:
        """The inside of an f-string that makes the JSON of the usual text in ``variable`` from ``at`` on."""
        inline = self.conversion.inline
        if inline is not None:
            return inline.value(variable, at)
        return f"{{convert{self.place}({variable}[{at}:])}}" if at else f"{{convert{self.place}({variable})}}"

    def unusual(self, variable: str, at: int) -> str | None:
        inline = self.conversion.inline
        return inline.unusual(variable, at) if inline is not None and inline.unusual is not None else None

    @property
    def mark(self) -> str:
        """The quote that stands around what ``spliced`` makes."""
        return '"' if self.conversion.inline is not None and self.conversion.inline.quoted else ""


def members_function(members: Sequence[Member], count: int) -> list[str]:
    """``members(v0, …)``: all members of a row, right for every text, NULL and UNCHANGED."""
    return [
        f"def members({', '.join(f'v{i}' for i in range(count))}):",
        *(f"    {m.members_line}" for m in members),
        f'    return f"{"".join(f"{{m{m.place}}}" for m in members)}"',
        "",
    ]


def spliced_members(
    members: Sequence[Member],
    variable: str,
    at: int,
    *,
    opening: str,
    closing: str,
    first: bool = False,
) -> list[str]:
    """The lines of an f-string: ``opening``, the members of usual texts, ``closing``.

    What stands between two values, quotes and name, is one text.

    Args:
        variable: The first letter of the variables that hold the texts.
        at: Where in them the texts begin.
        first: The members are the first of their object: no comma in front.
    """
    lines = []
    between = opening
    for i, m in enumerate(members):
        between += (m.label[1:] if first and i == 0 else m.label) + m.mark
        lines.append(f'f"{literal(between)}{m.spliced(f"{variable}{m.place}", at)}"')
        between = m.mark
    lines.append(f'f"{literal(between + closing)}"')
    return lines


def unusual(members: Iterable[Member], variable: str, at: int) -> list[str]:
    """Expressions. One of them is true if a row does not meet the conditions of ``spliced_members``."""
    found = (m.unusual(f"{variable}{m.place}", at) for m in members)
    return [expression for expression in found if expression is not None]


def key_expression(positions: Sequence[int], at: int) -> str:
    """The expression for the key of a row: the texts of the key columns, joined by NUL."""
    if not positions:
        return 'b""'
    start = f"[{at}:]" if at else ""
    if len(positions) == 1:
        return f'v{positions[0]}{start}.encode("latin-1")'
    return 'f"' + literal("\0").join(f"{{v{p}{start}}}" for p in positions) + '".encode("latin-1")'


def key_positions(names: Sequence[str], key: Sequence[str]) -> tuple[int, ...]:
    """The places of the key columns in a row. Raises ValueError if one is missing."""
    return tuple(names.index(name) for name in key)


def join_key(row: Sequence[Value], positions: Sequence[int]) -> bytes:
    """The key of any row. Raises ValueError when a part of it is NULL or unknown."""
    try:
        return "\0".join([row[position] for position in positions]).encode("latin-1")  # type: ignore[misc]
    except TypeError:  # NULL or UNCHANGED
        raise ValueError("a key column without a value") from None


def generate(
    what: str, lines: Sequence[str], members: Sequence[Member], namespace: dict[str, object]
) -> dict[str, Any]:
    """Compiles generated functions."""
    names = {
        **INLINE_NAMES,
        **{f"convert{m.place}": m.conversion.convert for m in members},
        "UNCHANGED": UNCHANGED,
        "MISFITS": MISFITS,
        **namespace,
    }
    return generated(what, lines, names)


class Misfit(SourceError):
    """A row does not match the known columns of its table."""


def null_key(table: str, columns: Iterable[str]) -> Misfit:
    """The error for a table whose rows have NULL in these columns of its key."""
    return Misfit(
        "TM-PG-022",
        f"{table}: the key column {', '.join(columns)} is NULL in some rows",
        remedy=(
            "The key identifies rows. Give these rows a value, and make the column NOT NULL. Or choose another `key` "
            "of unique columns that are never NULL."
        ),
    )


def misfit(table: str, row: Sequence[Value] | None, count: int, nulls: Iterable[str] = ()) -> Misfit:
    """The error for a row that could not be decoded, and has no bad value.

    Args:
        row: Its texts, None when it could not even be divided into columns.
        count: How many columns it should have.
        nulls: Names of the key columns that are NULL.
    """
    if names := list(nulls):
        return null_key(table, names)
    where = f"{table}: " if table else ""
    if row is None or len(row) != count:
        return Misfit("TM-PG-030", f"{where}a row does not have the {count} columns that the table has")
    return Misfit("TM-PG-030", f"{where}a row has a key column without a value")
