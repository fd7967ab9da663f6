"""What a PostgreSQL snapshot sees, how it answers for transactions that the log names by 32 bits, how one is imported;
and the high side of a fence, a log position at or after every transaction that a snapshot sees.

``pg_current_snapshot()`` prints ``xmin:xmax:xip,…`` in 64-bit transaction ids; pgoutput's Begin has the low 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import sql

from tidemark.backfill.fence import TransactionId
from tidemark.captures.postgres.server.positions import parse_lsn
from tidemark.captures.postgres.server.session import asking, in_recovery

_EPOCH = 1 << 32
_HALF = 1 << 31

MESSAGE_PREFIX = "tidemark"

_INSERT_POSITION = "pg_current_wal_insert_lsn()"

# While a standby replays a commit, it shows the transaction a moment before the replay position moves past the record.
# So if more of the log is there than was replayed, the position must be later than the present one: it is the end of
# a record, and the next such end is that of the commit in question.
_REPLAY_POSITION = """
CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()
     THEN pg_last_wal_replay_lsn() ELSE pg_last_wal_replay_lsn() + 1 END
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Transactions below ``xmin`` are over, those from ``xmax`` on had not begun, ``running`` ran at that moment.

    A snapshot that was taken on a standby knows which transactions run, but its text does not say them.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str, *, recovery: bool = False) -> Snapshot:
        """Reads the text form of ``pg_snapshot`` (PostgreSQL docs, table 9.84).

        Args:
            recovery: The server was a standby when the snapshot was taken, or shortly before: every transaction from
                ``xmin`` on counts as hidden.
        """
        xmin, xmax, running = text.split(":")
        return cls(
            int(xmin),
            int(xmin) if recovery else int(xmax),
            frozenset(map(int, running.split(","))) if running else frozenset(),
        )

    def hides(self, xid: int) -> bool:
        """Whether the changes of a transaction that the log has shown are not in this snapshot.

        ``xid`` may be the low 32 bits: of the ids they can stand for, the one nearest to ``xmax`` is meant, since two
        transactions alive at once are never further apart than half of the 32-bit space.
        """
        full = self.xmax - self.xmax % _EPOCH + xid % _EPOCH
        if full - self.xmax >= _HALF:
            full -= _EPOCH
        elif self.xmax - full > _HALF:
            full += _EPOCH
        return full >= self.xmax or full in self.running


@dataclass(frozen=True, slots=True)
class SnapshotFence:
    """A chunk's fence: its snapshot, and a log position at or after every transaction that the snapshot sees."""

    snapshot: Snapshot
    high: int

    def hides(self, txn: TransactionId) -> bool:
        return self.snapshot.hides(int(txn))


def high_position(session: psycopg.Connection, *, read_only: bool) -> int:
    """A position at or after every transaction that a snapshot sees which was opened before. Raises SourceError.

    On a primary, a transactional logical message is committed with ``synchronous_commit = local``: it is flushed at
    once, waits for no standby, and its own commit makes the log reader pass the position even where nothing else is
    written. When ``read_only``, the log's insert position is used instead, and on a standby the replay position; the
    reader passes those by keepalives.
    """
    with asking("taking a fence"):
        if read_only or in_recovery(session):
            # A standby may be promoted at any moment: what it is, is decided where the position is taken.
            row = session.execute(
                f"SELECT CASE WHEN pg_is_in_recovery() THEN {_REPLAY_POSITION} ELSE {_INSERT_POSITION} END"
            ).fetchone()
        else:
            row = session.execute("SELECT pg_logical_emit_message(true, %s, '')", [MESSAGE_PREFIX]).fetchone()
    assert row is not None
    return parse_lsn(row[0])


@dataclass(frozen=True, slots=True)
class ImportedSnapshot:
    """What a chunk of a table without a key reads in: see ``tidemark.captures.postgres.tables.counted_scans``.

    Plain data: a reader's process gets it with the table.

    Attributes:
        exported: The name of a snapshot to import; empty for the chunk's own.
        before: Only rows of transactions below this one; None for all that the snapshot shows.
        running: And of none of these.
    """

    exported: str = ""
    before: int | None = None
    running: tuple[int, ...] = ()

    def imported(self) -> sql.Composable:
        """The statement that imports it, as a transaction's first; nothing for a chunk's own."""
        if not self.exported:
            return sql.SQL("")
        return sql.SQL("SET TRANSACTION SNAPSHOT {};").format(sql.Literal(self.exported))

    def conditions(self) -> list[sql.Composable]:
        """For the rows of a chunk."""
        if self.before is None:
            return []
        writer = sql.SQL("xmin::text::bigint")
        conditions: list[sql.Composable] = [sql.SQL("{} < {}").format(writer, sql.Literal(self.before))]
        if self.running:
            running = sql.SQL(", ").join(map(sql.Literal, self.running))
            conditions.append(sql.SQL("{} NOT IN ({})").format(writer, running))
        return conditions


OWN = ImportedSnapshot()
"""A chunk's own, of which it reads every row."""
