"""A source opened for capturing: its tables, its log, its readers of chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from backfill.fence import Fence
from backfill.keys import Key
from captures.contract.chunk import Barrier, ChunkReader
from captures.contract.log import LogStream
from captures.contract.scan import ScanMethod
from protocol.errors import SourceError

if TYPE_CHECKING:  # A reader's process imports this module, and is to start soon.
    from captures.scheduling.quiet_hours import QuietHours
    from protocol.messages import JsonObject


def never() -> bool:
    """The session goes on, whatever a source waits for."""
    return False


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """How tables are read; made from the configuration by ``captures.server.backfill_config``.

    Attributes:
        readers: Chunks read at the same time.
        chunk_seconds: How long a chunk should take.
        chunk_rows: Rows of every chunk, instead of adapting to ``chunk_seconds``.
        on_lost_position: What follows on ``LostPosition``.
        announced: The begin and the end of each backfill are said, and so a table is emptied.
        max_rows_per_second: Of all tables together.
        max_bytes_per_second: Of the documents of all tables together.
        quiet_hours: No chunk is started in them.
        max_replica_lag: In seconds; no chunk is started while a replica is further behind.
    """

    readers: int = 1
    chunk_seconds: float = 1.0
    chunk_rows: int | None = None
    on_lost_position: Literal["fail", "backfill"] = "fail"
    announced: bool = False
    max_rows_per_second: float | None = None
    max_bytes_per_second: float | None = None
    quiet_hours: QuietHours | None = None
    max_replica_lag: float | None = None


@dataclass(frozen=True, slots=True)
class OpenedTable:
    """A binding as the database opened it.

    Attributes:
        binding: Its index.
        name: For people, ``schema.table``.
        state_key: Its identity in the state.
        document_schema: The closed JSON Schema of its documents.
        identity: Changes when the table was dropped and made again, and with its key.
        formerly: The same as earlier versions wrote it into the state; None where they wrote what is written now.
        key: Names of the key columns; empty when rows cannot be told apart.
        priority: Tables of higher priority are read first.
        estimated_rows: What the server believes, None when it does not know.
        estimated_bytes: What the table takes on the server's disk, None when it does not know.
        unfit: Why it cannot be captured. Then the rest says what the configuration does, and nothing of the table.
        captured_otherwise: Its documents have columns that those of the last session had not, or not so: all its rows
            are read again, over what there is. Known once ``Source.start_position`` was asked.
        policy: What the configuration says of values that cannot be captured: another text with another policy.
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
    policy: str = ""
    formerly: str | None = None
    captured_otherwise: bool = False

    def is_still(self, identity: str | None) -> bool:
        """Whether the state's identity is this table's."""
        return identity == self.identity or (identity is not None and identity == self.formerly)


@dataclass(frozen=True, slots=True)
class Regained:
    """A table that was left out, and is captured again.

    Attributes:
        table: As it is now.
        same: It is the table that it was, and whatever changed in it meanwhile was in the log.
    """

    table: OpenedTable
    same: bool


@dataclass(frozen=True, slots=True)
class RetainedLog:
    """The log that the server keeps for a capture.

    Attributes:
        size: In bytes; None when that is not known.
        limit: Of how many the server would take the position away; None when it never would, or keeps its log by time.
    """

    size: int | None
    limit: int | None = None


class Source(Protocol):
    """A database opened for capturing: its tables are known, its log can be streamed and its tables read.

    Questions to the server raise SourceError, retryable when the connection is lost: the engine then calls
    ``reconnect`` and asks again. What only some databases can is in ``captures.contract.capabilities``.

    Attributes:
        tables: By binding, as they are when the source is opened, and again once ``start_position`` was asked. What
            becomes of them later is handed over by ``changed_tables``.
    """

    options: BackfillOptions
    heartbeat_seconds: float

    @property
    def tables(self) -> Sequence[OpenedTable]: ...

    def changed_tables(self) -> Sequence[OpenedTable]:
        """Hands over the tables that are not what they were when this was asked last.

        Asked after what may change them: each ``read`` of the log, ``regain``, and ``start_over``.
        """

    # Tables that are set aside: see captures.engine.set_aside.

    def leave_out(self, binding: int, identity: str) -> None:
        """Captures nothing more of a table, until it is regained: its log is passed over, and nothing is made for it.

        Called before ``start_position`` for a table that was left out in an earlier session, or that is ``unfit``, and
        at any time when the log is open. Does nothing the second time.

        Args:
            identity: ``OpenedTable.identity`` as it was; empty for a table that never was captured.
        """

    def found_altered(self, binding: int) -> None:
        """A chunk ended with ``TableAltered``: what became of the table is looked for, and the log tells it.

        It may be that no row of the table ever changes again, and then nothing else in the log would tell.
        """

    def unfit(self, binding: int) -> SourceError | None:
        """Why a table cannot be captured as it is now; None where it can."""

    def regain(self, binding: int, position: int, *, asked: bool) -> Regained | SourceError | None:
        """Captures a table again that was left out, from the log's next transaction on.

        Called between transactions, with the log read to ``position``, now and then.

        Args:
            asked: Somebody wants it, so what the configuration lets be made for it is made.

        Returns:
            Why it cannot be captured; or None, as long as the log was not read to where the table is what it is now.
        """

    def identity(self) -> JsonObject:
        """What tells this server and its log from any other; kept in the state.

        Asked for after ``start_position``, and again when tables are read anew.
        """

    def start_position(self, cursor: str | None, identity: JsonObject | None, ended: Callable[[], bool] = never) -> int:
        """Where the log is read from.

        Compares the position with the server first, then makes what is missing there, as far as the configuration lets
        it. What it made is taken away again by ``close``, unless the log was opened in between.

        Args:
            cursor: The state's cursor, None for a new capture.
            identity: The state's ``identity()``.
            ended: Whether the session is over: it may have to wait for others' transactions, for hours.

        Raises:
            LostPosition: The log no longer holds everything after ``cursor``.
            SessionEnded: ``ended`` said so while it waited.
            SourceError: Anything else.
        """

    def start_over(self, ended: Callable[[], bool] = never) -> int:
        """Makes what a new capture starts from, where the configuration lets it, and returns its position.

        Called after ``LostPosition``, with the log closed or never opened. Everything that changes in the tables after
        this call is in the log from that position on, and ``identity()`` is the new one. Tables are not asked for anew:
        the engine empties each downstream, sets it a ``barrier`` and backfills it. Raises as ``start_position``.
        """

    def reconnect(self) -> None:
        """Opens the connection for questions anew, after a retryable error from one or from the log.

        The log's connection is another one: see ``LogStream.reconnect``. Raises SourceError, retryable while the server
        is away.

        This and what follows it, up to the next ``read`` of a log, may come from another thread than the rest; nothing
        else is asked meanwhile. A session that ends meanwhile does not wait for it before ``close``.
        """

    def format_position(self, position: int) -> str:
        """The position as the state holds it."""

    def open_log(self, position: int) -> LogStream: ...

    def open_chunk_reader(self) -> ChunkReader: ...

    def visibility(self) -> Fence:
        """What a snapshot opened now would see. Used by the engine's thread."""

    def barrier(self) -> Barrier:
        """Now, as ``passed`` understands it: kept in the state of a table that is captured from now on."""

    def passed(self, barrier: Barrier) -> bool:
        """Whether every transaction that had begun at ``barrier`` is over, and visible to snapshots opened now."""

    def split(self, binding: int, cursor: Key | None, until: Key | None, parts: int) -> list[Key]:
        """Keys, in order, that cut the scan's rest into up to ``parts`` ranges of about the same number of rows.

        From what the server knows (a histogram, least and greatest key), never by reading the table. Fewer than
        ``parts - 1`` keys, or none, when the range cannot be cut so.
        """

    def end_of_log(self) -> int:
        """Where the server's log ends now."""

    def retained(self) -> RetainedLog:
        """The log that the server keeps for this capture."""

    def replica_lag(self) -> float | None:
        """How far behind the slowest replica is, in seconds; None without replicas. Asked only when configured."""

    def chunk_head(self, binding: int, position: int) -> bytes:
        """What stands before a chunk row's tail in its captured line, for rows emitted at ``position``."""

    def truncation(self, binding: int, position: int) -> bytes:
        """A captured line that empties the table downstream; nothing where the configuration wants none."""

    def close(self) -> None: ...
