"""The prerequisites of a capture. All of them are checked, and all failures are reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.replica_identities import (
    identified_by_all,
    identity_failures,
    identity_index,
)
from tidemark.captures.postgres.catalog.table_record import Published, read_publication
from tidemark.captures.postgres.server.config import EndpointConfig, ResourceConfig
from tidemark.captures.postgres.server.resumption import read_slot
from tidemark.captures.postgres.server.server_prerequisites import platform_of, server_failures, slot_failures
from tidemark.captures.postgres.server.session import in_recovery
from tidemark.captures.postgres.server.setup import (
    lacking,
    owned,
    publication_lost,
    publication_statement,
    table_identifier,
    unpublished,
)
from tidemark.captures.postgres.tables.unsayable_names import unsayable_failures
from tidemark.captures.postgres.tables.unsupported_tables import (
    no_table,
    null_key_failures,
    uncaptured_partitions,
    unlogged_partitions,
    warn_of_foreign_partitions,
)
from tidemark.captures.postgres.values.types import clampable
from tidemark.captures.server.option_failures import option_failures
from tidemark.captures.server.unmet import Unmet
from tidemark.captures.tables.bad_values import quarantine_failures
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.errors import SourceError

GENERATED_VERSION = 180000
"""Since this one, generated columns can be published, and matter to replica identities."""


def unmet(
    session: psycopg.Connection,
    config: EndpointConfig,
    resources: Sequence[ResourceConfig],
    tables: Sequence[Table | None],
) -> Unmet:
    """Every prerequisite that is not met. ``tables`` is parallel to ``resources``, with None for a missing table."""
    found = [table for table in tables if table is not None]
    platform = platform_of(session)
    policies = [(resource.name, resource.on_bad_value) for resource in resources]
    source = [
        *quarantine_failures("TM-PG-023", config.on_bad_value, policies),
        *server_failures(session, config, platform),
    ]
    of_tables = [
        list(log_failures(session, config, resource, table)) for resource, table in zip(resources, tables, strict=True)
    ]
    for failures, table in zip(of_tables, tables, strict=True):
        failures += _reading_failures(session, config, table) if table is not None else ()
    by_oid = {table.oid: of_tables[index] for index, table in enumerate(tables) if table is not None}
    for oid, failure in publication_failures(session, config, found):
        by_oid[oid].append(failure)
    for lacked, failure in _unpublished(session, config, found):
        (source if lacked is None else by_oid[lacked]).append(failure)
    in_part = kinds_failure(config, read_publication(session, config.publication))
    source += [] if in_part is None else [in_part]
    source += slot_failures(session, config, platform)
    return Unmet(source, of_tables)


def log_failures(
    session: psycopg.Connection, config: EndpointConfig, resource: ResourceConfig, table: Table | None
) -> Iterator[SourceError]:
    """Why a table cannot be captured at all. The server is asked only what is missing, and for NULLs in a key."""
    name = resource.name
    if table is None:
        yield no_table(session, config, resource)
        return
    columns = {column.name for column in table.columns}
    yield from document_failures(resource, table)
    yield from unlogged_partitions(table)
    key = resource.key if resource.key is not None else list(table.key)
    temporal = {column.name for column in table.columns if clampable(column)}
    yield from option_failures(config, resource, columns, key, temporal, code="TM-PG-022", wrong_config="TM-PG-023")
    if generated := [column.name for column in table.columns if column.generated and column.name in key]:
        yield SourceError(
            "TM-PG-022",
            f"{name}: the key column {', '.join(generated)} is generated, and the log does not carry its values",
            remedy="Choose another `key`, for example the columns from which it is generated, if they are unique.",
        )
        return  # The replica identity cannot have it either, for the same reason.
    if not key and resource.scan == "key":
        yield SourceError("TM-PG-009", f"{name} has no primary key and no unique index over columns that are not null")
    yield from _identity_failures(table, key)
    if resource.key is not None and set(key) <= columns:
        yield from null_key_failures(session, table, key)


def _identity_failures(table: Table, key: Sequence[str]) -> Iterator[SourceError]:
    """Those of ``identity_failures``, where a generated column is the cause with that."""
    columns = {name for store in table.stores for name in store.identified_by}
    generated = sorted(column.name for column in table.columns if column.generated and column.name in columns)
    for failure in identity_failures(table, key):
        if key or not generated:
            yield failure
            continue
        yield SourceError(
            failure.code,
            f"{table.qualified_name}: the column {', '.join(generated)} of its key is generated, and the log does not "
            "carry its values: nothing identifies its rows",
            remedy=failure.remedy,
        )


def document_failures(resource: ResourceConfig, table: Table) -> Iterator[SourceError]:
    """Why the columns of a table, as the catalog or the log has them, cannot be the members of documents."""
    name = resource.name
    captured = [column for column in table.columns if not column.generated and column.name not in resource.exclude]
    if not captured:
        yield SourceError(
            "TM-PG-035",
            f"{name} has no columns left to capture",
            remedy="Leave the table out, or exclude fewer of its columns.",
        )
    if any(column.name == "_meta" for column in captured):
        yield SourceError("TM-PG-017", f"{name} has a column named _meta")
    yield from unsayable_failures(table, resource.exclude, resource.key if resource.key is not None else table.key)


def _reading_failures(session: psycopg.Connection, config: EndpointConfig, table: Table) -> Iterator[SourceError]:
    """Why the rows of a table cannot be read. Its changes can be captured all the same."""
    name = table.qualified_name
    assert table.record is not None
    role = sql.Identifier(config.user).as_string(session)
    if table.record.hidden:
        yield SourceError(
            "TM-PG-008",
            f"row security hides rows of {name} from user {config.user}",
            remedy=platform_of(session).bypass_policies.format(role=role),
        )
    if not table.record.readable:
        identifier = table_identifier(table).as_string(session)
        schema = sql.Identifier(table.schema).as_string(session)
        yield SourceError(
            "TM-PG-008",
            f"user {config.user} may not read {name}",
            remedy=f"Run: GRANT USAGE ON SCHEMA {schema} TO {role}; GRANT SELECT ON {identifier} TO {role};",
        )


def publication_failures(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]
) -> Iterator[tuple[int, SourceError]]:
    """Why tables could not be captured through the publication, also after they are added to it; by their oids."""
    if tables:
        warn_of_foreign_partitions(session, tables)
        yield from uncaptured_partitions(session, config.publication, tables)
        yield from _published_in_part(config, tables)
        yield from _refused_changes(session, config, tables)


def _unpublished(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]
) -> Iterator[tuple[int | None, SourceError]]:
    """Tables that are not published and will not be, by their oids; None instead of an oid stands for all tables."""
    missing = unpublished(session, config.publication, tables) if tables else []
    if missing == []:
        return
    # If tables may be read again, slot and publication are created again when the capture opens.
    if missing is None and config.on_lost_position == "fail" and read_slot(session, config.slot) is not None:
        yield None, publication_lost(config, tables)
        return
    wanted = missing if missing is not None else tables
    if not config.create or config.read_only or in_recovery(session):
        if missing is None:
            yield None, lacking(session, config, wanted, exists=False)
        for table in missing or ():
            yield table.oid, lacking(session, config, [table], exists=True)
        return
    row = session.execute(
        """
        SELECT has_database_privilege(current_database(), 'CREATE'),
               coalesce((SELECT pg_has_role(current_user, pubowner, 'member')
                         FROM pg_publication WHERE pubname = %s), true)
        """,
        [config.publication],
    ).fetchone()
    assert row is not None
    may_create, owns_publication = row
    own = owned(session, wanted)
    if missing is None and (not may_create or not own):
        statement = publication_statement(config.publication, wanted, exists=False).as_string(session)
        remedy = f"Run, as the tables' owner: {statement};"
        yield None, SourceError("TM-PG-011", f"user {config.user} may not publish {len(wanted)} tables", remedy=remedy)
        return
    for table in wanted:
        if not owns_publication or table not in own:
            remedy = lacking(session, config, [table], exists=True).remedy
            yield (
                table.oid,
                SourceError("TM-PG-011", f"user {config.user} may not publish {table.qualified_name}", remedy=remedy),
            )


def _refused_changes(
    session: psycopg.Connection, config: EndpointConfig, tables: Sequence[Table]
) -> Iterator[tuple[int, SourceError]]:
    """Tables whose rows the server, from version 18 on, refuses to update or delete once they are published.

    These have REPLICA IDENTITY FULL and generated columns that the publication leaves out. A publication always leaves
    out virtual columns.
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
        if not identified_by_all(table.stores) or not kinds or (publishes_stored and kinds == {"s"}):
            continue
        remedy = _smaller_identity(session, table)
        if kinds == {"s"}:
            setting = "publish_generated_columns = stored"
            if found is not None:
                statement = f"ALTER PUBLICATION {name} SET ({setting})"
            else:
                made = publication_statement(config.publication, tables, exists=False).as_string(session)
                statement = f"{made.removesuffix(')')}, {setting})"
            remedy = f"{remedy} Or publish the columns, which are still left out: {statement};"
        failure = SourceError(
            "TM-PG-018",
            f"{table.qualified_name} has REPLICA IDENTITY FULL and generated columns: while the publication leaves "
            "these out, the server refuses updates and deletes of its rows",
            remedy=remedy,
        )
        yield table.oid, failure


def _smaller_identity(session: psycopg.Connection, table: Table) -> str:
    """The remedy by which the replica identity of a table becomes its key, or the columns of an index."""
    if table.key and not table.key_is_fallback:
        identity: sql.Composable = sql.SQL("DEFAULT")
    elif (index := identity_index(session, table)) is not None:
        identity = sql.SQL("USING INDEX {}").format(sql.Identifier(index))
    else:
        return "Add a primary key, and set the table's REPLICA IDENTITY to DEFAULT."
    statement = sql.SQL("ALTER TABLE {} REPLICA IDENTITY {}").format(table_identifier(table), identity)
    return f"Run: {statement.as_string(session)};"


def kinds_failure(config: EndpointConfig, publication: Published | None) -> SourceError | None:
    """The error for a publication that leaves out some kinds of changes; None if it has all of them."""
    if publication is None:
        return None
    changes = publication.insert and publication.update and publication.delete
    if changes and (config.truncation is Truncation.IGNORE or publication.truncate):
        return None
    name = sql.Identifier(config.publication).as_string(None)
    return SourceError(
        "TM-PG-011",
        f"publication {config.publication} does not publish every kind of change",
        remedy=f"Run: ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');",
    )


def _published_in_part(config: EndpointConfig, tables: Sequence[Table]) -> Iterator[tuple[int, SourceError]]:
    """Errors for tables of which the publication leaves out rows or columns, or publishes partitions by their names."""
    name = sql.Identifier(config.publication).as_string(None)
    for table in tables:
        record = table.record
        assert record is not None
        if record.publication is not None and table.partitioned and not record.publication.via_root:
            failure = SourceError(
                "TM-PG-011",
                f"publication {config.publication} publishes partitions by their own names, not as "
                f"{table.qualified_name}",
                remedy=f"Run: ALTER PUBLICATION {name} SET (publish_via_partition_root = true);",
            )
            yield table.oid, failure
        elif record.in_part:
            identifier = table_identifier(table).as_string(None)
            failure = SourceError(
                "TM-PG-011",
                f"publication {config.publication} publishes only some rows or columns of {table.qualified_name}",
                remedy=f"Run: ALTER PUBLICATION {name} DROP TABLE {identifier}; "
                f"ALTER PUBLICATION {name} ADD TABLE {identifier}; leave columns out with `exclude` instead.",
            )
            yield table.oid, failure
