"""What a capture made at the server, and what it only uses: a slot that nobody reads fills the server's disk."""

from __future__ import annotations

import psycopg
from psycopg import sql

from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.resumption import Slot, read_slot
from tidemark.captures.postgres.server.rewrite_trigger import REMOVE, Trigger, trigger_of
from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.server.setup import drop_slot
from tidemark.captures.postgres.server.slot_ownership import Owner, other_slots, owner_of
from tidemark.protocol.answers.removal import MadeObject
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

_RETAINED = """
SELECT pg_size_pretty(pg_wal_lsn_diff(
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn))
FROM pg_catalog.pg_replication_slots WHERE slot_name = %s
"""

# The connector publishes tables by their names only.
_PUBLICATION = """
SELECT p.puballtables OR EXISTS (SELECT FROM pg_catalog.pg_publication_tables t WHERE t.pubname = p.pubname
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid))
FROM pg_catalog.pg_publication p WHERE p.pubname = %s
"""


def made_objects(
    session: psycopg.Connection, config: EndpointConfig, owner: Owner, state: JsonObject
) -> list[MadeObject]:
    """The slot, the publication and the event trigger, as far as they exist. The slot comes first: it needs the other.

    Raises SourceError: ``TM-PG-014`` a process reads the slot; others if the server refuses.
    """
    with asking("looking for what the capture made"):
        found = [_slot(session, config, owner, state), _publication(session, config), _trigger(session)]
    return [each for each in found if each is not None]


def _slot(session: psycopg.Connection, config: EndpointConfig, owner: Owner, state: JsonObject) -> MadeObject | None:
    slot = read_slot(session, config.slot)
    if slot is None:
        return None
    kept = _why_slot_is_kept(slot, config, owner, owner_of(session, config), state)
    if not kept and slot.active_pid is not None:
        raise SourceError(
            "TM-PG-014",
            f"replication slot {config.slot} is read by process {slot.active_pid} of the server",
            remedy="Stop the capture that reads it, then remove again.",
        )
    retained = session.execute(_RETAINED, [config.slot]).fetchone()
    size = f", which retains {retained[0]} of log" if retained is not None and retained[0] else ""
    return MadeObject(
        what=f"replication slot {config.slot}{size}", statement=drop_slot(config).as_string(session), kept=kept
    )


def _why_slot_is_kept(
    slot: Slot, config: EndpointConfig, owner: Owner, recorded: Owner | None, state: JsonObject
) -> str:
    """Empty for a slot that is this capture's own."""
    if slot.plugin != "pgoutput" or slot.database != config.database:
        return "no capture of this database can have made it"
    if not config.create:
        return "the configuration has `create: false`, so somebody made it for the capture"
    if recorded is not None:
        if recorded.capture != owner.capture:
            return f"it is capture {recorded.capture!r} that reads it"
        if owner.log and recorded.log and recorded.log != owner.log:
            return f"it was made for another change log, {recorded.log}"
        return ""
    source = state.get("source")
    if isinstance(source, dict) and source.get("slot") == config.slot:
        return ""
    return "nothing records that this capture made it"


def _publication(session: psycopg.Connection, config: EndpointConfig) -> MadeObject | None:
    row = session.execute(_PUBLICATION, [config.publication]).fetchone()
    if row is None:
        return None
    kept = ""
    if not config.create:
        kept = "the configuration has `create: false`, so somebody made it for the capture"
    elif config.publication != config.slot:
        kept = "its name is not the slot's, so it may be of others too"
    elif row[0]:
        kept = "it publishes more than tables by name, so no capture made it"
    elif others := other_slots(session, config):
        kept = f"it is read through other slots too: {', '.join(others)}"
    statement = sql.SQL("DROP PUBLICATION {}").format(sql.Identifier(config.publication))
    return MadeObject(what=f"publication {config.publication}", statement=statement.as_string(session), kept=kept)


def _trigger(session: psycopg.Connection) -> MadeObject | None:
    if trigger_of(session) is Trigger.ABSENT:
        return None
    return MadeObject(
        what="event trigger tidemark_note_rewrite",
        statement=" ".join(REMOVE.split()).removesuffix(";"),
        kept="it is of the whole database, and made by hand",
    )
