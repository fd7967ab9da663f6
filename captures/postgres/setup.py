"""Makes the publication and the slot, in the order that loses nothing.

The publication comes first: pgoutput looks it up as of each change it decodes, so a slot that is older than its
publication fails on the changes between. Making a slot waits for every transaction that is running, so everything that
is not visible to a snapshot taken afterwards is in the slot's log.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Sequence

import psycopg
from psycopg import pq, sql

from captures.postgres.columns import Table
from captures.postgres.config import EndpointConfig
from captures.postgres.session import connect_pq, error_text, in_recovery, query_failure, refusal
from protocol.errors import SourceError

logger = logging.getLogger(__name__)

FAILOVER_VERSION = 170000
"""Since this one, logical slots can be copied to replicas."""

PATIENCE_SECONDS = 5.0
"""While a slot is being made, who holds it up is said this often."""


def table_identifier(table: Table) -> sql.Identifier:
    """The table's name as SQL, qualified and quoted."""
    return sql.Identifier(table.schema, table.name)


def own_rows(table: Table) -> sql.Composable:
    """The table without those that inherit from it; a partitioned one with its partitions, which hold its rows."""
    identifier = table_identifier(table)
    return identifier if table.partitioned else sql.SQL("ONLY {}").format(identifier)


def unpublished(session: psycopg.Connection, publication: str, tables: Sequence[Table]) -> list[Table] | None:
    """The tables that the publication lacks; None when there is no such publication."""
    exists = session.execute("SELECT puballtables FROM pg_publication WHERE pubname = %s", [publication]).fetchone()
    if exists is None:
        return None
    rows = session.execute(
        """
        SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.oid = ANY(%(oids)s) AND NOT EXISTS (
            SELECT FROM pg_publication p WHERE p.pubname = %(publication)s AND (
                p.puballtables
                OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid)
                OR EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = p.pubname
                           AND t.schemaname = n.nspname AND t.tablename = c.relname)))
        """,
        {"oids": [table.oid for table in tables], "publication": publication},
    ).fetchall()
    missing = {row[0] for row in rows}
    return [table for table in tables if table.oid in missing]


def publication_statement(publication: str, tables: Sequence[Table], *, exists: bool) -> sql.Composed:
    """The SQL that makes the publication or adds the tables to it."""
    names = sql.SQL(", ").join(map(own_rows, tables))
    if exists:
        return sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(publication), names)
    return sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)").format(
        sql.Identifier(publication), names
    )


def lacking(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table], *, exists: bool
) -> SourceError:
    """What to say where tables are not published, and the connector is not to publish them."""
    text = publication_statement(config.publication, tables, exists=exists).as_string(session)
    where = " on the primary" if in_recovery(session) else ""
    return SourceError(
        "TM-PG-011",
        f"publication {config.publication} lacks " + ", ".join(table.qualified_name for table in tables),
        remedy=f"Run{where}, as the tables' owner: {text};",
    )


def ensure_publication(session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]) -> str:
    """Makes the publication or adds to it what is missing; says what it did.

    Raises:
        SourceError: ``TM-PG-011`` when that is not allowed, with the statement that an owner must run.
    """
    missing = unpublished(session, config.publication, tables)
    if missing == []:
        return ""
    exists = missing is not None
    added = missing if missing is not None else tables
    statement = publication_statement(config.publication, added, exists=exists)
    text = statement.as_string(session)
    if not config.create or config.read_only or in_recovery(session):
        raise lacking(session, config, added, exists=exists)
    try:
        session.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            "TM-PG-011",
            f"{config.user} may not publish the tables: {error.diag.message_primary}",
            remedy=f"Run, as the tables' owner: {text};",
        ) from None
    except psycopg.Error as error:
        raise query_failure(error, f"publishing tables in {config.publication}") from None
    if exists:
        return f"added {len(added)} tables to publication {config.publication}"
    return f"created publication {config.publication} for {len(added)} tables"


def slot_statement(session: psycopg.Connection, config: EndpointConfig) -> str:
    """The SQL that makes the slot, for a person to run."""
    failover = ", failover => true" if _takes_failover(session) else ""
    return f"SELECT pg_create_logical_replication_slot('{config.slot}', 'pgoutput'{failover})"


def _takes_failover(session: psycopg.Connection) -> bool:
    """Whether a slot can be one that replicas keep a copy of, if they are set to, and go on with when they take over.

    From version 17 on, on a primary. It costs nothing where no replica does: the server only waits for those that
    synchronized_standby_slots names.
    """
    return session.info.server_version >= FAILOVER_VERSION and not in_recovery(session)


def ensure_slot(session: psycopg.Connection, config: EndpointConfig) -> str:
    """Makes the slot when it is not there; says what it did.

    Raises:
        SourceError: ``TM-PG-012`` absent and not to be made, ``TM-PG-013`` there for something else.
    """
    slot = session.execute(
        "SELECT plugin, database FROM pg_replication_slots WHERE slot_name = %s", [config.slot]
    ).fetchone()
    if slot is not None:
        check_slot_kind(config, *slot)
        return ""
    if not config.create:
        raise SourceError(
            "TM-PG-012",
            f"there is no replication slot {config.slot} and the configuration says not to make it",
            remedy=f"Run: {slot_statement(session, config)};",
        )
    # By the walsender's command: the SQL function would hold a snapshot for as long as running transactions last.
    replication = connect_pq(config, replication=True)
    try:
        options = "(SNAPSHOT 'nothing', FAILOVER true)" if _takes_failover(session) else "NOEXPORT_SNAPSHOT"
        command = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput {}")
        replication.send_query(command.format(sql.Identifier(config.slot), sql.SQL(options)).as_bytes(None))
        while replication.is_busy():
            if not select.select([replication.socket], [], [], PATIENCE_SECONDS)[0]:
                _say_who_is_waited_for(session, config)
                continue
            replication.consume_input()
        result = replication.get_result()
        if result is None or result.status != pq.ExecStatus.TUPLES_OK:
            raise _slot_refused(config, result, error_text(replication))
    finally:
        replication.finish()
    return f"created replication slot {config.slot}"


def check_slot_kind(config: EndpointConfig, plugin: str | None, database: str | None) -> None:
    """Raises ``TM-PG-013`` unless the slot is one of pgoutput in our database."""
    if plugin != "pgoutput" or database != config.database:
        kind = f"a logical slot of {plugin} in database {database}" if plugin else "a physical slot"
        raise SourceError("TM-PG-013", f"replication slot {config.slot} is {kind}")


def _say_who_is_waited_for(session: psycopg.Connection, config: EndpointConfig) -> None:
    if in_recovery(session):
        logger.warning(
            "replication slot %s is made once the primary has written which transactions run there, which it does by "
            "itself only while it is used; to have it at once, run there: SELECT pg_log_standby_snapshot();",
            config.slot,
        )
        return
    pids = session.execute(
        "SELECT coalesce(string_agg(pid::text, ', ' ORDER BY xact_start), 'prepared ones')"
        " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
    ).fetchone()
    logger.warning(
        "replication slot %s is made once the transactions that are running now have ended: those of processes %s",
        config.slot,
        pids[0] if pids else "unknown",
    )


def _slot_refused(config: EndpointConfig, result: pq.abc.PGresult | None, text: str) -> SourceError:
    state, _ = refusal(result)
    code = {"42501": "TM-PG-006", "53400": "TM-PG-025", "55000": "TM-PG-005"}.get(state, "TM-PG-019")
    return SourceError(code, f"making replication slot {config.slot}: {text}")
