"""Connections, with the settings under which every value has one text form, and errors said in our words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from captures.postgres.config import EndpointConfig
from protocol.errors import SourceError

# Given as start-up options, which win over ALTER ROLE … SET and ALTER DATABASE … SET. Both the walsender and the
# sessions that read chunks get the same ones: a value must read the same from the log and from a chunk.
_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "search_path": "pg_catalog",
    # What we commit (a fence message, a publication) must be flushed, but must not wait for a standby.
    "synchronous_commit": "local",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    # Policies would leave rows out of chunks without a word: an error instead.
    "row_security": "off",
    # A reader that waits for a lock would hold up the queue behind it: give up and try again.
    "lock_timeout": "10s",
    # A parallel plan reads keys out of order and takes workers from the application.
    "max_parallel_workers_per_gather": "0",
    # Chunks are read along the key's index. A sort would read the rest of the table for each of them.
    "enable_sort": "off",
    "jit": "off",
}

# A walsender that hears nothing for this long gives up. We may be held up for long by a slow reader of our stdout.
_REPLICATION_SETTINGS = {**_SETTINGS, "wal_sender_timeout": "300s", "client_min_messages": "warning"}

APPLICATION_NAME = "tidemark"
CONNECT_TIMEOUT_SECONDS = 15


def conninfo(config: EndpointConfig, *, replication: bool = False) -> str:
    """The libpq connection string. It holds the password: never log it."""
    settings = _REPLICATION_SETTINGS if replication else _SETTINGS
    return make_conninfo(
        host=config.host,
        port=config.port,
        dbname=config.database,
        user=config.user,
        password=config.password.get_secret_value() or None,
        sslmode=config.sslmode,
        sslrootcert=config.sslrootcert,
        application_name=APPLICATION_NAME,
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
        client_encoding="UTF8",
        options=" ".join(f"-c {name}={value}" for name, value in settings.items()),
        replication="database" if replication else None,
    )


def connect(config: EndpointConfig) -> psycopg.Connection:
    """An autocommit session.

    Raises:
        SourceError: ``TM-PG-001`` no connection, ``TM-PG-002`` refused credentials, ``TM-PG-003`` no such database.
    """
    try:
        return psycopg.connect(conninfo(config), autocommit=True)
    except psycopg.OperationalError as error:
        raise connection_failure(config, str(error)) from None


def connect_pq(config: EndpointConfig, *, replication: bool) -> pq.abc.PGconn:
    """A bare libpq connection, for COPY and for replication. Raises as ``connect``."""
    connection = pq.PGconn.connect(conninfo(config, replication=replication).encode())
    if connection.status != pq.ConnStatus.OK:
        failure = connection_failure(config, error_text(connection))
        connection.finish()
        raise failure
    return connection


def error_text(connection: pq.abc.PGconn) -> str:
    """What went wrong last, in libpq's words."""
    return connection.error_message.decode("utf-8", "replace").strip()


def refusal(result: pq.abc.PGresult | None) -> tuple[str, str]:
    """SQLSTATE and message of a statement that failed; empty where the server gave none."""
    if result is None:
        return "", ""
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
    return state.decode(), message.decode("utf-8", "replace")


def connection_failure(config: EndpointConfig, text: str) -> SourceError:
    """What a failure to connect means. libpq gives no SQLSTATE for it, so the server's words have to do."""
    where = f"{config.host}:{config.port}"
    reason = " ".join(text.split())
    if "authentication failed" in reason or "no password supplied" in reason or "no pg_hba.conf entry" in reason:
        return SourceError(
            "TM-PG-002",
            f"{where} does not let user {config.user} into database {config.database}: {reason}",
        )
    if "database" in reason and "does not exist" in reason:
        return SourceError("TM-PG-003", f"{where} has no database {config.database}")
    if "role" in reason and "does not exist" in reason:
        return SourceError("TM-PG-002", f"{where} has no role {config.user}")
    return SourceError("TM-PG-001", f"no connection to {where}: {reason}")


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Inside, an error of psycopg becomes the SourceError of ``query_failure``."""
    try:
        yield
    except psycopg.Error as error:
        raise query_failure(error, what) from None


def query_failure(error: psycopg.Error, what: str) -> SourceError:
    """A statement that the server refused, or a connection that broke while it ran."""
    reason = error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
    if error.sqlstate == "42501":
        return SourceError("TM-PG-008", f"{what}: {reason}")
    if error.sqlstate in ("42P01", "3F000"):
        return SourceError("TM-PG-007", f"{what}: {reason}")
    if isinstance(error, psycopg.OperationalError):
        return SourceError("TM-PG-020", f"{what}: {reason}")
    return SourceError("TM-PG-019", f"{what}: {reason}" + (f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""))
