"""What a snapshot shows of the log, and where the log ends: by GTIDs, by positions, or by a row of a table of our own.

docs/backfill.md proves each of these. A transaction's id, as the log gives it and fences know it:

- MySQL with GTIDs: its GTID;
- MySQL without: the position after its commit, an integer. A log has both where ``gtid_mode`` was changed;
- MariaDB: ``transaction_id`` of its GTID, that position, and the xid of the prepared transaction that it commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tidemark.backfill.fence import TransactionId
from tidemark.captures.mysql.server.replication import end_of_log, has_gtids, prepared_xids, server_name
from tidemark.captures.mysql.server.session import Session, asking
from tidemark.captures.mysql.terms.columns import quoted_path
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.mysql.terms.gtid import Gtids, MariadbGtids, MysqlGtids, transaction_id
from tidemark.captures.mysql.terms.position import position
from tidemark.protocol.answers.removal import MadeObject
from tidemark.protocol.errors import SourceError

_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


@dataclass(frozen=True, slots=True)
class GtidFence:
    """MySQL: InnoDB commits before a GTID gets into ``gtid_executed``, so what was in it before is visible.

    Transactions without GTIDs have ended before ``gtid_mode`` becomes ON: those in the log before ``high`` are visible.
    """

    executed: MysqlGtids
    high: int

    def hides(self, txn: TransactionId) -> bool:
        gtid = str(txn)
        return int(gtid) > self.high if gtid.isdecimal() else gtid not in self.executed


@dataclass(frozen=True, slots=True)
class PositionFence:
    """Everything up to a position is visible, except prepared transactions that were being committed.

    Attributes:
        visible: That position.
        server: ``server_name`` of this one; empty where positions are not given together with GTIDs.
        gtids: Those that are visible, too: MariaDB, for transactions that another server's log gave; MySQL while
            ``gtid_mode`` is being changed.
        settled: MariaDB: where the log ended before ``prepared`` was asked for.
        prepared: MariaDB: the xids that XA RECOVER listed then, before the snapshot was opened. A prepared transaction
            whose commit the log had before, and that is not among them, is visible.
    """

    visible: int
    high: int
    server: str = ""
    gtids: Gtids | None = None
    settled: int = 0
    prepared: frozenset[str] = frozenset()

    def hides(self, txn: TransactionId) -> bool:
        gtid, at, place = str(txn).partition("@")
        if gtid.isdecimal():
            return int(gtid) > self.visible
        place, _, xid = place.partition("@")
        server, _, end = place.rpartition(":")
        if at and server == self.server:
            return not self.shows(int(end), xid)
        return self.gtids is None or gtid not in self.gtids or xid in self.prepared

    def shows(self, end: int, xid: str = "") -> bool:
        """Whether the snapshot shows the transaction whose commit this server's log has up to ``end``."""
        return end <= self.visible and not (xid and self._in_doubt(end, xid))

    def _in_doubt(self, end: int, xid: str) -> bool:
        return end > self.settled or xid in self.prepared


@dataclass(frozen=True, slots=True)
class NothingCertain:
    """Tables without transactions: each row is visible at once, and gets into the log later."""

    high: int

    def hides(self, txn: TransactionId) -> bool:
        return True


ServerFence = GtidFence | PositionFence


class FenceTaker(ABC):
    """Opens snapshots on a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @abstractmethod
    def open(self) -> ServerFence:
        """Begins a transaction with a snapshot, and returns what it shows. Raises pymysql.Error."""

    def logged(self) -> list[str]:
        """Ids that fences hide while they hide anything that is in the log now. Raises pymysql.Error."""
        return [str(end_of_log(self._session))]


class MariadbFences(FenceTaker):
    """The server says at which commit the snapshot was taken (``binlog_snapshot_file`` and ``_position``), exactly.

    XA COMMIT is an exception. It is in the log, and the snapshot's position is past it, before the engines commit,
    which takes a second with a full-text index. XA RECOVER lists its xid until they have.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._server = server_name(session)

    def open(self) -> PositionFence:
        # In this order: see docs/backfill.md.
        gtids = MariadbGtids(str(self._session.value("SELECT @@gtid_binlog_pos") or ""))
        logged = end_of_log(self._session)
        prepared = prepared_xids(self._session)
        self._session.rows(_SNAPSHOT)
        found = {
            str(name).lower(): str(value) for name, value in self._session.rows("SHOW STATUS LIKE 'binlog_snapshot_%'")
        }
        visible = position(found["binlog_snapshot_file"], int(found["binlog_snapshot_position"]))
        # A transaction is in gtid_binlog_pos before it is visible: only if the snapshot is past it, all of it is.
        return PositionFence(visible, visible, self._server, gtids if visible >= logged else None, logged, prepared)

    def logged(self) -> list[str]:
        gtids = str(self._session.value("SELECT @@gtid_binlog_pos") or "")
        end = end_of_log(self._session)
        return [transaction_id(gtid, self._server, end) for gtid in gtids.split(",") if gtid]


class MysqlGtidFences(FenceTaker):
    """``gtid_executed`` is read before the snapshot is opened, the position after."""

    def __init__(self, session: Session, config: EndpointConfig) -> None:
        super().__init__(session)
        self._config = config

    def open(self) -> GtidFence:
        mode, executed = self._session.rows("SELECT @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed")[0]
        if str(mode) != "ON":
            ensure_watermark_table(self._session, self._config)  # The fences of the next session write to it.
            raise SourceError("TM-MY-020", "gtid_mode is no longer ON")
        self._session.rows(_SNAPSHOT)
        return GtidFence(MysqlGtids(str(executed)), end_of_log(self._session))

    def logged(self) -> list[str]:
        return []  # A log is read from a visible position on: see tidemark.captures.mysql.log.resumption.


class WatermarkFences(FenceTaker):
    """A row is written between reading the log's end and opening the snapshot.

    MySQL's engines commit in the order of the binlog (``binlog_order_commits``). So after our commit, everything that
    the log had before it is visible.
    """

    def __init__(self, session: Session, table: tuple[str, str]) -> None:
        super().__init__(session)
        self._table = quoted_path(table)

    def open(self) -> PositionFence:
        executed = MysqlGtids(str(self._session.value("SELECT @@GLOBAL.gtid_executed") or ""))
        logged = end_of_log(self._session)
        self._session.rows(
            f"INSERT INTO {self._table} (id, n) VALUES (CONNECTION_ID() % 64, 1) ON DUPLICATE KEY UPDATE n = n + 1"
        )
        self._session.rows(_SNAPSHOT)
        return PositionFence(logged, end_of_log(self._session), gtids=executed)


class UncertainSnapshots(FenceTaker):
    """Snapshots for a plan, which reads no log: nothing is written for them, and what they show is unknown."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        session.rows("SET SESSION TRANSACTION READ ONLY")

    def open(self) -> PositionFence:
        self._session.rows(_SNAPSHOT)
        return PositionFence(0, end_of_log(self._session))


def fence_taker(session: Session, config: EndpointConfig, *, only_reads: bool = False) -> FenceTaker:
    """Chooses how snapshots are opened on this server; ``only_reads``: for a plan, which writes nothing. Raises
    pymysql.Error, and SourceError ``TM-MY-011`` on MySQL without GTIDs if there is no watermark table in the
    configuration.
    """
    if only_reads:
        return UncertainSnapshots(session)
    if session.mariadb:
        return MariadbFences(session)
    if has_gtids(session):
        return MysqlGtidFences(session, config)
    if config.watermark_path is None:
        raise SourceError(
            "TM-MY-011",
            f"GTIDs are off at {config.where}, and no watermark_table is configured",
            remedy="Enable GTIDs (gtid_mode=ON, enforce_gtid_consistency=ON), or set `watermark_table`.",
        )
    return WatermarkFences(session, config.watermark_path)


_COLUMNS = """
SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s
ORDER BY ordinal_position
"""


def ensure_watermark_table(session: Session, config: EndpointConfig) -> bool:
    """Creates the watermark table if it is needed and missing; returns whether it did. Raises pymysql.Error."""
    path = config.watermark_path
    if path is None or session.mariadb or has_gtids(session):
        return False
    if session.value("SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s", *path):
        return False
    session.rows(create_watermark_table(path))
    return True


def create_watermark_table(table: tuple[str, str]) -> str:
    """The statement that creates the watermark table if it is missing."""
    return f"CREATE TABLE IF NOT EXISTS {quoted_path(table)} (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB"


def made_objects(session: Session, config: EndpointConfig) -> list[MadeObject]:
    """The watermark table, if it exists: all that a capture makes. Raises SourceError."""
    path = config.watermark_path
    if path is None:
        return []
    with asking("looking for the watermark table"):
        columns = session.rows(_COLUMNS, *path)
    if not columns:
        return []
    own = [(str(name).lower(), str(kind).lower()) for name, kind in columns] == [("id", "int"), ("n", "bigint")]
    return [
        MadeObject(
            what=f"watermark table {config.watermark_table}",
            statement=f"DROP TABLE {quoted_path(path)}",
            kept="" if own else "its columns are not those of a watermark table",
        )
    ]
