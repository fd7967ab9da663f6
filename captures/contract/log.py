"""The log as the engine reads it: batches of whole protocol lines, and the transactions that ended in them.

Positions are integers that grow with the log (a PostgreSQL LSN, a binlog's file number and offset) for as long as a
source is open; what the state keeps is their text. Tables are known to the engine by the index of their binding.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from backfill.fence import TransactionId
from backfill.keys import Key, TouchedKeys
from captures.contract.table_changes import Consequence
from protocol.errors import SourceError


@dataclass(slots=True)
class Transaction:
    """One source transaction that changed captured tables, after all its documents were written out.

    Attributes:
        txn: The source's id of it, as fences know it.
        tracked: The bindings whose touched keys were recorded.
        touched: Keys touched per binding, only for bindings in ``tracked``.
        incomplete: Rows, by binding and key, of bindings not in ``tracked``, that came to a key without all columns.
    """

    txn: TransactionId
    tracked: frozenset[int]
    touched: dict[int, TouchedKeys] = field(default_factory=dict)
    incomplete: list[tuple[int, Key]] = field(default_factory=list)


@dataclass(slots=True)
class LogBatch:
    """What one call of ``LogStream.read`` brought.

    Attributes:
        lines: Whole protocol lines, in log order: captured documents and sourced schemas.
        size: Bytes in ``lines``.
        transactions: Those that ended in this batch and changed captured tables.
        drained: Nothing more was waiting to be read.
        changed: Bindings whose columns changed; chunks that were read with the old ones are of no use.
        bad: How many bad values there were, by binding and by the policy that was followed.
        restarted: Bindings whose rows the log can no longer tell of (another table took the name, rows that match no
            known columns): each is emptied downstream and backfilled anew, after this batch and the transaction that it
            ends in. ``Source.changed_tables`` hands them over as they are now.
        read_again: Bindings some of whose values the log does not tell of: all their rows are read again, as they are
            then, over what there is downstream. A table without a key is emptied first.
        stored_anew: Bindings whose rows are stored in other places: a scan that goes by places begins again.
        noted: What ``Source.identity`` says is another.
        undecided: Tables were altered, and it is not yet known what follows.
        away: Tables that cannot be captured as they are now, and why. Their log is followed all the same.
        set_aside: Tables of which the log can tell no more, and why. The stream has left them out already.
        passed: Bindings that are left out, of which there were changes.
    """

    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    transactions: list[Transaction] = field(default_factory=list)
    drained: bool = False
    changed: set[int] = field(default_factory=set)
    restarted: set[int] = field(default_factory=set)
    read_again: set[int] = field(default_factory=set)
    stored_anew: set[int] = field(default_factory=set)
    noted: bool = False
    undecided: bool = False
    bad: dict[int, Counter[str]] = field(default_factory=dict)
    away: dict[int, SourceError] = field(default_factory=dict)
    set_aside: dict[int, SourceError] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)

    @property
    def says_something(self) -> bool:
        """What it has counts as returned, so it must be, also when the read failed after it."""
        altered = self.changed or self.restarted or self.read_again or self.stored_anew or self.noted
        return bool(self.lines or self.transactions or altered or self.away or self.set_aside or self.passed)

    def follow(self, binding: int, consequence: Consequence) -> None:
        """Has the engine do what follows from a change of a table. Warnings and errors are the source's own."""
        follows = {
            Consequence.BEGUN_AGAIN: self.stored_anew,
            Consequence.READ_AGAIN: self.read_again,
            Consequence.EMPTIED: self.restarted,
        }
        if consequence in follows:
            follows[consequence].add(binding)


class LogStream(Protocol):
    """The database's log from a position on. Used by one thread.

    ``position`` is how far the log was read; ``between_transactions`` says whether everything up to there, and nothing
    after it, has been returned: only then may chunks and checkpoints be written. ``committed_at`` is when the source
    committed the last transaction that was read, in seconds since the epoch, None before the first.
    """

    position: int
    committed_at: float | None

    @property
    def between_transactions(self) -> bool: ...

    def read(self, limit: int, wait: float, wakeup: int) -> LogBatch:
        """Reads what is there, about ``limit`` bytes at most, and returns at the end of a transaction if one is near.

        Waits up to ``wait`` seconds when nothing is there, and returns at once when the descriptor ``wakeup`` becomes
        readable. Raises a retryable SourceError when the connection is lost.
        """

    def track(self, bindings: frozenset[int]) -> None:
        """Records touched keys for these bindings, from the next transaction on."""

    def acknowledge(self, position: int) -> None:
        """Everything up to ``position`` is durable downstream: the source may let go of it."""

    def request_progress(self) -> None:
        """Asks the server to say where it is, so that ``position`` moves although nothing is written."""

    def reconnect(self) -> None:
        """Opens the connection anew after a retryable error, and goes on where the log was left.

        Lines that were returned before are not returned again, also not those of a transaction that broke off in its
        middle. Called after ``close``, and again after it failed, also when the connection was sound and another one
        broke. What was acknowledged stays so. Raises SourceError, retryable while the server is away, LostPosition when
        the log cannot be gone on with.
        """

    def close(self) -> None:
        """Ends the connection, of which the source learns at once. Does nothing the second time."""
