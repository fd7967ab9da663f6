"""The prerequisites of the server and the role, whatever tables are captured, and how its provider has them met."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import sql

from tidemark.captures.contract.errors import LostPosition
from tidemark.captures.postgres.server.config import EndpointConfig
from tidemark.captures.postgres.server.resumption import check_usable, read_slot
from tidemark.captures.postgres.server.session import in_recovery
from tidemark.captures.postgres.server.setup import slot_statement
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

MINIMUM_VERSION = 140000
STANDBY_VERSION = 160000
"""Since this one, a standby decodes its log."""

# The attribute is not inherited from other roles, except on RDS, whose server knows this one.
_MAY_REPLICATE = """
SELECT r.rolreplication OR r.rolsuper OR EXISTS (
    SELECT FROM pg_catalog.pg_roles g
    WHERE g.rolname = 'rds_replication' AND pg_has_role(current_user, g.oid, 'member'))
FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
"""

# Without the right to see what others do, their rows are there all the same, with nulls.
_FREE = """
SELECT current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_catalog.pg_replication_slots),
       current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_catalog.pg_stat_replication)
"""


@dataclass(frozen=True, slots=True)
class Platform:
    """The provider of a server, and its replacements for statements that only a superuser may run.

    Attributes:
        name: The name for people.
        logical_decoding: How to set ``wal_level`` to ``logical``.
        replication: The statement that lets a role replicate; ``{role}`` stands for the quoted role.
        slots: How to raise ``max_replication_slots`` and ``max_wal_senders``.
        bypass_policies: How to let a role read rows in spite of row security.
    """

    name: str
    logical_decoding: str
    replication: str
    slots: str
    bypass_policies: str


_SETTING = "Raise max_replication_slots and max_wal_senders"
_ADMIN_BYPASS = "Run, as the provider's administrator: ALTER ROLE {role} BYPASSRLS;"

SELF_MANAGED = Platform(
    "self-managed server",
    "Run: ALTER SYSTEM SET wal_level = logical; and restart the server.",
    "Run, as a superuser: ALTER ROLE {role} REPLICATION;",
    f"{_SETTING} with ALTER SYSTEM SET, and restart the server.",
    "Run, as a superuser: ALTER ROLE {role} BYPASSRLS;",
)

PLATFORMS = {
    "rds_superuser": Platform(
        "Amazon RDS or Aurora",
        "Set rds.logical_replication = 1 in the parameter group (Aurora: of the cluster), and reboot the instance that "
        "writes.",
        "Run, as the master user: GRANT rds_replication TO {role};",
        f"{_SETTING} in the parameter group (Aurora: of the cluster), and reboot the instance.",
        _ADMIN_BYPASS,
    ),
    "cloudsqlsuperuser": Platform(
        "Google Cloud SQL",
        "Set the flag cloudsql.logical_decoding = on, which restarts the instance.",
        "Run, as the user postgres: ALTER ROLE {role} REPLICATION;",
        f"{_SETTING} by flags of these names, which restarts the instance.",
        _ADMIN_BYPASS,
    ),
    "azure_pg_admin": Platform(
        "Azure Database for PostgreSQL",
        "Set the server parameter wal_level to logical, and restart the server.",
        "Run, as the server's administrator: ALTER ROLE {role} REPLICATION;",
        f"{_SETTING} among the server parameters, and restart the server.",
        _ADMIN_BYPASS,
    ),
    "supabase_admin": Platform(
        "Supabase",
        "It is on for every project; connect to the database itself, not to its pooler.",
        "Run, as the user postgres: ALTER ROLE {role} REPLICATION;",
        f"{_SETTING} by `supabase postgres-config update`, or drop slots that nothing reads.",
        "Run, as the user postgres: ALTER ROLE {role} BYPASSRLS;",
    ),
    "neon_superuser": Platform(
        "Neon",
        "Turn on logical replication in the project's settings; it cannot be turned off again.",
        "Run, as a role created in the console: ALTER ROLE {role} REPLICATION; or capture as such a role, which may "
        "already replicate.",
        "The number is fixed: drop slots that nothing reads, or ask Neon for more.",
        _ADMIN_BYPASS,
    ),
}
"""By the role that a provider puts into every one of its databases."""


def platform_of(session: psycopg.Connection) -> Platform:
    """Recognises the provider by its roles. Raises psycopg.Error."""
    rows = session.execute(
        "SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = ANY(%s)", [list(PLATFORMS)]
    ).fetchall()
    found = {name for (name,) in rows}
    return next((platform for role, platform in PLATFORMS.items() if role in found), SELF_MANAGED)


def server_failures(session: psycopg.Connection, config: EndpointConfig, platform: Platform) -> Iterator[SourceError]:
    """Version, encoding, logical decoding, and whether the role may replicate. Raises psycopg.Error."""
    version = session.info.server_version
    if version < MINIMUM_VERSION:
        yield SourceError("TM-PG-004", f"the server has version {version // 10000}; version 14 or later is required")
    standby = in_recovery(session)
    if standby and version < STANDBY_VERSION:
        yield SourceError(
            "TM-PG-004",
            f"the server is a standby of version {version // 10000}; a standby must have version 16 or later",
            remedy="Capture from the primary, or upgrade both to PostgreSQL 16 or later.",
        )
    if _setting(session, "server_encoding") == "SQL_ASCII":
        yield SourceError("TM-PG-026", f"database {config.database} has the encoding SQL_ASCII")
    if (level := _setting(session, "wal_level")) != "logical":
        where = " Its primary needs the same." if standby else ""
        yield SourceError(
            "TM-PG-005",
            f"wal_level is {level} ({platform.name})",
            remedy=platform.logical_decoding + where,
        )
    if session.execute(_MAY_REPLICATE).fetchone() != (True,):
        role = sql.Identifier(config.user).as_string(session)
        yield SourceError(
            "TM-PG-006",
            f"user {config.user} may not replicate ({platform.name})",
            remedy=platform.replication.format(role=role),
        )
    if standby and _setting(session, "hot_standby_feedback") != "on":
        logger.warning(
            "hot_standby_feedback is off on this standby: the primary's vacuum may invalidate the slot at any time; "
            "run, on the standby: ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf();"
        )


def slot_failures(session: psycopg.Connection, config: EndpointConfig, platform: Platform) -> Iterator[SourceError]:
    """Whether the slot is there and can be read, or can be made. Raises psycopg.Error."""
    free = session.execute(_FREE).fetchone()
    assert free is not None
    slots, senders = free
    slot = read_slot(session, config.slot)
    if slot is not None:
        try:
            check_usable(session, config, slot)
        except LostPosition as error:
            if config.on_lost_position == "fail":  # Otherwise it is created again when the capture opens.
                yield error
        except SourceError as error:
            yield error
    elif not config.create:
        yield SourceError(
            "TM-PG-012",
            f"there is no replication slot {config.slot}",
            remedy=f"Run: {slot_statement(session, config)};",
        )
    elif slots <= 0:
        yield SourceError(
            "TM-PG-025", "all replication slots that max_replication_slots allows are in use", remedy=platform.slots
        )
    if senders <= 0 and (slot is None or slot.active_pid is None):
        yield SourceError("TM-PG-025", "all walsenders that max_wal_senders allows are in use", remedy=platform.slots)


def _setting(session: psycopg.Connection, name: str) -> str:
    row = session.execute("SELECT current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row is not None else ""
