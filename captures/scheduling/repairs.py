"""Rows that somebody names are read again, so that what is downstream equals the source again.

A row that is found comes as one that is read again by key. A key that no row has, and that the log has not touched
since the snapshot was opened, is deleted downstream: the fence says of it what it says of rows. If the log has touched
a key, what the log has given is newer, and counts.

The state has nothing of it. A repair is over when all of its rows have come through, and only then its command counts
as handled: a session that does not have it in its state gets it again, and rows that come twice do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tidemark.backfill.keys import Key
from tidemark.backfill.range_scan import Emission
from tidemark.captures.contract.source import Source
from tidemark.captures.scheduling.table_backfill import TableBackfill
from tidemark.captures.scheduling.verifications import INTERRUPTED, why_not
from tidemark.protocol.errors import UsageError
from tidemark.protocol.messages import Control, Json

MOST_KEYS = 10_000
"""The most keys of a command. With more, other commands would wait for long, and a scan of the table costs less."""

Values = list[Json]


@dataclass(slots=True)
class _Repair:
    """One that is under way.

    Attributes:
        named: Of each row that is read, the values of its key.
    """

    run: int
    backfill: TableBackfill
    named: dict[Key, Values] = field(default_factory=dict)


class Repairs:
    """At most one at a time is under way."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._repair: _Repair | None = None

    def attend(self, command: Control, tables: Callable[[], list[TableBackfill]]) -> bool:
        """Begins what a command asks for, or sees how far it is.

        Args:
            tables: Those of the command. Raises UsageError.

        Returns:
            Whether it is over.

        Raises:
            UsageError: ``TM-CAP-004`` it cannot begin, or go on.
        """
        repair = self._repair
        if repair is None or repair.run != command.sequence:
            repair = self._repair = self._begun(command, tables())
        backfill, ranges = repair.backfill, repair.backfill.ranges
        why = _why_not(backfill) if ranges.named else INTERRUPTED
        if not why and ranges.reads_named:
            return False
        ranges.end_named()
        self._repair = None
        if why:
            raise _refused(f"not all of the rows of {backfill.table.name} could be read again: {why}")
        return True

    def gone(self, backfill: TableBackfill, emission: Emission, position: int) -> Iterator[bytes]:
        """The lines that delete rows that were named, and that the source does not have."""
        if self._repair is not None and self._repair.backfill is backfill:
            for key in emission.gone:
                if (values := self._repair.named.get(key)) is not None:
                    yield self._source.deletion(backfill.table.binding, position, values)

    def _begun(self, command: Control, tables: list[TableBackfill]) -> _Repair:
        if len(command.tables) != 1 or not 0 < len(command.keys) <= MOST_KEYS:
            raise _refused(f"a repair is for 1 to {MOST_KEYS} keys of one table")
        backfill = tables[0]
        if why := _why_not(backfill):
            raise _refused(f"the rows of {backfill.table.name} cannot be read again: {why}")
        repair = _Repair(command.sequence, backfill)
        for values in command.keys:
            key = self._source.key_of(backfill.table.binding, values)
            if key is None:
                columns = ", ".join(backfill.table.key)
                raise _refused(
                    f"the rows of {backfill.table.name} cannot be read again by key: a value of {columns} may have "
                    "another text at the source; read the table again by tidemark backfill"
                )
            repair.named[key] = values
        backfill.ranges.read_named(repair.named)
        return repair


def _why_not(backfill: TableBackfill) -> str:
    if backfill.failed is not None:
        return f"it could not be read: {backfill.failed.message}"
    return why_not(backfill)


def _refused(text: str) -> UsageError:
    return UsageError("TM-CAP-004", text)
