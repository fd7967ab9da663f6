"""Whether the server's log goes on from where a capture stands: its slot, its system, its timelines.

A server that is promoted, or recovered to a point in time, begins a new timeline; its history file says at which
position it left each earlier one (PostgreSQL docs, 25.3.6 "Timelines"). What a capture read of an earlier timeline
beyond that position never happened on this server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import psycopg
from psycopg import pq

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.positions import format_lsn, parse_lsn
from tidemark.captures.postgres.server.session import asking, connect_pq, error_text, execute_within, in_recovery
from tidemark.captures.postgres.server.setup import drop_slot, slot_statement
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import JsonObject

ANSWER_SECONDS = 30.0

ALTERED_VERSION = 180000
"""Since this one, a slot's two_phase can be altered."""

_SWITCH = re.compile(r"^\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)", re.MULTILINE)

_CONFLICT = "rows_removed or wal_level_insufficient"

_INVALIDATED = {
    "wal_removed": "Raise max_slot_wal_keep_size, or stop the capture for a shorter time.",
    "rows_removed": "Set hot_standby_feedback = on at the standby, and give it a physical slot at the primary.",
    "wal_level_insufficient": "Keep wal_level = logical at the primary.",
    _CONFLICT: "Set hot_standby_feedback = on at the standby, and give it a physical slot at the primary; there keep "
    "wal_level = logical.",
    "idle_timeout": "Raise idle_replication_slot_timeout, or stop the capture for a shorter time.",
}
"""What keeps a slot from being invalidated again, by its ``invalidation_reason``."""

_AGAIN = (
    "Set `on_lost_position: backfill` in connector.config to read all tables again into the same change log. Or start "
    "over with another `log` and another `spark.warehouse`; drop the slot first, if it exists."
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of pg_replication_slots.

    Attributes:
        confirmed: The position up to which its reader has acknowledged the log; 0 for a physical slot.
        invalidated: Why the server gave it up; empty while it is sound.
        synced: It follows a slot of the primary, and cannot be read before this standby is promoted.
        two_phase: It decodes transactions when they are prepared, and not when they are committed.
        active_pid: The process that reads it.
    """

    plugin: str | None
    database: str | None
    confirmed: int
    invalidated: str
    synced: bool
    two_phase: bool
    active_pid: int | None

    @classmethod
    def of(cls, slot: JsonObject) -> Slot:
        """From the view's row as JSON, of any version."""
        return cls(
            plugin=slot["plugin"],
            database=slot["database"],
            confirmed=parse_lsn(slot["confirmed_flush_lsn"]) if slot["confirmed_flush_lsn"] else 0,
            invalidated=_invalidated(slot),
            synced=bool(slot.get("synced")),
            two_phase=bool(slot.get("two_phase")),
            active_pid=slot["active_pid"],
        )


def _invalidated(slot: JsonObject) -> str:
    """Why the server gave a slot up.

    Its versions know that by more and more columns: wal_status (13), conflicting (16), invalidation_reason (17).
    """
    if reason := slot.get("invalidation_reason"):
        return str(reason)
    if not slot.get("conflicting") and slot["wal_status"] != "lost":
        return ""
    # Version 16 calls every slot conflicting that it has given up. Only one whose log is gone has no restart_lsn.
    return _CONFLICT if slot.get("conflicting") and slot["restart_lsn"] else "wal_removed"


@dataclass(frozen=True, slots=True)
class ServerLog:
    """Which log a server writes: ``system`` is what initdb called the cluster, ``left`` where it left each timeline."""

    system: str
    timeline: int
    left: dict[int, int]
    standby: bool = False

    def identity(self, config: EndpointConfig) -> JsonObject:
        """What the state keeps of it."""
        identity: JsonObject = {
            "system": self.system,
            "timeline": self.timeline,
            "database": config.database,
            "slot": config.slot,
            "publication": config.publication,
        }
        return {**identity, "standby": True} if self.standby else identity


def read_slot(session: psycopg.Connection, name: str) -> Slot | None:
    """The slot; None when there is none. Raises SourceError."""
    with asking("looking for the replication slot"):
        row = session.execute(
            "SELECT to_jsonb(s) FROM pg_catalog.pg_replication_slots s WHERE slot_name = %s", [name]
        ).fetchone()
    if row is None:
        return None
    return Slot.of(row[0])


def read_server_log(config: EndpointConfig) -> ServerLog:
    """Asks a walsender, which any role that may replicate can. Raises SourceError."""
    connection = connect_pq(config, replication=True)
    try:
        system, timeline, *_ = _row(connection, "IDENTIFY_SYSTEM")
        left = {}
        if int(timeline) > 1:
            _, history = _row(connection, f"TIMELINE_HISTORY {timeline}")
            left = {int(number): parse_lsn(lsn) for number, lsn in _SWITCH.findall(history)}
        standby = connection.parameter_status(b"in_hot_standby") == b"on"
    finally:
        connection.finish()
    return ServerLog(system, int(timeline), left, standby)


def _row(connection: pq.abc.PGconn, command: str) -> list[str]:
    result = execute_within(connection, command.encode(), ANSWER_SECONDS)
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise SourceError("TM-PG-020", f"{command}: {error_text(connection)}")
    return [(result.get_value(0, column) or b"").decode("utf-8", "replace") for column in range(result.nfields)]


def check_resumption(
    session: psycopg.Connection,
    config: EndpointConfig,
    slot: Slot | None,
    position: int,
    known: int,
    identity: JsonObject,
) -> ServerLog:
    """Whether the server's log, read up to ``known`` under ``identity``, can be resumed; raises as the following."""
    log = read_server_log(config)
    # What another log is, says more than what its slots are; a state without identity is one of earlier versions.
    if identity:
        check_log(log, slot, known, identity)
    check_slot(session, config, slot, position, known)
    return log


def check_log(log: ServerLog, slot: Slot | None, known: int, identity: JsonObject) -> None:
    """Whether ``log`` is the one that was read up to ``known`` under ``identity``.

    Raises:
        LostPosition: ``TM-PG-016`` it is another one.
        SourceError: ``TM-PG-020`` it will perhaps be, once this standby is promoted: nothing is lost before that.
    """
    if log.system != identity.get("system"):
        raise LostPosition(
            "TM-PG-016",
            f"the capture read system {identity.get('system')}, but this server is {log.system}",
            remedy=f"Point the capture at the server that it read before, or at a replica of it. Otherwise: {_AGAIN}",
        )
    goes_on = slot is not None and not slot.synced and slot.confirmed <= known
    if log.standby and not identity.get("standby") and not goes_on:
        raise SourceError(
            "TM-PG-020",
            "the capture read a primary, and this server is its standby, without a slot for that position",
            remedy="Point the capture at the primary, or wait until this server is promoted. To capture from the "
            "standby instead, start a new change log.",
        )
    timeline = identity.get("timeline")
    if not isinstance(timeline, int) or timeline == log.timeline:
        return
    stood = f"the capture was at {format_lsn(known)} of timeline {timeline}"
    left = log.left.get(timeline)
    if left is None:
        raise LostPosition(
            "TM-PG-016",
            f"{stood}, but this server is on timeline {log.timeline}, which does not descend from it: it was restored "
            "to an earlier time, or was promoted before",
            remedy=_AGAIN,
        )
    if known > left:
        raise LostPosition(
            "TM-PG-016",
            f"{stood}, which this server left at {format_lsn(left)} for timeline {log.timeline}: it was promoted "
            "without the last changes, or restored to an earlier time",
            remedy=(
                f"{_AGAIN} List the replicas that may take over in synchronized_standby_slots (version 17): the "
                "log is then not sent ahead of them."
            ),
        )


def check_slot(
    session: psycopg.Connection, config: EndpointConfig, slot: Slot | None, position: int, known: int
) -> None:
    """Whether the slot still has everything after ``position``, and the server everything up to ``known``.

    Raises:
        LostPosition: ``TM-PG-015`` the slot is gone, invalidated or past the position; ``TM-PG-016`` the position is
            ahead of the server.
        SourceError: ``TM-PG-013`` a slot that cannot be read; ``TM-PG-020`` a standby that is not as far yet.
    """
    if slot is None:
        raise LostPosition(
            "TM-PG-015",
            f"replication slot {config.slot} no longer exists; the capture was at {format_lsn(position)}",
            remedy=(
                f"{_AGAIN} If a replica has taken over: from version 17 on it has the slots too, if they were "
                "created with `failover` and it has sync_replication_slots = on."
            ),
        )
    check_usable(session, config, slot)
    if slot.confirmed > position:
        raise LostPosition(
            "TM-PG-015",
            f"replication slot {config.slot} is at {format_lsn(slot.confirmed)}, past the capture's "
            f"{format_lsn(position)}: it was created again, or something else reads it",
            remedy=f"Give this capture a slot that nothing else reads. {_AGAIN}",
        )
    with asking("asking the server for its position"):
        row = session.execute(
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END"
        ).fetchone()
    end = parse_lsn(row[0]) if row is not None and row[0] else 0
    if known <= end:
        return
    if in_recovery(session):
        raise SourceError(
            "TM-PG-020",
            f"the capture was at {format_lsn(known)}, but this standby has replayed the log only up to "
            f"{format_lsn(end)}",
            remedy="Wait until the standby has caught up with its primary.",
        )
    raise LostPosition(
        "TM-PG-016",
        f"the capture was at {format_lsn(known)}, but this server's log ends at {format_lsn(end)}: it was restored",
        remedy=_AGAIN,
    )


def check_usable(session: psycopg.Connection, config: EndpointConfig, slot: Slot) -> None:
    """Raises LostPosition for a slot that was invalidated, ``TM-PG-013`` for one that is not ours to read.

    A slot is ours if it is pgoutput's, belongs to the database, and is without two_phase.
    """
    if slot.plugin != "pgoutput" or slot.database != config.database:
        kind = f"a logical slot of {slot.plugin} in database {slot.database}" if slot.plugin else "a physical slot"
        raise SourceError("TM-PG-013", f"replication slot {config.slot} is {kind}")
    if slot.two_phase:
        raise SourceError(
            "TM-PG-013",
            f"replication slot {config.slot} has two_phase: it sends transactions that are prepared and may never be "
            "committed",
            remedy=(
                f"{_turned_back(session, config)}"
                "Configure another `slot`, which the connector creates. Or, if nothing else needs this one, "
                f"run: {drop_slot(config).as_string(None)}; and let the connector create it again."
            ),
        )
    if slot.invalidated:
        by_hand = ""
        if not config.create:
            made = f"SELECT pg_drop_replication_slot('{config.slot}'); {slot_statement(session, config)};"
            by_hand = f"Since `create` is false, first run: {made}"
        raise LostPosition(
            "TM-PG-015",
            f"the server has invalidated replication slot {config.slot}: {slot.invalidated}",
            remedy=" ".join(filter(None, [_INVALIDATED.get(slot.invalidated), _AGAIN, by_hand])),
        )
    if slot.synced and in_recovery(session):
        raise SourceError(
            "TM-PG-013",
            f"replication slot {config.slot} follows the primary's, and cannot be read on this standby",
            remedy="Capture from the primary, or configure another `slot` for this standby.",
        )


def _turned_back(session: psycopg.Connection, config: EndpointConfig) -> str:
    """How to keep the position of a slot whose two_phase was altered; before version 18 it cannot be."""
    if session.info.server_version < ALTERED_VERSION:
        return ""
    return (
        "If it was altered, turn it back, which keeps the position: connect with psql "
        f"'replication=database dbname={config.database}', and run ALTER_REPLICATION_SLOT {config.slot} "
        "(TWO_PHASE false); Otherwise: "
    )
