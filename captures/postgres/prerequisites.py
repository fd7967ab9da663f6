"""Everything that must hold before a capture can run. All of it is looked at, and all that fails is said at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from captures.hashes import no_salt
from captures.postgres.columns import Table
from captures.postgres.config import EndpointConfig, ResourceConfig
from captures.postgres.platform import platform_of
from captures.postgres.position import read_slot
from captures.postgres.server_prerequisites import server_failures, slot_failures
from captures.postgres.session import in_recovery
from captures.postgres.setup import lacking, publication_lost, publication_statement, table_identifier, unpublished
from captures.postgres.uncapturable import no_table, rows_come_as_another
from captures.truncation import Truncation
from protocol.errors import SourceError

GENERATED_VERSION = 180000
"""Since this one, generated columns can be published, and matter to replica identities."""


def unmet(
    session: psycopg.Connection,
    config: EndpointConfig,
    resources: Sequence[ResourceConfig],
    tables: Sequence[Table | None],
) -> list[SourceError]:
    """Every prerequisite that is not met; ``tables`` is parallel to ``resources``, None where a table is missing."""
    found = [table for table in tables if table is not None]
    platform = platform_of(session)
    return [
        *server_failures(session, config, platform),
        *(
            error
            for resource, table in zip(resources, tables, strict=True)
            for error in table_failures(session, config, resource, table)
        ),
        *_publication(session, config, found),
        *slot_failures(session, config, platform),
    ]


def table_failures(
    session: psycopg.Connection, config: EndpointConfig, resource: ResourceConfig, table: Table | None
) -> Iterator[SourceError]:
    name = f"{resource.schema_name}.{resource.table}"
    if table is None:
        yield no_table(session, config, resource)
        return
    columns = {column.name for column in table.columns}
    if "_meta" in columns - set(resource.exclude):
        yield SourceError("TM-PG-017", f"{name} has a column named _meta")
    if unknown := sorted(set(resource.exclude) - columns):
        yield SourceError("TM-PG-022", f"{name}: exclude names columns that are not there: {', '.join(unknown)}")
    if unknown := sorted(set(resource.hash) - columns):
        yield SourceError("TM-PG-022", f"{name}: hash names columns that are not there: {', '.join(unknown)}")
    if resource.hash and not config.hash_salt.get_secret_value():
        yield no_salt("TM-PG-023", table.qualified_name)
    key = resource.key if resource.key is not None else list(table.key)
    if hashed := sorted(set(key) & set(resource.hash)):
        yield SourceError(
            "TM-PG-022",
            f"{name}: the key column {', '.join(hashed)} cannot be hashed",
            remedy="Rows are found by their key. Hash other columns, or choose another `key` of unique columns.",
        )
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
    role = sql.Identifier(config.user).as_string(session)
    if sees_in_part:
        yield SourceError(
            "TM-PG-008",
            f"row security hides rows of {name} from user {config.user}",
            remedy=platform_of(session).bypass_policies.format(role=role),
        )
    if not may_read:
        identifier = table_identifier(table).as_string(session)
        schema = sql.Identifier(table.schema).as_string(session)
        yield SourceError(
            "TM-PG-008",
            f"user {config.user} may not read {name}",
            remedy=f"Run: GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {identifier} TO {role};",
        )


def _publication(session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]) -> Iterator[SourceError]:
    if not tables:
        return
    yield from rows_come_as_another(session, config.publication, tables)
    yield from _published_in_part(session, config, tables)
    yield from _refused_changes(session, config, tables)
    missing = unpublished(session, config.publication, tables)
    if missing == []:
        return
    # Where tables may be read anew, slot and publication are made anew when the capture opens.
    if missing is None and config.on_lost_position == "fail" and read_slot(session, config.slot) is not None:
        yield publication_lost(config, tables)
        return
    wanted = missing if missing is not None else tables
    if not config.create or config.read_only or in_recovery(session):
        yield lacking(session, config, wanted, exists=missing is not None)
        return
    statement = publication_statement(config.publication, wanted, exists=missing is not None).as_string(session)
    remedy = f"Run, as the tables' owner: {statement};"
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


def _refused_changes(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]
) -> Iterator[SourceError]:
    """Tables whose rows the server, from version 18 on, lets nobody update or delete any more once they are published.

    Those with REPLICA IDENTITY FULL of which the publication leaves out generated columns; virtual ones it always does.
    """
    if session.info.server_version < GENERATED_VERSION:
        return
    found = session.execute(
        "SELECT pubgencols = 's' FROM pg_publication WHERE pubname = %s", [config.publication]
    ).fetchone()
    publishes_stored = found is not None and found[0]
    name = sql.Identifier(config.publication).as_string(session)
    for table in tables:
        kinds = {column.generated for column in table.columns} - {""}
        if table.replica_identity != "f" or not kinds or (publishes_stored and kinds == {"s"}):
            continue
        identifier = table_identifier(table).as_string(session)
        remedy = f"Run: ALTER TABLE {identifier} REPLICA IDENTITY DEFAULT; or, without a primary key, USING INDEX …;"
        if kinds == {"s"}:
            setting = "publish_generated_columns = stored"
            if found is not None:
                statement = f"ALTER PUBLICATION {name} SET ({setting})"
            else:
                made = publication_statement(config.publication, tables, exists=False).as_string(session)
                statement = f"{made.removesuffix(')')}, {setting})"
            remedy = f"{remedy} Or publish the columns, which are left out all the same: {statement};"
        yield SourceError(
            "TM-PG-018",
            f"{table.qualified_name} has REPLICA IDENTITY FULL and generated columns: while it is published without "
            "them, the server refuses to update and delete its rows",
            remedy=remedy,
        )


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
    if not changes or (config.truncation is not Truncation.IGNORE and not truncates):
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
