"""Runs statements that have to wait for other transactions, however long these last, and reports which ones.

Creating a slot waits for every transaction that writes. Publishing a table waits for a VACUUM or a CREATE INDEX of it.
Neither blocks sessions that only change rows.
"""

from __future__ import annotations

import logging
import re
import select
import time
from collections.abc import Callable

import psycopg
from psycopg import pq, sql

from tidemark.captures.contract.errors import SessionEnded
from tidemark.captures.postgres.catalog.encodings import stored_rows
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import connect_pq, execute_within, in_recovery, query_failure

logger = logging.getLogger(__name__)

REPORT_SECONDS = 3.0
"""Who is waited for is said this often."""

LOOK_SECONDS = 0.5
"""Whether anybody wants the result still is asked this often."""

SETTING_SECONDS = 30.0

# A role without pg_read_all_stats sees the process and the user, but neither the age nor the statement. A prepared
# transaction has no process: the transaction id that the server waits for identifies it.
_AWAITED = """
SELECT a.pid::text, a.usename, extract(epoch FROM now() - a.xact_start)::bigint, a.state, a.query
FROM pg_catalog.pg_stat_activity a WHERE a.pid = ANY(pg_catalog.pg_blocking_pids(%(pid)s))
UNION ALL
SELECT NULL, p.owner, extract(epoch FROM now() - p.prepared)::bigint, NULL, p.gid
FROM pg_catalog.pg_prepared_xacts p JOIN pg_catalog.pg_locks l ON l.transactionid = p.transaction
WHERE l.pid = %(pid)s AND NOT l.granted
"""

# Every transaction with an id holds the lock of it, and everybody may see that.
_RUNNING = """
SELECT DISTINCT a.pid::text, coalesce(a.usename, p.owner),
       extract(epoch FROM now() - coalesce(a.xact_start, p.prepared))::bigint, a.state, coalesce(a.query, p.gid)
FROM pg_catalog.pg_locks l
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
LEFT JOIN pg_catalog.pg_prepared_xacts p ON l.pid IS NULL AND p.transaction = l.transactionid
WHERE l.locktype = 'transactionid' AND l.granted AND l.mode = 'ExclusiveLock' AND coalesce(a.pid::text, p.gid) <> ''
  AND age(l.transactionid) > age(%(barrier)s::text::xid)
ORDER BY 3 DESC NULLS LAST
LIMIT 10
"""

_NAME = r'(?:[a-z_][\w$]*|"(?:[^"]|"")+")'
_COMMAND = re.compile(
    rf"""
    (?: \s | --[^\n]*\n | /\*.*?\*/ )*
    (   (?: INSERT \s+ INTO | UPDATE (?: \s+ ONLY )? | DELETE \s+ FROM (?: \s+ ONLY )? | MERGE \s+ INTO | COPY
          | (?: ALTER | LOCK | TRUNCATE | DROP | CREATE ) \s+ TABLE (?: \s+ ONLY )? | VACUUM | ANALYZE | CLUSTER
        ) \s+ {_NAME} (?: \. {_NAME} )? (?! [\w$"] )
      | (?: ABORT | ALTER | ANALYZE | BEGIN | CALL | CLOSE | CLUSTER | COMMENT | COMMIT | COPY | CREATE | DECLARE
          | DELETE | DO | DROP | END | EXECUTE | FETCH | GRANT | INSERT | LOCK | MERGE | MOVE | PREPARE | REFRESH
          | REINDEX | RELEASE | REVOKE | ROLLBACK | SAVEPOINT | SELECT | SET | SHOW | START | TRUNCATE | UPDATE
          | VACUUM | VALUES | WITH
        ) \b
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)


def command_of(query: str | None) -> str:
    """The command of a statement, with its table if that is plain to see, and without any value."""
    found = _COMMAND.match(query or "")
    return " ".join(found[1].split()) if found else ""


def run_patiently(
    session: psycopg.Connection,
    config: EndpointConfig,
    statement: sql.Composable,
    what: str,
    *,
    replication: bool,
    ended: Callable[[], bool],
) -> pq.abc.PGresult | None:
    """Runs a statement on its own connection, and waits for its result, which may be an error.

    Args:
        session: The session that asks which transactions the server waits for.
        what: The object that the statement creates, for people.

    Raises:
        SessionEnded: ``ended`` was true. The statement is cancelled, so that it has no effect.
        SourceError: The connection failed or broke.
    """
    connection = connect_pq(config, replication=replication)
    try:
        # A session that waits for a lock blocks those behind it, so no other statement of the connector waits for long.
        execute_within(connection, b"SET lock_timeout = 0", SETTING_SECONDS)
        connection.send_query(statement.as_bytes(session))
        reported = time.monotonic()
        while connection.is_busy():
            if ended():
                raise SessionEnded
            if select.select([connection.socket], [], [], LOOK_SECONDS)[0]:
                connection.consume_input()
            elif time.monotonic() - reported >= REPORT_SECONDS:
                reported = time.monotonic()
                _say_who_is_waited_for(session, what, connection.backend_pid)
        return connection.get_result()
    except BaseException as error:
        _cancel(connection)
        if isinstance(error, psycopg.Error):
            raise query_failure(error, what) from None
        raise
    finally:
        connection.finish()


def running_before(session: psycopg.Connection, barrier: int) -> str:
    """The transactions below ``barrier`` that have not ended, for people; empty if none is. Raises psycopg.Error."""
    found = stored_rows(session, _RUNNING, {"barrier": str(barrier % (1 << 32))}, foreign=True)
    return "; ".join(_in_words(*row) for row in found)


def _cancel(connection: pq.abc.PGconn) -> None:
    """Cancels the statement: the server does not notice that the client is gone, and would complete it."""
    try:
        connection.get_cancel().cancel()
    except psycopg.Error as error:
        logger.warning("the command on the server cannot be cancelled: %s", " ".join(str(error).split()))


def _say_who_is_waited_for(session: psycopg.Connection, what: str, pid: int) -> None:
    if in_recovery(session):
        logger.warning(
            "%s waits until the primary logs its running transactions, which it does only while it is in use; to "
            "continue at once, run on the primary: SELECT pg_log_standby_snapshot();",
            what,
        )
        return
    awaited = stored_rows(session, _AWAITED, {"pid": pid}, foreign=True)
    said = [_in_words(*row) for row in awaited] or ["prepared transactions, or some that have just ended"]
    logger.warning("%s waits for these transactions to end: %s", what, "; ".join(said))


def _in_words(pid: str | None, user: str | None, seconds: int | None, state: str | None, text: str | None) -> str:
    who = f"process {pid} of user {user}" if pid else f"the prepared transaction {text} of user {user}"
    if seconds is None:
        return f"{who} (for details: GRANT pg_read_all_stats)"
    command = command_of(text) if pid else ""
    last = f"{state}, last statement" if state and state != "active" else state
    said = f" ({last}: {command} …)" if command and last else f" ({state})" if state else ""
    return f"{who}, whose transaction has been open for {seconds} s{said}"
