"""Bindings that cannot be captured: there is no such table, or the log lacks its rows, or has them as another's; or a
configured key is NULL in some rows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.encodings import is_sayable, stored_rows
from tidemark.captures.postgres.rows.generated_source import null_key
from tidemark.captures.postgres.server.config import EndpointConfig, ResourceConfig
from tidemark.protocol.errors import SourceError

logger = logging.getLogger(__name__)

NULL_SECONDS = 10
"""That the server may look for NULLs in a column. With an index that begins with the column it takes a moment."""

# pg_class.relkind, of what is not an ordinary or a partitioned table.
_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a composite type",
    "i": "an index",
    "I": "an index",
    "t": "a TOAST table",
}


def no_table(session: psycopg.Connection, config: EndpointConfig, resource: ResourceConfig) -> SourceError:
    """The error for a resource without a table: what has the name instead, or which name was perhaps meant."""
    name = resource.name
    if not is_sayable(session, resource.schema_name + resource.table):
        return _missing(config, resource)
    found = session.execute(
        "SELECT c.relkind::text, c.relpersistence::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE (n.nspname, c.relname) = (%s, %s)",
        resource.path,
    ).fetchone()
    if found is None:
        return _unknown(session, config, resource)
    kind, persistence = found
    if persistence == "u" and kind in "rp":
        identifier = sql.Identifier(*resource.path).as_string(session)
        return SourceError(
            "TM-PG-035",
            f"{name} is an unlogged table: the server does not log its changes",
            remedy=f"Leave the table out, or run: ALTER TABLE {identifier} SET LOGGED;",
        )
    if persistence == "t":
        return SourceError(
            "TM-PG-035", f"{name} is a temporary table", remedy="Leave it out: only its own session can read it."
        )
    if kind in _KINDS:
        remedy = "Leave it out."
        if kind in "vm":
            remedy = "Capture the tables that it reads, and create the view downstream."
        elif kind == "f":
            remedy = "Capture the table on the server that has it."
        return SourceError("TM-PG-035", f"{name} is {_KINDS[kind]}: the log has only rows of tables", remedy=remedy)
    if resource.schema_name == "information_schema" or resource.schema_name.startswith("pg_"):
        return SourceError("TM-PG-035", f"{name} is a system table", remedy="Leave it out.")
    return _missing(config, resource)  # It was away for a moment: there is a table now.


def unlogged_partitions(table: Table) -> Iterator[SourceError]:
    """One error if partitions of a table are unlogged."""
    unlogged = [store for store in table.stores if store.persistence == "u"]
    if unlogged:
        names = ", ".join(store.qualified_name for store in unlogged)
        identifiers = [sql.Identifier(store.schema, store.name).as_string(None) for store in unlogged]
        yield SourceError(
            "TM-PG-035",
            f"partitions of {table.qualified_name} are unlogged, and the server does not log their changes: {names}",
            remedy="Run: " + " ".join(f"ALTER TABLE {identifier} SET LOGGED;" for identifier in identifiers),
        )


def _unknown(session: psycopg.Connection, config: EndpointConfig, resource: ResourceConfig) -> SourceError:
    alike = stored_rows(
        session,
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE (lower(n.nspname), lower(c.relname)) = (lower(%s), lower(%s)) AND c.relkind IN ('r', 'p') ORDER BY 1",
        resource.path,
    )
    return _missing(config, resource, f"; did you mean {' or '.join(row[0] for row in alike)}?" if alike else "")


def _missing(config: EndpointConfig, resource: ResourceConfig, hint: str = "") -> SourceError:
    return SourceError("TM-PG-007", f"there is no table {resource.name} in database {config.database}{hint}")


def uncaptured_partitions(
    session: psycopg.Connection, publication: str, tables: Sequence[Table]
) -> Iterator[tuple[int, SourceError]]:
    """The oid of each partition whose rows the publication shows under another table's name, with an error.

    The other table is one that the partition belongs to. With ``publish_via_partition_root`` it is the topmost such
    table in the publication. A partition is published under its own name if the publication has none of them.

    Args:
        tables: The bound tables. They count as published, since they will be.

    Raises:
        psycopg.Error: The server refuses.
    """
    partitions = [table.oid for table in tables if table.partition]
    if not partitions:
        return
    found = stored_rows(
        session,
        """
        SELECT c.oid::bigint, (SELECT string_agg(n.nspname || '.' || a.relname, ', ')
                       FROM pg_partition_ancestors(c.oid) p
                       JOIN pg_class a ON a.oid = p.relid JOIN pg_namespace n ON n.oid = a.relnamespace
                       WHERE p.relid <> c.oid AND (
                           p.relid = ANY(%(bound)s)
                           OR EXISTS (SELECT FROM pg_publication_tables t WHERE t.pubname = %(publication)s
                                      AND (t.schemaname, t.tablename) = (n.nspname, a.relname))))
        FROM pg_class c WHERE c.oid = ANY(%(partitions)s)
        """,
        {"bound": [table.oid for table in tables], "publication": publication, "partitions": partitions},
    )
    above: dict[int, str | None] = {oid: roots for oid, roots in found}
    for table in tables:
        if (root := above.get(table.oid)) is not None:
            failure = SourceError(
                "TM-PG-036",
                f"{table.qualified_name} is a partition, and publication {publication} publishes its rows as rows of "
                f"{root}",
                remedy=(
                    f"Capture {root} instead of its partitions, or use a separate publication that has the "
                    "partition and none of the tables it belongs to."
                ),
            )
            yield table.oid, failure


def warn_of_foreign_partitions(session: psycopg.Connection, tables: Sequence[Table]) -> None:
    """Warns of partitions that are foreign tables: a backfill reads them, but the log lacks their changes."""
    found = stored_rows(
        session,
        """
        SELECT p.root::bigint, string_agg(n.nspname || '.' || c.relname, ', ' ORDER BY n.nspname, c.relname)
        FROM unnest(%s::oid[]) p (root), pg_partition_tree(p.root) t
        JOIN pg_class c ON c.oid = t.relid AND c.relkind = 'f' JOIN pg_namespace n ON n.oid = c.relnamespace
        GROUP BY 1
        """,
        [[table.oid for table in tables if table.partitioned]],
    )
    names = {table.oid: table.qualified_name for table in tables}
    for root, partitions in found:
        logger.warning(
            "%s has partitions that are foreign tables: %s. Their changes are not in this server's log and are not "
            "captured; a scan by key reads their rows once, and scan: physical leaves them out. Capture them on their "
            "own server",
            names[root],
            partitions,
        )


def null_key_failures(session: psycopg.Connection, table: Table, key: Sequence[str]) -> Iterator[SourceError]:
    """An error if a configured key has NULLs: a scan by key does not find such a row, and no event identifies it.

    Warns if that cannot be told in time.

    Raises:
        psycopg.Error: The server refuses.
    """
    nullable = [column.name for column in table.columns if column.name in key and column.nullable]
    with_nulls = [name for name in nullable if _has_nulls(session, table, name)]
    if with_nulls:
        yield null_key(table.qualified_name, with_nulls)


def _has_nulls(session: psycopg.Connection, table: Table, column: str) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {} IS NULL)").format(
        sql.Identifier(table.schema, table.name), sql.Identifier(column)
    )
    session.execute(sql.SQL("SET statement_timeout = {}").format(f"{NULL_SECONDS}s"))
    try:
        return session.execute(query).fetchone() == (True,)
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
        logger.warning(
            "%s: whether the key column %s has NULLs could not be told within %d s. A backfill would leave such rows "
            "out: make the column NOT NULL",
            table.qualified_name,
            column,
            NULL_SECONDS,
        )
    except psycopg.errors.InsufficientPrivilege:
        pass  # That its rows cannot be read is another error.
    finally:
        if not session.broken:
            session.execute("SET statement_timeout = 0")
    return False
