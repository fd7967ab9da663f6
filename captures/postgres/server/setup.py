"""Creates the publication and the slot, in the order that loses no change.

The publication comes first: pgoutput looks it up as of each change that it decodes, so a slot that is older than its
publication fails on the changes in between. Creating a slot waits for every running transaction, so the slot's log has
everything that a later snapshot does not see.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq, sql

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.session import DEADLOCK, Deadlock, in_recovery, refusal
from tidemark.captures.postgres.server.waiting import run_patiently
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

FAILOVER_VERSION = 170000
"""Since this one, logical slots can be copied to replicas."""

_INSUFFICIENT_PRIVILEGE = "42501"
_DUPLICATE_OBJECT = "42710"


class Unpublished(SourceError):
    """Tables are not published, and their owner has to publish them: the connector may not, or is configured not to."""


@dataclass(frozen=True, slots=True)
class Made:
    """An object that the connector created on the server. ``undo`` removes it; None if it may stay."""

    text: str
    undo: sql.Composed | None


class MadeForCapture:
    """The objects that were created for a capture. They are removed again if its log is never opened."""

    def __init__(self) -> None:
        self._undo: list[sql.Composed] = []

    def note(self, made: Made) -> None:
        logger.info("%s", made.text)
        if made.undo is not None:
            self._undo.append(made.undo)

    def keep(self) -> None:
        self._undo.clear()

    def take_back(self, session: psycopg.Connection) -> None:
        """Removes the objects that are not kept."""
        while self._undo:
            statement = self._undo.pop()
            try:
                session.execute(statement)
            except psycopg.Error as error:
                logger.warning(
                    "what was created for this capture remains (%s); to remove it, run: %s;",
                    " ".join(str(error).split()),
                    statement.as_string(None),
                )


def table_identifier(table: Table) -> sql.Identifier:
    """The table's name as SQL, qualified and quoted."""
    return sql.Identifier(table.schema, table.name)


def own_rows(table: Table) -> sql.Composable:
    """The table without tables that inherit from it; a partitioned table with its partitions, which hold its rows."""
    identifier = table_identifier(table)
    return identifier if table.partitioned else sql.SQL("ONLY {}").format(identifier)


def unpublished(session: psycopg.Connection, publication: str, tables: Sequence[Table]) -> list[Table] | None:
    """The tables that the publication lacks; None if the publication does not exist."""
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


def owned(session: psycopg.Connection, tables: Sequence[Table]) -> list[Table]:
    """The tables that the user owns, which it may publish."""
    rows = session.execute(
        "SELECT oid FROM pg_class WHERE oid = ANY(%s) AND pg_has_role(current_user, relowner, 'member')",
        [[table.oid for table in tables]],
    ).fetchall()
    own = {row[0] for row in rows}
    return [table for table in tables if table.oid in own]


def publication_statement(publication: str, tables: Sequence[Table], *, exists: bool) -> sql.Composed:
    """The SQL that creates the publication, or adds the tables to it."""
    names = sql.SQL(", ").join(map(own_rows, tables))
    if exists:
        return sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(publication), names)
    return sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)").format(
        sql.Identifier(publication), names
    )


def publication_lost(config: EndpointConfig, tables: Sequence[Table]) -> LostPosition:
    """The error for a publication that was dropped. Even if it exists again, the slot is useless.

    The server decodes each change by the catalogs as they were at that moment. What was written while there was no
    publication, and by transactions that were open when it was made again, stops every reader of the slot.
    """
    publish = publication_statement(config.publication, tables, exists=False).as_string(None)
    return LostPosition(
        "TM-PG-011",
        f"publication {config.publication} was dropped, or is newer than replication slot {config.slot}: changes made "
        "while it did not exist are in no log",
        remedy=(
            f"Unless the publication exists again, run, as the tables' owner: {publish}; Drop the slot, which "
            f"still has those changes: {drop_slot(config).as_string(None)}; Then set `on_lost_position: "
            "backfill` in connector.config to read all tables again, or start over with another `log` and another "
            "`spark.warehouse`."
        ),
    )


def lacking(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table], *, exists: bool
) -> Unpublished:
    """The error for tables that are not published and that the connector does not publish."""
    text = publication_statement(config.publication, tables, exists=exists).as_string(session)
    where = " on the primary" if in_recovery(session) else ""
    return Unpublished(
        "TM-PG-011",
        f"publication {config.publication} lacks " + ", ".join(table.qualified_name for table in tables),
        remedy=f"Run{where}, as the tables' owner: {text};",
    )


def ensure_publication(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table], ended: Callable[[], bool]
) -> Made | None:
    """Creates the publication, or adds the missing tables to it. Returns what it created; None if nothing was missing.

    Raises:
        Unpublished: ``TM-PG-011`` when that is not allowed, with the statement that an owner must run.
        SourceError: Anything else.
        SessionEnded: ``ended`` was true.
    """
    missing = unpublished(session, config.publication, tables)
    if missing == []:
        return None
    exists = missing is not None
    added = missing if missing is not None else tables
    if not config.create or config.read_only or in_recovery(session):
        raise lacking(session, config, added, exists=exists)
    statement = publication_statement(config.publication, added, exists=exists)
    what = f"publication {config.publication}"
    result = run_patiently(session, config, statement, what, replication=False, ended=ended)
    state, message = refusal(result)
    if state == _INSUFFICIENT_PRIVILEGE:
        raise Unpublished(
            "TM-PG-011",
            f"{config.user} may not publish the tables: {message}",
            remedy=f"Run, as the tables' owner: {statement.as_string(session)};",
        )
    if state == DEADLOCK:
        raise Deadlock("TM-PG-020", f"publishing tables in {config.publication}: {message}")
    if result is None or result.status != pq.ExecStatus.COMMAND_OK:
        raise SourceError("TM-PG-019", f"publishing tables in {config.publication}: {message} (SQLSTATE {state})")
    if exists:
        return Made(f"added {len(added)} tables to {what}", None)
    undo = sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(config.publication))
    return Made(f"created {what} for {len(added)} tables", undo)


def slot_statement(session: psycopg.Connection, config: EndpointConfig) -> str:
    """The SQL that creates the slot, for a person to run."""
    failover = ", failover => true" if _takes_failover(session) else ""
    return f"SELECT pg_create_logical_replication_slot('{config.slot}', 'pgoutput'{failover})"


def _takes_failover(session: psycopg.Connection) -> bool:
    """Whether the slot is created as a failover slot, which replicas can copy and resume with when they take over.

    That needs a primary of version 17 or later. It costs nothing if no replica copies the slot: the server only waits
    for those that synchronized_standby_slots names.
    """
    return session.info.server_version >= FAILOVER_VERSION and not in_recovery(session)


def create_slot(session: psycopg.Connection, config: EndpointConfig, ended: Callable[[], bool]) -> Made:
    """Creates the slot, which does not exist.

    Raises:
        SourceError: ``TM-PG-012`` if ``create`` is false; ``TM-PG-014`` another capture has just created it; others if
            the server refuses.
        SessionEnded: ``ended`` was true.
    """
    if not config.create:
        raise SourceError(
            "TM-PG-012",
            f"there is no replication slot {config.slot}, and the configuration says not to create it",
            remedy=f"Run: {slot_statement(session, config)};",
        )
    # The walsender's command is used: the SQL function would hold a snapshot until running transactions end.
    options = "(SNAPSHOT 'nothing', FAILOVER true)" if _takes_failover(session) else "NOEXPORT_SNAPSHOT"
    command = sql.SQL("CREATE_REPLICATION_SLOT {} LOGICAL pgoutput {}").format(
        sql.Identifier(config.slot), sql.SQL(options)
    )
    what = f"replication slot {config.slot}"
    result = run_patiently(session, config, command, what, replication=True, ended=ended)
    if result is None or result.status != pq.ExecStatus.TUPLES_OK:
        state, message = refusal(result)
        if state == _DUPLICATE_OBJECT:
            raise SourceError("TM-PG-014", f"creating {what}: another capture has just created it")
        code = {"42501": "TM-PG-006", "53400": "TM-PG-025", "55000": "TM-PG-005"}.get(state, "TM-PG-019")
        raise SourceError(code, f"making {what}: {message}")
    return Made(f"created {what}", drop_slot(config))


def drop_slot(config: EndpointConfig) -> sql.Composed:
    """The statement that drops the slot."""
    return sql.SQL("SELECT pg_drop_replication_slot({})").format(sql.Literal(config.slot))
