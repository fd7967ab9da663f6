"""Reads a log stream as the engine does, and keeps what came of it. The same for every kind of database."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tidemark.captures.contract.log import LogBatch, LogStream, Transaction
from tidemark.captures.contract.source import Source
from tidemark.captures.contract.table_changes import Consequence
from tidemark.captures.contract.table_events import (
    ChangesPassed,
    ColumnsChanged,
    RowsAffected,
    SetAside,
    TableEvent,
    WentAway,
)
from tidemark.protocol.codec import split_captured
from tidemark.protocol.error_codes import Policy
from tidemark.protocol.errors import SourceError
from tidemark.testing.deadline import PATIENCE

S = TypeVar("S", bound=Source)
L = TypeVar("L", bound=LogStream)

Document = dict[str, Any]

BATCH = 1 << 20


class LogReader(Generic[S, L]):
    """A source with an open log, and everything that was read of it so far.

    Args:
        end: Where the server's log ends now; the source's own answer by default.

    Attributes:
        reconnects: The log is reconnected after an error that passes, instead of raising it.
        acknowledging: Everything that is read counts as durable at once.
        lines: Captured lines, as they came.
        documents: Those of the lines.
        schemas: What was announced, in order, without those that repeat what was known of their table: such a one only
            marks where a table was looked at, which depends on time.
        transactions: Those that changed captured tables.
        causes: The names of the causes of ``RowsAffected``, of all bindings, as they came.
        restarted, to_read_again: The bindings that are to be emptied and read again, or only read again.
        changed, set_aside, away, passed: Those of the other events; with its error, if the event has one.
        read_sizes: Bytes of output of each read.
        failures: Codes of the errors after which the log was reconnected.
    """

    def __init__(self, source: S, log: L, *, end: Callable[[], int] | None = None, reconnects: bool = False) -> None:
        self.source = source
        self.log = log
        self._end = end or source.end_of_log
        self._wakeup, self._waker = os.pipe()
        self.reconnects = reconnects
        self.acknowledging = False
        self.lines: list[bytes] = []
        self.documents: list[Document] = []
        self.schemas: list[Document] = []
        self._known: dict[int, Document] = {}  # By binding.
        self.transactions: list[Transaction] = []
        self.causes: list[str] = []
        self.restarted: set[int] = set()
        self.to_read_again: set[int] = set()
        self.changed: set[int] = set()
        self.away: dict[int, SourceError] = {}
        self.set_aside: dict[int, SourceError] = {}
        self.passed: set[int] = set()
        self.read_sizes: list[int] = []
        self.failures: list[str] = []

    def read_once(self, limit: int = BATCH) -> LogBatch:
        batch = self.log.read(limit, 0.05, self._wakeup)
        for line in b"".join(batch.lines).splitlines():
            cut = split_captured(line)
            if cut is None:
                announced = json.loads(line)["sourcedSchema"]
                binding, schema = announced["binding"], announced["documentSchema"]
                if self._known.get(binding) != schema:
                    self._known[binding] = schema
                    self.schemas.append(schema)
            else:
                self.lines.append(line)
                self.documents.append(json.loads(cut[1]))
        if self.acknowledging and self.log.between_transactions:
            self.log.acknowledge(self.log.position)
        self.transactions += batch.transactions
        for event in batch.events:
            self._take(event)
        self.read_sizes.append(batch.size)
        return batch

    def _take(self, event: TableEvent) -> None:
        match event:
            case RowsAffected(binding, cause):
                self.causes.append(cause.name)
                if cause.consequence is Consequence.EMPTIED:
                    self.restarted.add(binding)
                elif cause.consequence is Consequence.READ_AGAIN:
                    self.to_read_again.add(binding)
            case ColumnsChanged(binding):
                self.changed.add(binding)
            case WentAway(binding, error):
                self.away[binding] = error
            case SetAside(binding, error):
                self.set_aside[binding] = error
            case ChangesPassed(binding):
                self.passed.add(binding)

    def until(self, condition: Callable[[], Any], seconds: float = 60, limit: int = BATCH) -> None:
        """Reads until ``condition`` holds."""
        seconds *= PATIENCE
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{len(self.documents)} documents after {seconds} s"
            try:
                self.read_once(limit)
            except SourceError as error:
                if not self.reconnects or error.entry.policy is not Policy.RETRY:
                    raise
                self.failures.append(error.code)
                self.reconnect(deadline)

    def reconnect(self, deadline: float) -> None:
        """Reconnects, as often as it takes."""
        while True:
            try:
                self.source.reconnect()
                self.log.reconnect()
                return
            except SourceError as error:
                assert error.entry.policy is Policy.RETRY, error
                assert time.monotonic() < deadline, error

    def read_to(self, position: int, limit: int = BATCH) -> None:
        """Reads everything up to a position of the server; reads once at least."""
        reads = len(self.read_sizes)
        self.until(
            lambda: len(self.read_sizes) > reads and self.log.between_transactions and self.log.position >= position,
            limit=limit,
        )

    def read(self, limit: int = BATCH) -> list[Document]:
        """Everything up to where the server's log ends now: the documents of these reads."""
        before = len(self.documents)
        self.read_to(self._end(), limit)
        return self.documents[before:]

    def ids(self) -> list[tuple[str, Any]]:
        """Operation and id of every document."""
        return [(document["_meta"]["op"], document.get("id")) for document in self.documents]

    def close(self) -> None:
        """Ends the log; the source stays open."""
        self.log.close()
        os.close(self._wakeup)
        os.close(self._waker)


def plain(documents: Sequence[Document]) -> list[tuple[str, Document]]:
    """``op`` and columns of each document."""
    return [
        (document["_meta"]["op"], {name: value for name, value in document.items() if name != "_meta"})
        for document in documents
    ]
