"""Replaces or refuses bad values of rows, by the policies of their columns."""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence, Sequence

from tidemark.captures.postgres.catalog.columns import ColumnType
from tidemark.captures.postgres.catalog.encodings import shown
from tidemark.captures.postgres.rows.generated_source import MISFITS, Member, Misfit, Value
from tidemark.captures.postgres.values.types import byte_text
from tidemark.captures.tables.bad_values import (
    ROW_LIMIT,
    TOO_LARGE,
    UNDECODABLE,
    BadValue,
    Policy,
    Repairs,
    largest,
    unfit_for,
)


class RepairedValues:
    """Replaces bad values. Those of the key are never left out.

    Args:
        key: Places of its columns.
        quoted: The table's name in SQL; empty if errors should have no statement.
    """

    def __init__(self, table: str, members: Sequence[Member], key: Iterable[int], quoted: str = "") -> None:
        self.repairs = Repairs(table)
        self._table = table
        self._quoted = quoted
        self._members = members
        self._key = frozenset(key)

    def repair(self, row: MutableSequence[Value], *, marked: bool = True) -> bool:
        """Replaces the bad values of a row. Returns whether it had some.

        Args:
            row: The texts of the row, which are changed.
            marked: The event goes to quarantine for any bad value; otherwise only for one in the key.
        """
        found = False
        for member in self._members:
            text = row[member.place]
            if not isinstance(text, str):
                continue
            try:
                member.conversion.convert(text)
            except MISFITS as error:
                if not isinstance(error, BadValue) and _has_attributes(member.column.type):
                    altered = (
                        f"{self._table}: a value of type {member.column.type.name} has other attributes than the type"
                    )
                    raise Misfit("TM-PG-030", altered) from None
                found = True
                row[member.place] = self._settled(member, text, error, marked=marked or member.place in self._key)
        return found

    def _settled(self, member: Member, text: str, error: BaseException, *, marked: bool) -> str | None:
        column = member.column
        name = byte_text(column.name)
        bad = error if isinstance(error, BadValue) else BadValue(unfit_for(column.type.name))
        unsayable = bad.reason == UNDECODABLE
        # The server is asked for rows by their keys.
        policy: Policy = "stop" if unsayable and member.place in self._key else column.on_bad_value
        raw = shown(text) if unsayable else text
        settled = self.repairs.settle(name, policy, bad, raw, marked=marked)
        if self._quoted and name in self.repairs.stopped and bad.pattern:
            quoted = column.name.replace('"', '""')
            self.repairs.find.append(f"SELECT * FROM {self._quoted} WHERE \"{quoted}\"::text ~ '{bad.pattern}';")
        return settled

    def shrink(self, row: MutableSequence[Value], limit: int = ROW_LIMIT, *, marked: bool = True) -> None:
        """Replaces the largest values of a row without bad ones, by their policies, until it has ``limit`` bytes."""
        members = [member for member in self._members if isinstance(row[member.place], str)]
        sizes = [len(member.conversion.convert(str(row[member.place]))) for member in members]
        for place in largest(sizes, limit - sum(len(member.label) for member in self._members)):
            member = members[place]
            column = member.column
            policy = "stop" if member.place in self._key else column.on_bad_value
            too_large = BadValue(TOO_LARGE)
            name = byte_text(column.name)
            kept = marked or member.place in self._key
            text = str(row[member.place])
            row[member.place] = self.repairs.settle(name, policy, too_large, text, marked=kept)
            if name in self.repairs.stopped:
                return


def _has_attributes(column_type: ColumnType) -> bool:
    """Whether the type contains a composite type, which may be altered without a trace in the log."""
    inner = (column_type.base, column_type.element)
    return column_type.kind == "composite" or any(_has_attributes(each) for each in inner if each is not None)
