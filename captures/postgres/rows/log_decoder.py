"""Decodes row messages of pgoutput (PostgreSQL docs, "Logical Replication Message Formats") into captured lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from tidemark.captures.postgres.catalog.columns import Column
from tidemark.captures.postgres.rows.exact_log_decoder import (
    MARKER,
    NEW,
    OLD_ROW,
    SEPARATOR,
    SHORT,
    ExactDecoder,
    Touched,
)
from tidemark.captures.postgres.rows.generated_source import (
    Member,
    generate,
    key_expression,
    key_positions,
    members_function,
    spliced_members,
    unusual,
)
from tidemark.captures.postgres.rows.log_columns import LogColumns
from tidemark.captures.postgres.values.types import EnumLabels
from tidemark.captures.rows.captured_line import END, opening
from tidemark.captures.rows.source_literals import literal, quoted
from tidemark.captures.tables.bad_values import BadCounts
from tidemark.protocol.errors import SourceError

Decode = Callable[[bytes, bytes], bytes]
"""A whole message and the JSON of ``_meta.source`` to captured lines."""

DecodeTracked = Callable[[bytes, bytes], tuple[bytes, bytes]]
"""The same, with the key of the row."""

DecodeUpdateTracked = Callable[[bytes, bytes], tuple[bytes, Touched]]
"""The same, with the keys."""


class RelationColumn(NamedTuple):
    """A column as a Relation message gives it. ``in_key``: it is a part of the replica identity."""

    name: str
    type_oid: int
    typmod: int
    in_key: bool


class Relation(NamedTuple):
    """A table as the rows that follow have it. ``identity`` is pg_class.relreplident."""

    oid: int
    schema: str
    table: str
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class LogDecoder:
    """Generated functions, one per kind of message. All raise BadValues, and SourceError ``TM-PG-030``.

    An update that changes the key gives two lines: ``d`` of the old key and ``c`` of the new one. ``bad`` counts the
    bad values that the policies of their columns let through; ``apart`` has key and ``kept_apart`` of each
    ``RowPartlyKnown``. ``columns`` decodes many messages into columns; None for a table that has no form in columns.
    """

    insert: Decode
    update: Decode
    delete: Decode
    insert_tracked: DecodeTracked
    update_tracked: DecodeUpdateTracked
    delete_tracked: DecodeTracked
    bad: BadCounts
    apart: list[tuple[bytes, bool]]
    columns: LogColumns | None


def compile_log_decoder(
    binding: int,
    columns: Sequence[Column | None],
    relation: Sequence[RelationColumn],
    key: Sequence[str],
    *,
    table: str = "",
    quoted_table: str = "",
    labels: EnumLabels | None = None,
) -> LogDecoder:
    """Generates the decoder of a relation's row messages.

    Args:
        columns: Parallel to ``relation``; None for a column that documents do not have.
        quoted_table: The table's name in SQL.

    Raises:
        SourceError: ``TM-PG-030`` columns and relation differ in type, ``TM-PG-032`` updates and deletes would not
            carry the key.
    """
    where = f"{table}: " if table else ""
    for column, logged in zip(columns, relation, strict=True):
        if column is not None and column.type.oid != logged.type_oid:
            raise SourceError("TM-PG-030", f"{where}column {column.name} has another type in the log")
    names = [column.name if column is not None else "" for column in columns]
    positions = key_positions(names, key)
    identity = [place for place, logged in enumerate(relation) if logged.in_key]
    if identity and (lacking := [names[p] for p in positions if p not in identity]):
        raise SourceError("TM-PG-032", f"{where}the replica identity lacks the key column {', '.join(lacking)}")
    members = [
        Member(place, column, in_key=column.name in key, labels=labels)
        for place, column in enumerate(columns)
        if column is not None
    ]
    count = len(columns)
    lines = members_function(members, count)
    writer = _FunctionWriter(binding, members, positions, count)
    whole_rows = len(identity) == count > 0
    for kind, op in (("insert", "c"), ("update", "u"), ("delete", "d")):
        for tracked in (False, True):
            lines += writer.function(kind, op, tracked=tracked, old_rows=whole_rows and kind == "update")
    exact = ExactDecoder(binding, members, identity, positions, count, table, quoted_table)
    columns_of = LogColumns.of(exact, members, positions, count)
    names_of = {"exact": exact.decode, "bad": exact.bad, "apart": exact.apart, "columns": columns_of}
    functions = generate("log decoder", lines, members, names_of)
    exact.members = functions["members"]
    return LogDecoder(**{field.name: functions[field.name] for field in fields(LogDecoder)})


class _FunctionWriter:
    """Writes the functions. What is usual, every value there and the whole short, they decode themselves.

    One split divides a short message, as ``divided`` does. Whatever does not come out as that many parts with the right
    head goes to the exact decoder.
    """

    def __init__(self, binding: int, members: Sequence[Member], positions: Sequence[int], count: int) -> None:
        self._binding = binding
        self._members = members
        self._positions = positions
        self._count = count

    def function(self, kind: str, op: str, *, tracked: bool, old_rows: bool) -> list[str]:
        """One function of a ``LogDecoder``.

        Args:
            kind: Its name without ``_tracked``.
            op: The document's ``op``.
            old_rows: Messages have the whole old row too.
        """
        head = f"def {kind}{'_tracked' if tracked else ''}(message, source):"
        exact = _exact_result(kind, tracked)
        if kind == "delete":
            return [head, *(f"    {line}" for line in exact("None")), ""]
        count = self._count
        new, separator = self._tuple_head(NEW), quoted(SEPARATOR)
        new_row = "".join(f", v{i}" for i in range(count))
        lines = [
            head,
            f"    if len(message) >= {SHORT}:",
            *(f"        {line}" for line in exact("None")),
            f'    parts = message.decode("latin-1")[{MARKER}:].split({separator})',
            f"    if len(parts) == {count + 1} and parts[0] == {new}:",
            f"        _{new_row or ','} = parts",
            *self._guarded(unusual(self._members, "v", 2), self._line(kind, op, tracked=tracked, before=False)),
        ]
        if old_rows:
            old = self._tuple_head(OLD_ROW)
            old_row = "".join(f", o{i}" for i in range(count))
            last = f"o{count - 1}"
            changed = [f"o{p} != v{p}" for p in self._positions]
            conditions = [*changed, *unusual(self._members, "o", 2), *unusual(self._members, "v", 2)]
            lines += [
                f"    elif len(parts) == {2 * count + 1} and parts[0] == {old} and parts[{count}].endswith({new}):",
                f"        _{old_row}{new_row} = parts",
                f"        {last} = {last}[:-3]",
                *self._guarded(conditions, self._line(kind, op, tracked=tracked, before=True)),
            ]
        return [*lines, *(f"    {line}" for line in exact("parts")), ""]

    def _tuple_head(self, marker: int) -> str:
        return quoted(chr(marker) + self._count.to_bytes(2, "big").decode("latin-1"))

    @staticmethod
    def _guarded(conditions: Sequence[str], lines: Sequence[str]) -> list[str]:
        # The exact decoder meets the same texts again, and names the column.
        lines = ["try:", *(f"    {line}" for line in lines), "except MISFITS:", "    pass"]
        if conditions:
            lines = [f"if not ({' or '.join(conditions)}):", *(f"    {line}" for line in lines)]
        return [f"        {line}" for line in lines]

    def _line(self, kind: str, op: str, *, tracked: bool, before: bool) -> list[str]:
        """The statement that returns the captured line of a usual message."""
        spliced: list[str] = []
        if before and self._members:
            spliced = spliced_members(self._members, "o", 2, opening=',"before":{', closing="}", first=True)
        spliced += spliced_members(self._members, "v", 2, opening="}", closing=END)
        key = key_expression(self._positions, 2)
        result = f", (({key}, False),)" if kind == "update" else f", {key}"
        return [
            "return (",
            f'    f"{literal(opening(self._binding, op))}"',
            "    f\"{source.decode('latin-1')}\"",
            *(f"    {line}" for line in spliced),
            f').encode("latin-1"){result if tracked else ""}',
        ]


def _exact_result(kind: str, tracked: bool) -> Callable[[str], list[str]]:
    """Statements that return what the exact decoder makes of a message; the argument names its parts."""
    if not tracked:
        return lambda parts: [f"return exact(message, source, {parts})[0]"]
    if kind == "update":
        return lambda parts: [f"return exact(message, source, {parts})"]
    return lambda parts: [f"line, ((key, _),) = exact(message, source, {parts})", "return line, key"]
