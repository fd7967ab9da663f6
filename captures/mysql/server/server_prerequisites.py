"""What a server must have and let the account do, so that it can be captured."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence

import pymysql
from pymysql.constants import ER

from tidemark.captures.mysql.server.authentication import quoted_text
from tidemark.captures.mysql.server.replication import has_gtids, log_status, replica_status
from tidemark.captures.mysql.server.session import Session, error_of
from tidemark.captures.mysql.terms.config import EndpointConfig, ResourceConfig, replica_id
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

MINIMUM_RETENTION_HOURS = 24
RECOMMENDED_RETENTION_HOURS = 72

_MAY_REPLICATE = re.compile(r"\b(ALL PRIVILEGES|REPLICATION (SLAVE|REPLICA))\b(?! ADMIN).* ON \*\.\*", re.IGNORECASE)
_MAY_SELECT = re.compile(r"\b(ALL PRIVILEGES|SELECT)\b.* ON ", re.IGNORECASE)
_ANONYMOUS = "''@"


def server_failures(
    session: Session, config: EndpointConfig, resources: Sequence[ResourceConfig]
) -> Iterator[SourceError]:
    """Why nothing of the server can be captured. Raises pymysql.Error."""
    yield from _log(session, resources)
    yield from _retention(session)
    yield from _replication(session, config, resources)


def _log(session: Session, resources: Sequence[ResourceConfig]) -> Iterator[SourceError]:
    found = session.variables("log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata")
    if found.get("log_bin") != "ON":
        yield SourceError("TM-MY-005", "the server writes no binary log: log_bin is off")
        return
    for name, wanted in (("binlog_format", "ROW"), ("binlog_row_image", "FULL")):
        if found.get(name, wanted).upper() != wanted:
            yield SourceError(
                "TM-MY-005",
                f"{name} is {found[name]}",
                remedy=(
                    f"Run: SET GLOBAL {name} = '{wanted}'; set it in the server's configuration (on RDS, "
                    "Aurora, Cloud SQL and Azure: its parameters), and let the applications reconnect."
                ),
            )
    if found.get("binlog_row_metadata", "").upper() != "FULL":
        logger.warning(
            "binlog_row_metadata is not FULL: the connector follows columns by the ALTER statements. If the server "
            "has the setting, better use: SET GLOBAL binlog_row_metadata = 'FULL'"
        )
    yield from _filters(session, resources)


def _filters(session: Session, resources: Sequence[ResourceConfig]) -> Iterator[SourceError]:
    try:
        status = log_status(session)
    except pymysql.Error as error:
        if error_of(error)[0] != ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise
        return  # The check of the user's grants reports it.
    if not status:
        return
    only, never = (set(filter(None, str(value or "").split(","))) for value in status[0][2:4])
    schemas = sorted({resource.schema_name for resource in resources})
    if missing := [schema for schema in schemas if (only and schema not in only) or schema in never]:
        yield SourceError(
            "TM-MY-011",
            f"the server leaves {', '.join(missing)} out of its binary log",
            remedy="Remove binlog_do_db and binlog_ignore_db from the server's configuration, and restart it.",
        )
    elif only or never:
        # Rows are left out by their own database, statements by the default one of their session.
        logger.warning(
            "the server has binlog_do_db or binlog_ignore_db: a TRUNCATE or ALTER of a captured table is missing from "
            "the log if the session's default database is left out. Better remove both from the server's configuration"
        )


def _retention(session: Session) -> Iterator[SourceError]:
    hours, longer = _retention_hours(session)
    if hours is None:
        return
    if hours < MINIMUM_RETENTION_HOURS:
        yield SourceError(
            "TM-MY-012",
            f"the server keeps binary logs for {hours:g} hours",
            remedy=f"Run: {longer}; and set it in the server's configuration. A capture that was stopped for longer "
            "than the server keeps its logs has to read its tables again.",
        )
    elif hours < RECOMMENDED_RETENTION_HOURS:
        logger.warning(
            "the server keeps binary logs for %g hours; a capture that stops for longer has to read all tables again",
            hours,
        )


def _retention_hours(session: Session) -> tuple[float | None, str]:
    """The hours for which binary logs are kept, None for ever, and the statement that keeps them for a week."""
    try:
        found = session.rows("SELECT value FROM mysql.rds_configuration WHERE name = 'binlog retention hours'")
        if found:
            # NULL: until the server's own replicas and backups no longer need them.
            return float(found[0][0] or 0), "CALL mysql.rds_set_configuration('binlog retention hours', 168)"
    except pymysql.Error as error:
        if error_of(error)[0] not in (ER.NO_SUCH_TABLE, ER.TABLEACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR):
            raise
    kept = session.variables("binlog_expire_logs_seconds", "expire_logs_days", "binlog_expire_logs_auto_purge")
    if kept.get("binlog_expire_logs_auto_purge") == "OFF":
        return None, ""
    # MySQL accepts only one of the two. MySQL 5.7 and MariaDB 10.5 have only the days.
    if seconds := float(kept.get("binlog_expire_logs_seconds") or 0):
        return seconds / 3600, "SET GLOBAL binlog_expire_logs_seconds = 604800"
    return float(kept.get("expire_logs_days") or 0) * 24 or None, "SET GLOBAL expire_logs_days = 7"


def _replication(
    session: Session, config: EndpointConfig, resources: Sequence[ResourceConfig]
) -> Iterator[SourceError]:
    yield from _missing_grants(session, config, may_see_none=not resources)
    server_id = int(session.value("SELECT @@server_id"))
    if server_id == 0:
        yield SourceError(
            "TM-MY-011",
            "the server's server_id is 0: it accepts no replicas",
            remedy="Run: SET GLOBAL server_id = 1;",
        )
    elif server_id == replica_id(config, resources):
        yield SourceError(
            "TM-MY-011",
            f"the server itself has the capture's server_id {server_id}",
            remedy="Choose another server_id in the capture's configuration; it must be unique among all replicas.",
        )
    found = session.variables("log_slave_updates", "log_replica_updates", "binlog_order_commits")
    if "OFF" in (found.get("log_slave_updates"), found.get("log_replica_updates")) and _is_replica(session):
        yield SourceError(
            "TM-MY-011",
            "the server is a replica that does not log what it replicates",
            remedy="Set log_slave_updates=ON (log_replica_updates) in its configuration and restart it.",
        )
    if session.mariadb or has_gtids(session):
        return
    if config.watermark_path is None:
        yield SourceError(
            "TM-MY-011",
            "GTIDs are off, and no watermark_table is configured",
            remedy=(
                "Enable GTIDs (gtid_mode=ON, enforce_gtid_consistency=ON), or set `watermark_table` to a "
                "schema.table that the user may create and write to."
            ),
        )
    elif found.get("binlog_order_commits") == "OFF":
        yield SourceError(
            "TM-MY-011",
            "GTIDs and binlog_order_commits are off: the log position of a snapshot is unknown",
            remedy="Run: SET GLOBAL binlog_order_commits = ON;",
        )


def _missing_grants(session: Session, config: EndpointConfig, *, may_see_none: bool) -> Iterator[SourceError]:
    """The errors for privileges that the account lacks; ``may_see_none``: it may see no table. Raises pymysql.Error."""
    account = session.account()
    monitor = "BINLOG MONITOR" if session.mariadb else "REPLICATION CLIENT"
    lines = [str(row[0]) for row in session.rows("SHOW GRANTS")]
    # Not every server lists what a role grants. Opening the log shows it then.
    has_roles = any(" ON " not in line for line in lines)
    missing = [] if has_roles or any(map(_MAY_REPLICATE.search, lines)) else ["REPLICATION SLAVE"]
    try:
        session.rows("SHOW BINARY LOGS")
    except pymysql.Error as error:
        number = error_of(error)[0]
        if number == ER.SPECIFIC_ACCESS_DENIED_ERROR:
            missing.append(monitor)
        elif number != ER.NO_BINARY_LOGGING:
            raise
    none_seen = may_see_none and not has_roles and not any(map(_MAY_SELECT.search, lines))
    if (missing or none_seen) and config.user and account.startswith(_ANONYMOUS):
        yield _anonymous(config, account)
        return
    if missing:
        privileges = ", ".join(missing)
        yield SourceError(
            "TM-MY-006",
            f"user {config.user} lacks {privileges}",
            remedy=f"Run, as an administrator: GRANT {privileges} ON *.* TO {account};",
        )
    if none_seen:
        yield SourceError(
            "TM-MY-008",
            f"user {config.user} may read no table, and so sees none",
            remedy=f"Run, as an administrator, for each schema with tables to capture: GRANT SELECT ON `SCHEMA`.* TO "
            f"{account};",
        )


def _anonymous(config: EndpointConfig, account: str) -> SourceError:
    """An account without a name matches every user of its host, and hosts are compared first."""
    own = f"{quoted_text(config.user)}@{account.removeprefix(_ANONYMOUS)}"
    return SourceError(
        "TM-MY-006",
        f"user {config.user} lacks privileges: the server takes it for the anonymous account {account}, which comes "
        "before accounts of its name for other hosts",
        remedy=f"Run, as an administrator: DROP USER {account}; or make the account {own}, with the same privileges.",
    )


def _is_replica(session: Session) -> bool:
    try:
        return bool(replica_status(session))
    except pymysql.Error as error:
        if error_of(error)[0] != ER.SPECIFIC_ACCESS_DENIED_ERROR:
            raise
        logger.warning("this user may not see whether the server is a replica; a replica must log what it replicates")
        return False
