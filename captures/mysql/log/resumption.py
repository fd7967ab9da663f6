"""Whether a capture can resume in a server's binary log, and where a new capture begins.

A position has a file and an offset, which are valid on one server until its log is reset, and GTIDs, which are valid on
every server with the same history. So a capture moves to another server by GTIDs.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

import pymysql

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.contract.source import RetainedLog
from tidemark.captures.mysql.server.replication import WithoutGtids, has_gtids, log_file_and_offset, server_name
from tidemark.captures.mysql.server.session import Session
from tidemark.captures.mysql.terms.config import EndpointConfig
from tidemark.captures.mysql.terms.gtid import MariadbGtids, MysqlGtids
from tidemark.captures.mysql.terms.position import FIRST_EVENT, LogPosition, position
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

_TRIES = 50


def server_identity(session: Session) -> JsonObject:
    """The identity of a server and its log. Raises pymysql.Error, SourceError ``TM-MY-005``."""
    file, _ = log_file_and_offset(session)
    return {
        "product": "mariadb" if session.mariadb else "mysql",
        "server": server_name(session),
        "base": file.rpartition(".")[0],
    }


def log_files(session: Session) -> dict[str, int]:
    """The sizes of the files that the server still has, oldest first. Raises pymysql.Error."""
    return {str(row[0]): int(row[1]) for row in session.rows("SHOW BINARY LOGS")}


def retained_from(session: Session, at: LogPosition) -> RetainedLog:
    """The log from a position on. The server keeps it by time, so there is no limit of size. Raises pymysql.Error."""
    if not at.file:
        return RetainedLog(None)
    files = log_files(session)
    size = sum(size for file, size in files.items() if position(file, 0) >= position(at.file, 0)) - at.offset
    by = f"in binary logs from {at.file} on"
    if at.file not in files:
        reset = bool(files) and position(at.file, 0) > max(position(file, 0) for file in files)
        return RetainedLog(None, by=f"{by}, which {'is not there since the log was reset' if reset else 'is purged'}")
    # A log that was reset has begun the same file again, and ends before the position.
    return RetainedLog(None, by=f"{by}, which was reset") if size < 0 else RetainedLog(size, by=by)


def end_position(session: Session) -> LogPosition:
    """The end of the log, with the GTIDs of everything before it. Raises pymysql.Error, SourceError ``TM-MY-005``."""
    if not session.mariadb:
        # A transaction that is in the log and not yet in gtid_executed is only read twice.
        gtids = str(MysqlGtids(str(session.value("SELECT @@GLOBAL.gtid_executed")))) if has_gtids(session) else ""
        return LogPosition(*log_file_and_offset(session), gtids)
    for _ in range(_TRIES):
        end = log_file_and_offset(session)
        gtids = str(session.value("SELECT @@gtid_binlog_pos") or "")
        if log_file_and_offset(session) == end:
            return LogPosition(*end, _canonical(gtids))
    # Commits never pause: the server reads the file from its beginning for this.
    at = _gtids_at(session, *end)
    if at is None:
        raise SourceError("TM-MY-019", f"the GTIDs at {end[0]}:{end[1]} cannot be determined while transactions commit")
    return LogPosition(*end, _canonical(at))


def continued(session: Session, config: EndpointConfig, stored: LogPosition, identity: JsonObject) -> LogPosition:
    """The stored position as one of this server, from the ``identity`` of the one to which it belongs, empty if
    unknown.

    Raises pymysql.Error, and LostPosition: ``TM-MY-015`` this server has purged events after it, ``TM-MY-016`` this is
    another server, or another log, that does not continue from it.
    """
    now = server_identity(session)
    identity = {name: identity[name] for name in now if name in identity}  # It also describes tables.
    by_gtids = bool(stored.gtids) and (session.mariadb or has_gtids(session))
    if not by_gtids:
        stored = replace(stored, gtids="")  # They do not name what was logged since they were switched off.
    if stored.file and identity == now:
        return _continued_here(session, config, stored, by_gtids=by_gtids)
    if not by_gtids:
        raise LostPosition(
            "TM-MY-016",
            f"{config.where} is not the server that the capture has read ({identity.get('server', 'unknown')}), and "
            "without GTIDs a position is valid only on its own server",
        )
    _check_history(session, config, stored)
    return stored.elsewhere()


def _continued_here(session: Session, config: EndpointConfig, stored: LogPosition, *, by_gtids: bool) -> LogPosition:
    """The position on the server that the capture has read: it must be in the present log.

    GTIDs alone do not show that: after RESET MASTER the server gives out the same ones again.
    """
    files = log_files(session)
    size = files.get(stored.file)
    if size is None:
        if files and stored.order > max(map(position, files, files.values())):
            raise LostPosition("TM-MY-016", f"the binary log of {config.where} was reset: it has no {stored.file} yet")
        if not by_gtids:
            raise LostPosition(
                "TM-MY-015", f"{config.where} has purged {stored.file}, the file of the capture's position"
            )
        # Perhaps the file had nothing after the position.
        _check_history(session, config, stored)
        return stored.elsewhere()
    here = stored.offset <= size and _is_boundary(session, stored)
    if here and session.mariadb and by_gtids:
        # All events after it are there, even if the server has forgotten domains from before it.
        domains = {domain for domain, _ in _last_numbers(str(session.value("SELECT @@gtid_binlog_state") or ""))}
        stored = replace(stored, gtids=_of_domains(stored.gtids, domains) or stored.gtids)
        at = _gtids_at(session, stored.file, stored.offset)
        if at is None:
            _check_mariadb_has_read(session, config, stored, {})
        else:
            here = _of_domains(at, domains) == _canonical(stored.gtids)
    if not here:
        raise LostPosition(
            "TM-MY-016", f"{stored.file} of {config.where} is not the file that the capture has read: the log was reset"
        )
    if by_gtids and not session.mariadb:
        _check_mysql_history(session, config, stored)
    return stored


def _check_history(session: Session, config: EndpointConfig, stored: LogPosition) -> None:
    """Checks that the server has what was read, and all events after it. Raises LostPosition."""
    (_check_mariadb_history if session.mariadb else _check_mysql_history)(session, config, stored)


def _check_mysql_history(session: Session, config: EndpointConfig, stored: LogPosition) -> None:
    read = MysqlGtids(stored.gtids)
    executed, purged = (
        MysqlGtids(str(value)) for value in session.rows("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged")[0]
    )
    if not executed.contains_all(read):
        raise LostPosition(
            "TM-MY-016",
            f"{config.where} has not executed all transactions that the capture has read: it is another server, was "
            "reset or restored, or a failover lost them",
        )
    if not read.contains_all(purged):
        raise LostPosition("TM-MY-015", f"{config.where} has purged transactions that the capture has not read")


def _check_mariadb_history(session: Session, config: EndpointConfig, stored: LogPosition) -> None:
    first = next(iter(log_files(session)), None)
    oldest = _last_numbers("" if first is None else _gtids_at(session, first, FIRST_EVENT) or "")
    _check_mariadb_has_read(session, config, stored, oldest)
    read = {domain: number for (domain, _), number in _last_numbers(stored.gtids).items()}
    for (domain, _), number in oldest.items():
        if number > read.get(domain, 0):
            raise LostPosition("TM-MY-015", f"{config.where} has purged its binary logs past {stored.gtids}")


def _check_mariadb_has_read(
    session: Session, config: EndpointConfig, stored: LogPosition, oldest: Mapping[tuple[int, int], int]
) -> None:
    """Checks that the server has executed what was read. Raises LostPosition. ``oldest`` are the last numbers before
    the oldest file: they include domains that FLUSH BINARY LOGS DELETE_DOMAIN_ID removed.
    """
    state = _last_numbers(str(session.value("SELECT @@gtid_binlog_state") or ""))
    for of, number in _last_numbers(stored.gtids).items():
        if max(state.get(of, 0), oldest.get(of, 0)) < number:
            raise LostPosition(
                "TM-MY-016",
                f"the binary log of {config.where} does not have transaction {of[0]}-{of[1]}-{number}, up to which the "
                "capture has read: it is another server, was reset or restored, or a failover lost it",
            )


def _is_boundary(session: Session, stored: LogPosition) -> bool:
    """Whether an event begins at the position, or the file ends there, and the event before it begins where it did.

    In another file that could be true by chance. The log's stream detects it: see
    ``tidemark.captures.mysql.log.binlog_cursor``.
    """
    before = [] if stored.last is None or not stored.last.start else [stored.last.start]
    return all(_kinds(session, stored.file, offset, 1) is not None for offset in (*before, stored.offset))


def _kinds(session: Session, file: str, offset: int, count: int) -> list[str] | None:
    """What kinds of events follow, so many at most; None if none begins there, and the file does not end there."""
    try:
        # A statement is shown in the character set of its client.
        rows = session.rows_of_bytes(f"SHOW BINLOG EVENTS IN %s FROM {offset} LIMIT {count}", file)
    except pymysql.OperationalError as error:
        if error.args[0] != pymysql.constants.ER.ERROR_WHEN_EXECUTING_COMMAND:
            raise
        return None
    return [row[2].decode() for row in rows]


def check_gtids(session: Session, at: LogPosition) -> None:
    """MySQL: the first transaction after a position must have a GTID. Raises WithoutGtids, pymysql.Error.

    A stream by GTIDs begins in the latest file that has all of the others before it, and would pass it over.
    """
    later = [file for file in log_files(session) if position(file, 0) > position(at.file, 0)]
    for file, start in ((at.file, at.offset), *((file, FIRST_EVENT) for file in later)):
        for kind in _kinds(session, file, start, 3) or ():
            if kind == "Anonymous_Gtid":
                raise WithoutGtids("TM-MY-020", f"in {file} the log goes on without GTIDs")
            if kind.startswith("Gtid"):
                return


def _gtids_at(session: Session, file: str, offset: int) -> str | None:
    """MariaDB: the position by GTIDs at a place in its log; None when no event begins there.

    It is None, too, when the file has an event before it that is larger than ``max_allowed_packet``.
    """
    found = session.value("SELECT BINLOG_GTID_POS(%s, %s)", file, offset)
    return None if found is None else str(found)


def _of_domains(gtids: str, domains: Container[int]) -> str:
    """MariaDB: a position without the domains that FLUSH BINARY LOGS DELETE_DOMAIN_ID removed."""
    return _canonical(",".join(each for each in gtids.split(",") if each and int(each.partition("-")[0]) in domains))


def _canonical(gtids: str) -> str:
    return str(MariadbGtids(gtids))


def _last_numbers(state: str) -> dict[tuple[int, int], int]:
    """MariaDB's ``gtid_binlog_state``: the last number of each server in each domain."""
    numbers = [tuple(map(int, gtid.split("-"))) for gtid in state.split(",") if gtid]
    return {(domain, server): number for domain, server, number in numbers}
