"""The log as the engine reads it: batches of whole protocol messages, and the transactions that ended in them.

Positions are integers that grow with the log (a PostgreSQL LSN, a binlog's file number and offset) for as long as a
source is open; what the state keeps is their text. Tables are known to the engine by the index of their binding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tidemark.backfill.fence import TransactionId
from tidemark.backfill.keys import Key, TouchedKeys
from tidemark.captures.contract.table_changes import Consequence
from tidemark.captures.contract.table_events import ChangesPassed, ColumnsChanged, RowsAffected, SetAside, TableEvent
from tidemark.protocol.errors import SourceError

LEAST_SILENCE_SECONDS = 2.0
"""The shortest silence of a source that says anything about it, however short the heartbeat is."""


def silence_limit(heartbeat_seconds: float) -> float:
    """The seconds without a sign of life of the source after which the lag is unknown. It is asked in half of them."""
    return max(heartbeat_seconds, LEAST_SILENCE_SECONDS)


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
        lines: Whole messages of the protocol, in log order: captured documents and sourced schemas, each a line, and
            batches of columns, each a line and its streams.
        size: Bytes in ``lines``.
        transactions: Transactions that ended in this batch and changed captured tables.
        events: What happened to captured tables, in log order.
        drained: Nothing was left to read.
        noted: ``Source.identity`` has changed.
        undecided: Tables were altered, and the consequence is not yet known.
    """

    lines: list[bytes] = field(default_factory=list)
    size: int = 0
    transactions: list[Transaction] = field(default_factory=list)
    events: list[TableEvent] = field(default_factory=list)
    drained: bool = False
    noted: bool = False
    undecided: bool = False
    _told: set[TableEvent] = field(default_factory=set, init=False, repr=False)

    @property
    def says_something(self) -> bool:
        """Whether it has content that counts as returned: it must be returned even if the read failed after it."""
        return bool(self.lines or self.transactions or self.events or self.noted)

    def tell(self, event: ColumnsChanged | RowsAffected | ChangesPassed) -> None:
        """Adds an event, unless the batch has it already: each row of a table may say the same."""
        if event not in self._told:
            self._told.add(event)
            self.events.append(event)

    def set_aside(self, binding: int, error: SourceError) -> None:
        """Adds that a table is set aside; or changes why, if the batch has that already."""
        for place, event in enumerate(self.events):
            if isinstance(event, SetAside) and event.binding == binding:
                self.events[place] = SetAside(binding, error)
                return
        self.events.append(SetAside(binding, error))

    def empties(self, binding: int) -> bool:
        """Whether a table will be emptied and read again because of what the batch has of it."""
        return any(
            isinstance(event, RowsAffected)
            and event.binding == binding
            and event.cause.consequence is Consequence.EMPTIED
            for event in self.events
        )


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

    @property
    def silent_seconds(self) -> float:
        """How long the server has sent nothing of the log, not even that it lives."""

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
        """Asks the server for its position, so that ``position`` advances although nothing is written.

        The answer is a sign of life. A server that gives one by itself, each half of ``silence_limit``, is not asked.
        """

    def reconnect(self) -> None:
        """Reconnects after a retryable error, and resumes the log where it was.

        Never returns a line twice, even if the connection broke inside a transaction. Called after ``close``, and again
        after a failure, also if this connection was sound and another one broke. Acknowledgements remain valid. Raises
        SourceError, retryable while the server is unreachable; LostPosition if the log cannot be resumed.
        """

    def close(self) -> None:
        """Closes the connection, and the source notices at once. Does nothing the second time."""
