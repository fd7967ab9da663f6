"""A source opened for capturing: its tables, its log, its readers of chunks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tidemark.captures.contract.capabilities import ReadsInSnapshots
from tidemark.protocol.errors import SourceError

if TYPE_CHECKING:  # Processes of readers, and of unary requests, import this module, and are to start soon.
    from tidemark.backfill.fence import Fence
    from tidemark.backfill.keys import Key
    from tidemark.captures.contract.chunk import Barrier, ChunkReader
    from tidemark.captures.contract.chunk_rows import ChunkHead
    from tidemark.captures.contract.log import LogStream
    from tidemark.captures.contract.options import Options
    from tidemark.protocol.messages import Json, JsonObject


def never() -> bool:
    """The session continues while a source waits."""
    return False


class ScanMethod(StrEnum):
    """How the rows that a table has already are read: as configured, or as follows from its key."""

    KEY = "key"
    """In key order."""
    PAGES = "physical"
    """By the pages of its file, also where rows have no key."""
    SNAPSHOT = "snapshot"
    """All in one transaction, for rows without a key."""
    NONE = "none"
    """Not at all: the table follows its log only."""

    @property
    def reads(self) -> bool:
        """Whether there are chunks at all."""
        return self is not ScanMethod.NONE

    @property
    def by_places(self) -> bool:
        """Whether a scan goes by places that only the database understands, and not by keys."""
        return self in (ScanMethod.PAGES, ScanMethod.SNAPSHOT)


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A binding as the database opened it.

    Attributes:
        binding: Its index.
        name: For people, ``schema.table``.
        state_key: Its identity in the state.
        document_schema: The closed JSON Schema of its documents.
        identity: Changes when the table is dropped and created again, and with its key.
        formerly: The identity in the form of earlier versions' states; None if the form is the same.
        key: Names of the key columns; empty if nothing identifies rows.
        priority: Tables with a higher priority are read first.
        estimated_rows: The server's estimate, None if it has none.
        estimated_bytes: The table's size on the server's disk, None if unknown.
        unfit: Why it cannot be captured. The other attributes then come from the configuration alone.
        captured_otherwise: Its documents have columns that the last session's did not have, or had otherwise: all its
            rows are read again, and replace the rows downstream. Known after ``Source.start_position``.
        where: The configured condition for the rows that are read; empty without one.
        policy: The configured policy for values that cannot be captured, as text that changes with it.
        whole_rows: Sentences with the statements that make every event of the table carry the whole row.
    """

    binding: int
    name: str
    state_key: str
    document_schema: JsonObject
    identity: str
    key: tuple[str, ...]
    scan: ScanMethod
    priority: int
    estimated_rows: int | None
    estimated_bytes: int | None = None
    unfit: SourceError | None = None
    where: str = ""
    policy: str = ""
    whole_rows: str = ""
    formerly: str | None = None
    captured_otherwise: bool = False

    @property
    def counted(self) -> bool:
        """Whether its rows are read, and nothing identifies them: a consumer can only count them."""
        return self.scan.reads and not self.key

    def outrun(self, failure: SourceError) -> SourceError:
        """The error of a table whose rows get other keys faster than they are read, with what to do about this one."""
        again = f"Then have it read again: tidemark backfill FILE --table {shlex.quote(self.name)}"
        return SourceError(failure.code, f"{self.name}: {failure.message}", remedy=f"{self.whole_rows} {again}".strip())

    def is_still(self, identity: str | None) -> bool:
        """Whether the state's identity is this table's."""
        return identity == self.identity or (identity is not None and identity == self.formerly)


@dataclass(frozen=True, slots=True)
class Regained:
    """A table that was left out, and is captured again.

    Attributes:
        table: As it is now.
        same: It is the same table, and all changes since then were in the log.
    """

    table: OpenedTable
    same: bool


@dataclass(frozen=True, slots=True)
class RetainedLog:
    """The log that the server keeps for a capture.

    Attributes:
        size: In bytes; None when that is not known.
        limit: Of how many the server would take the position away; None when it never would, or keeps its log by time.
        end: Where the capture finds the log to end; None where the server sends all of it at once, or does not tell.
        by: Where or for what it is retained, in words: ``for slot NAME (reserved, active)``; empty if nothing is.
    """

    size: int | None
    limit: int | None = None
    end: int | None = None
    by: str = ""


class Source(ReadsInSnapshots, Protocol):
    """A database opened for capturing: its tables are known, its log can be streamed and its tables read.

    Questions to the server raise SourceError, retryable when the connection is lost: the engine then calls
    ``reconnect`` and asks again. What only some databases can is in ``tidemark.captures.contract.capabilities``.

    Attributes:
        options: The part of the configuration that all databases have.
        tables: By binding, as they are when the source is opened, and again once ``start_position`` was asked. What
            becomes of them later is handed over by ``changed_tables``.
    """

    @property
    def options(self) -> Options: ...

    @property
    def tables(self) -> Sequence[OpenedTable]: ...

    def changed_tables(self) -> Sequence[OpenedTable]:
        """Hands over the tables that are not what they were when this was asked last.

        Asked after what may change them: each ``read`` of the log, ``regain``, and ``start_over``.
        """

    # Tables that are set aside: see tidemark.captures.engine.set_aside.

    def leave_out(self, binding: int, identity: str) -> None:
        """Stops capturing a table until it is regained: its changes are skipped, and nothing is created for it.

        Called before ``start_position`` for a table that was left out in an earlier session, or that is ``unfit``, and
        at any time when the log is open. Does nothing the second time.

        Args:
            identity: ``OpenedTable.identity`` as it was; empty for a table that was never captured.
        """

    def found_altered(self, binding: int) -> None:
        """A chunk ended with ``TableAltered``: what became of the table is looked for, and the log tells it.

        It may be that no row of the table ever changes again, and then nothing else in the log would tell.
        """

    def unfit(self, binding: int) -> SourceError | None:
        """Why a table cannot be captured as it is now; None if it can."""

    def regain(self, binding: int, position: int, *, asked: bool) -> Regained | SourceError | None:
        """Captures a table again that was left out, from the log's next transaction on.

        Called from time to time between transactions, with the log read to ``position``.

        Args:
            asked: A command asked for it, so what it needs is created, if the configuration allows.

        Returns:
            Why it cannot be captured; or None, until the log is read to where the table is as it is now.
        """

    def identity(self) -> JsonObject:
        """What identifies this server and its log; stored in the state.

        Called after ``start_position``, and again when tables are read again.
        """

    def start_position(self, cursor: str | None, identity: JsonObject | None, ended: Callable[[], bool] = never) -> int:
        """The position to read the log from.

        First compares the position with the server, then creates what is missing there, if the configuration allows.
        ``close`` removes what was created, unless the log was opened in between.

        Args:
            cursor: The state's cursor, None for a new capture.
            identity: The state's ``identity()``.
            ended: Whether the session is over: the call may wait for other transactions, for hours.

        Raises:
            LostPosition: The log no longer holds everything after ``cursor``.
            SessionEnded: ``ended`` was true while it waited.
            SourceError: Anything else.
        """

    def start_over(self, ended: Callable[[], bool] = never) -> int:
        """Creates what a new capture starts from, if the configuration allows, and returns its position.

        Called after ``LostPosition``, with the log closed or never opened. All changes of the tables after this call
        are in the log from that position on, and ``identity()`` is the new one. Tables are not looked up again: the
        engine empties each downstream, sets a ``barrier`` for it and backfills it. Raises like ``start_position``.
        """

    def reconnect(self) -> None:
        """Reopens the connection for queries, after a retryable error from a query or from the log.

        The log's connection is another one: see ``LogStream.reconnect``. Raises SourceError, retryable while the server
        is unreachable.

        This call and the following ones, up to the next ``read`` of a log, may come from another thread; no other calls
        run meanwhile. A session that ends meanwhile does not wait for them before ``close``.
        """

    def format_position(self, position: int) -> str:
        """The position as the state holds it."""

    def open_log(self, position: int) -> LogStream: ...

    def open_chunk_reader(self) -> ChunkReader: ...

    def visibility(self) -> Fence:
        """What a snapshot opened now would see. Used by the engine's thread."""

    def barrier(self) -> Barrier:
        """Now, in the form that ``passed`` takes: stored in the state of a table that is captured from now on."""

    def passed(self, barrier: Barrier) -> bool:
        """Whether every transaction that had begun at ``barrier`` has ended, and is visible to snapshots opened now."""

    def awaited(self, barrier: Barrier) -> str:
        """The transactions for whose end ``passed`` waits, for people; empty if they are not known."""

    def split(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        """Keys, in order, that cut the scan's rest into up to ``parts`` ranges of about the same number of rows.

        From what the server knows (a histogram, least and greatest key), never by reading the table. Fewer than
        ``parts - 1`` keys, or none, when the range cannot be cut so.
        """

    def refused_condition(self, binding: int, where: str) -> str:
        """Why the server does not take a condition on a table's rows, for people; empty if it does."""

    def end_of_log(self) -> int:
        """Where the server's log ends now."""

    def retained(self) -> RetainedLog:
        """The log that the server keeps for this capture."""

    def replica_lag(self) -> float | None:
        """The lag of the slowest replica, in seconds; None without replicas. Called only if configured."""

    def chunk_head(self, binding: int, position: int) -> ChunkHead:
        """What the rows of a chunk have in common that is emitted at ``position``."""

    def truncation(self, binding: int, position: int) -> bytes:
        """A captured line that empties the table downstream; empty if the configuration wants none."""

    def key_of(self, binding: int, values: Sequence[Json]) -> Key | None:
        """The key with these values of the table's key columns, as documents have them.

        None if one is not a value of its column, or has no text that is certain to be the server's.
        """

    def deletion(self, binding: int, position: int, values: Sequence[Json]) -> bytes:
        """A captured line, at ``position``, that deletes the row with these values of its key columns downstream."""

    def close(self) -> None: ...
