"""Connections, with settings that give every value one text form, and the connector's errors for failures."""

from __future__ import annotations

import logging
import select
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo

from tidemark.captures.contract.errors import TableAway
from tidemark.protocol.errors import SourceError

if TYPE_CHECKING:
    from tidemark.captures.postgres.server.config import EndpointConfig

logger = logging.getLogger(__name__)

# Given as start-up options, which win over ALTER ROLE … SET and ALTER DATABASE … SET. Both the walsender and the
# sessions that read chunks get the same ones: a value must read the same from the log and from a chunk.
_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    # The server reads keys back: in a key of an array type NULL must not become the text NULL.
    "array_nulls": "on",
    # Types, also those of extensions, are recognised by their names.
    "quote_all_identifiers": "off",
    "search_path": "pg_catalog",
    # What we commit (a fence message, a publication) must be flushed, but must not wait for a standby.
    "synchronous_commit": "local",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # Row security would leave rows out of chunks silently. An error is raised instead.
    "row_security": "off",
    # A reader that waits for a lock blocks the sessions behind it, so it gives up and tries again.
    "lock_timeout": "10s",
    # A parallel plan reads keys out of order and takes workers from the application.
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}

# Chunks are read along the key's index. A sort would read the rest of the table for each of them. Other sessions sort:
# without it, the server joins the catalogs of thousands of tables row by row.
_ROWS_SETTINGS = {**_SETTINGS, "enable_sort": "off"}

# A walsender that hears nothing for this long gives up. A slow reader of stdout may block the connector for long.
_REPLICATION_SETTINGS = {**_SETTINGS, "wal_sender_timeout": "300s", "client_min_messages": "warning"}

_TLS_FAILURES = ("certificate", "private key", "does not support SSL")
"""Words of libpq and OpenSSL. A TLS connection that broke has others, and passes."""

APPLICATION_NAME = "tidemark"
CONNECT_TIMEOUT_SECONDS = 15

ANSWER_SECONDS = 20.0
"""How long a question of a capture that runs may take: longer than ``lock_timeout``, and far less than the time after
which a runtime takes a connector that says nothing for one that hangs."""

LONG_ANSWER_SECONDS = 60.0
"""The same for questions about all tables, while nothing else waits for the answer."""

DEADLOCK = "40P01"
"""SQLSTATE."""

DEADLOCKS = 5
"""So often in a row a deadlock is taken for an accident."""

T = TypeVar("T")


class Deadlock(SourceError):
    """The server ended a statement of ours to resolve a deadlock: nothing is wrong, and it can be run again."""


def despite_deadlocks(attempt: Callable[[], T]) -> T:
    """What ``attempt`` gives, which is tried again after a deadlock. Raises as it does."""
    for _ in range(DEADLOCKS - 1):
        try:
            return attempt()
        except Deadlock as deadlock:
            logger.info("%s; it is tried again", deadlock.message)
    return attempt()


class BoundedConnection(psycopg.Connection):
    """A connection whose server must answer in time: a network may fail without an error.

    Keepalives do not tell: whatever stands between may go on acknowledging what it no longer passes on.

    Attributes:
        answer_seconds: How long a question may take. The statements of a backfill are not among them.
    """

    answer_seconds = ANSWER_SECONDS

    def wait(self, gen: PQGen[T], interval: float = 1.0, timeout: float | None = None) -> T:
        # psycopg takes a timeout from version 3.3 on only.
        seconds = self.answer_seconds if timeout is None else timeout
        return super().wait(_bounded(gen, seconds), min(interval, seconds))


def _bounded(gen: PQGen[T], seconds: float) -> PQGen[T]:
    deadline = time.monotonic() + seconds
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if not ready and time.monotonic() >= deadline:
                raise psycopg.OperationalError(f"the server has not answered for {seconds:.0f} s")
            awaited = gen.send(ready)
    except StopIteration as ended:
        result: T = ended.value
        return result


def conninfo(
    config: EndpointConfig,
    *,
    replication: bool = False,
    application: str = APPLICATION_NAME,
    settings: Mapping[str, str] = _SETTINGS,
) -> str:
    """The libpq connection string. It holds the password: never log it."""
    settings = dict(_REPLICATION_SETTINGS if replication else settings)
    # With read_only the server refuses writes, too.
    settings["default_transaction_read_only"] = "on" if config.read_only else "off"
    return make_conninfo(
        host=config.host,
        port=config.port,
        dbname=config.database,
        user=config.user,
        password=config.password.get_secret_value() or None,
        sslmode=config.sslmode,
        sslrootcert=config.sslrootcert,
        sslcert=config.sslcert,
        sslkey=config.sslkey,
        application_name=application,
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
        tcp_user_timeout=60_000,
        client_encoding="UTF8",
        options=" ".join(f"-c {name}={value}" for name, value in settings.items()),
        replication="database" if replication else None,
    )


@dataclass(frozen=True, slots=True)
class ReaderEndpoint:
    """The server, and how a reader of chunks connects to it. The connection strings hold the password.

    A reader's process needs no more, and does not import the module that parses the configuration, which is slow.

    Attributes:
        conninfo: Of its session for questions.
        rows_conninfo: Of the connection that reads rows.
    """

    host: str
    port: int
    database: str
    user: str
    read_only: bool
    conninfo: str = field(repr=False)
    rows_conninfo: str = field(repr=False)

    @classmethod
    def of(cls, config: EndpointConfig) -> Self:
        rows = conninfo(config, settings=_ROWS_SETTINGS)
        return cls(config.host, config.port, config.database, config.user, config.read_only, conninfo(config), rows)


def connect(config: EndpointConfig | ReaderEndpoint, answer_seconds: float = ANSWER_SECONDS) -> BoundedConnection:
    """An autocommit session.

    Raises:
        SourceError: ``TM-PG-001`` no connection, ``TM-PG-002`` refused credentials, ``TM-PG-003`` no such database.
    """
    parameters = config.conninfo if isinstance(config, ReaderEndpoint) else conninfo(config)
    try:
        connection = BoundedConnection.connect(parameters, autocommit=True)
    except psycopg.OperationalError as error:
        raise connection_failure(config, str(error)) from None
    _let_transactions_last(connection.pgconn)
    connection.answer_seconds = answer_seconds
    return connection


def connect_pq(
    config: EndpointConfig | ReaderEndpoint, *, replication: bool = False, application: str = APPLICATION_NAME
) -> pq.abc.PGconn:
    """A bare libpq connection, for rows and for replication. Raises as ``connect``."""
    if isinstance(config, ReaderEndpoint):
        parameters = config.rows_conninfo
    else:
        parameters = conninfo(config, replication=replication, application=application)
    # PGconn.connect() would block all other threads until it is done.
    connection = pq.PGconn.connect_start(parameters.encode())
    deadline = time.monotonic() + CONNECT_TIMEOUT_SECONDS
    state = int(pq.PollingStatus.WRITING)
    while connection.status != pq.ConnStatus.BAD and state in (pq.PollingStatus.READING, pq.PollingStatus.WRITING):
        sockets = [connection.socket]
        reading = state == pq.PollingStatus.READING
        left = max(0.0, deadline - time.monotonic())
        if not any(select.select(sockets if reading else [], [] if reading else sockets, [], left)):
            connection.finish()
            raise connection_failure(config, f"no answer within {CONNECT_TIMEOUT_SECONDS} s")
        state = connection.connect_poll()
    if connection.status != pq.ConnStatus.OK:
        failure = connection_failure(config, error_text(connection))
        connection.finish()
        raise failure
    _let_transactions_last(connection)
    return connection


def _let_transactions_last(connection: pq.abc.PGconn) -> None:
    """Resets a transaction_timeout of the role or the database, which would also end a walsender.

    It is no start-up option: servers before version 17 do not know the setting, and would refuse the connection.
    """
    if connection.server_version >= 170000:
        try:
            execute_within(connection, b"SET transaction_timeout = 0", CONNECT_TIMEOUT_SECONDS)
        except BaseException:
            connection.finish()
            raise


def in_recovery(session: psycopg.Connection) -> bool:
    """Whether the server is a standby, as of the session's last statement. The server reports each change."""
    return session.info.parameter_status("in_hot_standby") == "on"


def execute_within(connection: pq.abc.PGconn, statement: bytes, seconds: float) -> pq.abc.PGresult:
    """The result of a statement, or the first result of the stream that it starts.

    Raises:
        SourceError: ``TM-PG-020`` the connection broke, or the server did not answer within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    try:
        connection.send_query(statement)
        while connection.is_busy():
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([connection.socket], [], [], left)[0]:
                raise SourceError("TM-PG-020", f"the server has not answered for {seconds:.0f} s")
            connection.consume_input()
        result = connection.get_result()
        if result is not None and result.status != pq.ExecStatus.COPY_BOTH:
            connection.get_result()  # The end of the statement: the connection is free for the next one.
    except psycopg.OperationalError as error:
        raise SourceError("TM-PG-020", f"the connection broke: {' '.join(str(error).split())}") from None
    if result is None:
        raise SourceError("TM-PG-020", f"the connection broke: {error_text(connection)}")
    return result


def error_text(connection: pq.abc.PGconn) -> str:
    """libpq's message for the last error."""
    return connection.error_message.decode("utf-8", "replace").strip()


def refusal(result: pq.abc.PGresult | None) -> tuple[str, str]:
    """The SQLSTATE and message of a statement that failed; empty texts if the server gave none."""
    if result is None:
        return "", ""
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
    return state.decode(), message.decode("utf-8", "replace")


def connection_failure(config: EndpointConfig | ReaderEndpoint, text: str) -> SourceError:
    """The error for a connection that failed. libpq gives no SQLSTATE for it, so the server's message decides."""
    where = f"{config.host}:{config.port}"
    reason = " ".join(text.split())
    refused = f"{where} does not let user {config.user} into database {config.database}: {reason}"
    if "authentication failed" in reason or "no password supplied" in reason or "no pg_hba.conf entry" in reason:
        return SourceError("TM-PG-002", refused)
    user = sql.Identifier(config.user).as_string(None)
    if "pg_hba.conf rejects connection" in reason:
        return SourceError(
            "TM-PG-002",
            refused,
            remedy=(
                "A line of the server's pg_hba.conf rejects this user, database and address. Put a line above "
                "it that accepts them, then run: SELECT pg_reload_conf();"
            ),
        )
    if "permission denied for database" in reason:
        database = sql.Identifier(config.database).as_string(None)
        return SourceError(
            "TM-PG-002",
            f"user {config.user} may not connect to database {config.database} of {where}: {reason}",
            remedy=f"Run, as the database's owner: GRANT CONNECT ON DATABASE {database} TO {user};",
        )
    if "denied to start WAL sender" in reason or "replication role to start walsender" in reason:
        return SourceError(
            "TM-PG-006",
            f"user {config.user} may not replicate: {reason}",
            remedy=f"Run, as a superuser: ALTER ROLE {user} REPLICATION; on RDS: GRANT rds_replication TO {user};",
        )
    if "database" in reason and "does not exist" in reason:
        return SourceError("TM-PG-003", f"{where} has no database {config.database}")
    if "is not permitted to log in" in reason:
        return SourceError(
            "TM-PG-002",
            f"{where} does not let user {config.user} log in: {reason}",
            remedy=f"Run, as a role that may create roles: ALTER ROLE {user} LOGIN;",
        )
    if "role" in reason and "does not exist" in reason:
        return SourceError("TM-PG-002", f"{where} has no role {config.user}")
    if "conversion between" in reason and "is not supported" in reason:
        return SourceError(
            "TM-PG-026",
            f"texts of database {config.database} cannot be had from {where} as Unicode: {reason}",
            remedy="Move the data to a database with encoding UTF8: the server itself does not convert this one's.",
        )
    if any(said in reason for said in _TLS_FAILURES):
        return SourceError("TM-PG-038", f"no connection to {where}: {reason}")
    return SourceError("TM-PG-001", f"no connection to {where}: {reason}")


@contextmanager
def asking(what: str) -> Iterator[None]:
    """A context in which an error of psycopg becomes the SourceError of ``query_failure``."""
    try:
        yield
    except psycopg.Error as error:
        raise query_failure(error, what) from None


def query_failure(error: psycopg.Error, what: str) -> SourceError:
    """The error for a statement that the server refused, or during which the connection broke."""
    reason = error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
    if error.sqlstate == "42501":
        return SourceError("TM-PG-008", f"{what}: {reason}")
    if error.sqlstate == DEADLOCK:
        return Deadlock("TM-PG-020", f"{what}: {reason}")
    if error.sqlstate in ("42P01", "3F000"):
        return TableAway("TM-PG-007", f"{what}: {reason}")
    if isinstance(error, psycopg.OperationalError):
        return SourceError("TM-PG-020", f"{what}: {reason}")
    return SourceError("TM-PG-019", f"{what}: {reason}" + (f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""))
