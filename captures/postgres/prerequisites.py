"""Everything that must hold before a capture can run. All of it is looked at, and all that fails is said at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from captures.postgres.columns import Table
from captures.postgres.config import EndpointConfig, ResourceConfig
from captures.postgres.setup import (
    check_slot_kind,
    publication_statement,
    slot_statement,
    table_identifier,
    unpublished,
)
from protocol.errors import SourceError

MINIMUM_VERSION = 140000


def unmet(
    session: psycopg.Connection,
    config: EndpointConfig,
    resources: Sequence[ResourceConfig],
    tables: Sequence[Table | None],
) -> list[SourceError]:
    """Every prerequisite that is not met; ``tables`` is parallel to ``resources``, None where a table is missing."""
    found = [table for table in tables if table is not None]
    return [
        *_server(session, config),
        *(
            error
            for resource, table in zip(resources, tables, strict=True)
            for error in _table(session, config, resource, table)
        ),
        *_publication(session, config, found),
        *_slot(session, config),
    ]


def _server(session: psycopg.Connection, config: EndpointConfig) -> Iterator[SourceError]:
    version = session.info.server_version
    if version < MINIMUM_VERSION:
        yield SourceError("TM-PG-004", f"the server is version {version // 10000}, needed is 14 or later")
    encoding = session.execute("SELECT current_setting('server_encoding')").fetchone()
    if encoding == ("SQL_ASCII",):
        yield SourceError("TM-PG-026", f"database {config.database} has the encoding SQL_ASCII")
    level = session.execute("SELECT current_setting('wal_level')").fetchone()
    if level != ("logical",):
        yield SourceError("TM-PG-005", f"wal_level is {level[0] if level else 'unknown'}")
    role = session.execute(
        """
        SELECT rolreplication OR rolsuper OR EXISTS (
            SELECT FROM pg_roles r WHERE r.rolname IN ('rds_replication', 'cloudsqlreplication')
                                     AND pg_has_role(current_user, r.oid, 'member'))
        FROM pg_roles WHERE rolname = current_user
        """
    ).fetchone()
    if role != (True,):
        yield SourceError(
            "TM-PG-006",
            f"user {config.user} may not replicate",
            remedy=f'Run, as a superuser: ALTER ROLE "{config.user}" REPLICATION; '
            f'on RDS: GRANT rds_replication TO "{config.user}";',
        )


def _table(
    session: psycopg.Connection, config: EndpointConfig, resource: ResourceConfig, table: Table | None
) -> Iterator[SourceError]:
    name = f"{resource.schema_name}.{resource.table}"
    if table is None:
        yield SourceError(
            "TM-PG-007", f"there is no table {name} in database {config.database}, or it cannot be captured"
        )
        return
    columns = {column.name for column in table.columns}
    if "_meta" in columns - set(resource.exclude):
        yield SourceError("TM-PG-017", f"{name} has a column named _meta")
    if unknown := sorted(set(resource.exclude) - columns):
        yield SourceError("TM-PG-022", f"{name}: exclude names columns that are not there: {', '.join(unknown)}")
    key = resource.key if resource.key is not None else list(table.key)
    if unknown := sorted(set(key) - columns):
        yield SourceError("TM-PG-022", f"{name}: key names columns that are not there: {', '.join(unknown)}")
    if excluded := sorted(set(key) & set(resource.exclude)):
        yield SourceError("TM-PG-022", f"{name}: the key column {', '.join(excluded)} cannot be excluded")
    if not key and resource.scan == "key":
        yield SourceError("TM-PG-009", f"{name} has no primary key and no unique index over columns that are not null")
    if table.replica_identity == "n":
        statement = f"ALTER TABLE {table_identifier(table).as_string(session)} REPLICA IDENTITY DEFAULT;"
        yield SourceError("TM-PG-018", f"{name} has REPLICA IDENTITY NOTHING", remedy=f"Run: {statement}")
    elif table.replica_identity == "d" and (not table.key or table.key_is_fallback):
        statement = f"ALTER TABLE {table_identifier(table).as_string(session)} REPLICA IDENTITY FULL;"
        yield SourceError(
            "TM-PG-018", f"{name} has no primary key for its REPLICA IDENTITY", remedy=f"Run: {statement}"
        )
    elif table.replica_identity == "d" and not set(key) <= set(table.key):
        statement = f"ALTER TABLE {table_identifier(table).as_string(session)} REPLICA IDENTITY FULL;"
        yield SourceError(
            "TM-PG-032", f"{name}: deletes do not carry the key {', '.join(key)}", remedy=f"Run: {statement}"
        )
    granted = session.execute(
        "SELECT has_table_privilege(%s::oid, 'SELECT') AND has_schema_privilege(%s, 'USAGE'),"
        " row_security_active(%s::oid)",
        [table.oid, table.schema, table.oid],
    ).fetchone()
    assert granted is not None
    may_read, sees_in_part = granted
    if sees_in_part:
        yield SourceError(
            "TM-PG-008",
            f"row security hides rows of {name} from user {config.user}",
            remedy=f'Run, as a superuser: ALTER ROLE "{config.user}" BYPASSRLS;',
        )
    if not may_read:
        identifier = table_identifier(table).as_string(session)
        yield SourceError(
            "TM-PG-008",
            f"user {config.user} may not read {name}",
            remedy=f'Run: GRANT USAGE ON SCHEMA "{table.schema}" TO "{config.user}"; '
            f'GRANT SELECT ON {identifier} TO "{config.user}";',
        )


def _publication(session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]) -> Iterator[SourceError]:
    if not tables:
        return
    yield from _published_in_part(session, config, tables)
    missing = unpublished(session, config.publication, tables)
    if missing == []:
        return
    wanted = missing if missing is not None else tables
    statement = publication_statement(config.publication, wanted, exists=missing is not None).as_string(session)
    remedy = f"Run, as the tables' owner: {statement};"
    if not config.create or config.read_only:
        yield SourceError("TM-PG-011", f"publication {config.publication} lacks {len(wanted)} tables", remedy=remedy)
        return
    row = session.execute(
        """
        SELECT has_database_privilege(current_database(), 'CREATE'),
               coalesce((SELECT pg_has_role(current_user, pubowner, 'member')
                         FROM pg_publication WHERE pubname = %s), true),
               array(SELECT c.relname FROM pg_class c
                     WHERE c.oid = ANY(%s) AND NOT pg_has_role(current_user, c.relowner, 'member'))
        """,
        [config.publication, [table.oid for table in wanted]],
    ).fetchone()
    assert row is not None
    may_create, owns_publication, foreign = row
    if foreign or not owns_publication or (missing is None and not may_create):
        yield SourceError("TM-PG-011", f"user {config.user} may not publish {len(wanted)} tables", remedy=remedy)


def _published_in_part(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]
) -> Iterator[SourceError]:
    """What a publication that someone else made leaves out: those changes would be missing without a word."""
    name = sql.Identifier(config.publication).as_string(session)
    found = session.execute(
        "SELECT pubinsert AND pubupdate AND pubdelete, pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s",
        [config.publication],
    ).fetchone()
    if found is None:
        return
    changes, truncates, through_root = found
    if not changes or (config.truncate == "emit" and not truncates):
        yield SourceError(
            "TM-PG-011",
            f"publication {config.publication} does not publish every kind of change",
            remedy=f"Run: ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');",
        )
    if not through_root and (roots := [table.qualified_name for table in tables if table.partitioned]):
        yield SourceError(
            "TM-PG-011",
            f"publication {config.publication} publishes partitions by their own names, not as {', '.join(roots)}",
            remedy=f"Run: ALTER PUBLICATION {name} SET (publish_via_partition_root = true);",
        )
    if session.info.server_version < 150000:
        return  # Row filters and column lists came with version 15.
    limited = session.execute(
        "SELECT r.prrelid FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid"
        " WHERE p.pubname = %s AND r.prrelid = ANY(%s) AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL)",
        [config.publication, [table.oid for table in tables]],
    ).fetchall()
    for table in tables:
        if (table.oid,) in limited:
            identifier = table_identifier(table).as_string(session)
            yield SourceError(
                "TM-PG-011",
                f"publication {config.publication} publishes only some rows or columns of {table.qualified_name}",
                remedy=f"Run: ALTER PUBLICATION {name} DROP TABLE {identifier}; "
                f"ALTER PUBLICATION {name} ADD TABLE {identifier}; leave columns out with `exclude` instead.",
            )


def _slot(session: psycopg.Connection, config: EndpointConfig) -> Iterator[SourceError]:
    slot = session.execute(
        "SELECT plugin, database FROM pg_replication_slots WHERE slot_name = %s", [config.slot]
    ).fetchone()
    if slot is None:
        if not config.create:
            yield SourceError(
                "TM-PG-012", f"there is no replication slot {config.slot}", remedy=f"Run: {slot_statement(config)};"
            )
        row = session.execute(
            "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
        ).fetchone()
        if row is not None and row[0] <= 0:
            yield SourceError("TM-PG-025", "every replication slot that max_replication_slots allows is taken")
        return
    try:
        check_slot_kind(config, *slot)
    except SourceError as error:
        yield error
