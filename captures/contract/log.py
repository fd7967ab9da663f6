"""The log as the engine reads it: batches of whole protocol lines, and the transactions that ended in them.

Positions are integers that grow with the log (a PostgreSQL LSN, a binlog's file number and offset) for as long as a
source is open; what the state keeps is their text. Tables are known to the engine by the index of their binding.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from tidemark.backfill.fence import TransactionId
from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.captures.contract.table_changes import Cause, Consequence
from tidemark.protocol.errors import SourceError


@dataclass(slots=True)
class Transaction:
    """One source transaction that changed captured tables, after all its documents were written.

    Attributes:
        txn: Its id in the source, as fences use it.
        tracked: The bindings whose touched keys were recorded.
        touched: Keys touched per binding, only for bindings in ``tracked``.
        incomplete: Rows, by binding and key, of bindings not in ``tracked``, that got a key by an event without all
            columns.
    """

    txn: TransactionId
    tracked: frozenset[int]
    touched: dict[int, TouchedKeys] = field(default_factory=dict)
    incomplete: list[tuple[int, Key]] = field(default_factory=list)


@dataclass(slots=True)
class LogBatch:
    """The result of one call of ``LogStream.read``.

    Attributes:
        lines: Whole protocol lines, in log order: captured documents and sourced schemas.
        size: Bytes in ``lines``.
        transactions: Transactions that ended in this batch and changed captured tables.
        drained: Nothing was left to read.
        changed: Bindings whose columns changed; chunks that were read with the old columns are useless.
        bad: How many bad values there were, by binding and by the policy that was applied.
        apart: Of rows of which a consumer may lack something, in log order, binding and key. True: the event is kept
            apart for its bad values. False: it lacks columns, in a table whose events may be kept apart.
        restarted: Bindings whose rows the log no longer describes (another table took the name, or rows match no known
            columns): each is emptied downstream and backfilled again, after this batch and the transaction that it ends
            in. ``Source.changed_tables`` hands them over as they are now.
        read_again: Bindings with new values that are not in the log: all their rows are read again, and replace the
            rows downstream. A table without a key is emptied first.
        causes: By binding, why it is in ``restarted`` or ``read_again``, or what else has rows of it read: they moved
            in storage, so that a scan by pages starts again, or some are not in the log.
        noted: ``Source.identity`` has changed.
        undecided: Tables were altered, and the consequence is not yet known.
        away: Tables that cannot be captured as they are now, with the reason. Their changes are still captured.
        set_aside: Tables whose changes the log no longer describes, with the reason. The stream already leaves them
            out.
        passed: Bindings that are left out, and had changes.
    """

    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    transactions: list[Transaction] = field(default_factory=list)
    drained: bool = False
    changed: set[int] = field(default_factory=set)
    restarted: set[int] = field(default_factory=set)
    read_again: set[int] = field(default_factory=set)
    causes: dict[int, list[Cause]] = field(default_factory=dict)
    noted: bool = False
    undecided: bool = False
    bad: dict[int, Counter[str]] = field(default_factory=dict)
    apart: list[tuple[int, Key, bool]] = field(default_factory=list)
    away: dict[int, SourceError] = field(default_factory=dict)
    set_aside: dict[int, SourceError] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)

    @property
    def says_something(self) -> bool:
        """Its content counts as returned, so it must be returned even if the read failed after it."""
        altered = self.changed or self.causes or self.noted
        return bool(self.lines or self.transactions or altered or self.away or self.set_aside or self.passed)

    def follow(self, binding: int, *causes: Cause) -> None:
        """Makes the engine carry out the consequences of what happened to a table. The source itself logs warnings and
        errors."""
        follows = {Consequence.READ_AGAIN: self.read_again, Consequence.EMPTIED: self.restarted}
        for cause in causes:
            if cause.consequence in follows:
                follows[cause.consequence].add(binding)
            known = self.causes.setdefault(binding, [])
            if cause not in known:
                known.append(cause)


class LogStream(Protocol):
    """The database's log from a position on. Used by one thread.

    ``position`` is how far the log was read. ``between_transactions`` is whether everything up to it, and nothing after
    it, has been returned: only then may chunks and checkpoints be written. ``committed_at`` is when the source
    committed the last transaction read, in seconds since the epoch; None before the first.
    """

    position: int
    committed_at: float | None

    @property
    def between_transactions(self) -> bool: ...

    def read(self, limit: int, wait: float, wakeup: int) -> LogBatch:
        """Reads the available log, about ``limit`` bytes at most, and returns at the end of a transaction if one is
        near.

        If nothing is available, waits up to ``wait`` seconds, but returns at once when the descriptor ``wakeup``
        becomes readable. Raises a retryable SourceError when the connection is lost.
        """

    def track(self, bindings: frozenset[int]) -> None:
        """Records touched keys for these bindings, from the next transaction on."""

    def acknowledge(self, position: int) -> None:
        """Everything up to ``position`` is durable downstream: the source may discard it."""

    def request_progress(self) -> None:
        """Asks the server for its position, so that ``position`` advances although nothing is written."""

    def reconnect(self) -> None:
        """Reconnects after a retryable error, and resumes the log where it was.

        Never returns a line twice, even if the connection broke inside a transaction. Called after ``close``, and again
        after a failure, also if this connection was sound and another one broke. Acknowledgements remain valid. Raises
        SourceError, retryable while the server is unreachable; LostPosition if the log cannot be resumed.
        """

    def close(self) -> None:
        """Closes the connection, and the source notices at once. Does nothing the second time."""
