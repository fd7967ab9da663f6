"""What the log's stream is told of the relations that it shows, and what it tells of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidemark.backfill.counted_rows import CountedRows
from tidemark.backfill.keys import TouchedKeys
from tidemark.captures.contract.table_changes import Cause
from tidemark.captures.postgres.rows.log_decoder import LogDecoder
from tidemark.captures.postgres.tables.counted_scans import Base
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject


class ShownPartition(NamedTuple):
    """A partition that the log has rows of, as rows of its table.

    Attributes:
        binding: Of the table; None if it is not captured, but the partition was, as a table of its own.
        transaction: The first one that has some on this connection.
        name: For people.
    """

    binding: int | None
    oid: int
    transaction: int
    name: str


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
