"""The provider of a PostgreSQL server, and its replacements for statements that only a superuser may run."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg


@dataclass(frozen=True, slots=True)
class Platform:
    """A provider.

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
