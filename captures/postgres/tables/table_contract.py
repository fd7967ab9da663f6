"""What the log's stream asks of whoever knows the captured tables, and what it is told of their relations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tidemark.backfill.counted_rows import CountedRows
from tidemark.backfill.keys import TouchedKeys
from tidemark.captures.contract.table_changes import Cause
from tidemark.captures.postgres.rows.log_decoder import LogDecoder, Relation
from tidemark.captures.postgres.server.rewrite_trigger import Reason
from tidemark.captures.postgres.tables.counted_scans import Base
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject


class ShownPartition(NamedTuple):
    """A partition that the log has rows of, as rows of the table of a binding.

    Attributes:
        transaction: The first one that has some on this connection.
        name: For people.
    """

    binding: int
    oid: int
    transaction: int
    name: str


class Tables(Protocol):
    """Knows how the rows of a relation are decoded."""

    def relation(self, relation: Relation) -> BoundRelation | AlteredTable | LeftOut | None:
        """The binding and decoder of a relation's rows.

        None when no binding captures it. An AlteredTable when its rows cannot be told apart as the table's are now:
        they are skipped, and the table is read again.
        """

    def leave_out(self, binding: int) -> None:
        """Captures nothing more of this binding: its relations are ``LeftOut`` from here on."""

    def counted(self, binding: int) -> CountedRows[Base] | None:
        """What the log leaves out of a table without a key while it is scanned."""

    def altered(self, position: int) -> Sequence[AlteredTable] | None:
        """Tables that chunks found altered, once the log was read to where they are; None while it has to be.

        Called between transactions. Their rows are decoded as ``relation`` says from here on, also where no other
        Relation message comes: a type may have been altered, or names swapped.
        """

    def shown(self, partitions: Iterable[ShownPartition] = ()) -> bool:
        """Whether the log has shown names since this was asked last that ``Source.identity`` has now, and had not.

        Args:
            partitions: Those that the log has shown.
        """

    def truncated(self, binding: int, transaction: int) -> None:
        """A transaction has a TRUNCATE of it."""

    def rewritten(self, reasons: Mapping[int, Reason], transaction: int) -> bool:
        """A transaction, which has been read to its end, tells that an ALTER TABLE rewrote relations in it.

        Args:
            reasons: Why, by the relation's oid. Anybody may have written them.
            transaction: Its id, in 32 bits.

        Returns:
            Whether ``altered`` is to be asked before more of the log is read: captured tables are among them.
        """

    def away(self) -> dict[int, SourceError]:
        """Tables that were found since this was asked last not to be as they can be captured, and why."""


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """A binding whose table is another one than the log has shown: see ``BoundRelation``.

    Attributes:
        parts: Conditions in SQL for rows that the log does not have.
    """

    binding: int
    new_schema: JsonObject | None
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A relation of a binding that is left out, as of now because of ``error``: its rows are passed over."""

    binding: int
    error: SourceError | None = None


@dataclass(slots=True, eq=False)
class BoundRelation:
    """A captured relation, between one Relation message and the next.

    Attributes:
        binding: Index of its binding.
        decoder: Generated for its columns.
        origin: The JSON members ``"schema":…,"table":…`` of ``_meta.source``.
        new_schema: Set when the columns are not the ones whose schema was announced last.
        causes: What it is read again for: it may have taken the place of another table, or have another key.
        keyless: Its rows are counted while it is scanned.
    """

    binding: int
    decoder: LogDecoder
    origin: bytes
    new_schema: JsonObject | None = None
    causes: tuple[Cause, ...] = ()
    keyless: bool = False
    # Of the present transaction: its number, once more if rows may wait, and the touched keys if they are recorded.
    transaction: int = -1
    waits: int = -1
    touched: TouchedKeys | None = None
    # Without a key, while it is scanned; and whether the scan gives the changes of the present transaction.
    counted: CountedRows[Base] | None = None
    left_to_scan: bool = False
    # So many batches with rows of it are to be lines.
    lines_left: int = 0
