"""The tables of a capture as they are when its source opens."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from tidemark.captures.postgres.catalog.columns import Table
from tidemark.captures.postgres.catalog.table_record import read_digests
from tidemark.captures.postgres.server.config import EndpointConfig, ResourceConfig
from tidemark.captures.postgres.server.session import asking
from tidemark.captures.postgres.tables.bindings import PostgresBinding, absent, bound_tables
from tidemark.captures.postgres.tables.prerequisites import log_failures
from tidemark.captures.postgres.tables_that_change.comparison import noted_of, oldest_running
from tidemark.captures.tables.table_binding import check_any_fit
from tidemark.captures.tables.truncation import Truncation
from tidemark.protocol.errors import SourceError
from tidemark.protocol.messages import Binding


def opened_bindings(
    session: psycopg.Connection,
    config: EndpointConfig,
    bindings: Sequence[Binding],
    resources: Sequence[ResourceConfig],
) -> tuple[list[PostgresBinding], list[str | None]]:
    """All bindings, and for each the digest of its table's record; None for a table that cannot be captured.

    Raises:
        SourceError: None of the tables can be captured.
    """
    with asking("reading the tables' columns"):
        # An ALTER in between causes one more look, without a consequence.
        names = [(resource.schema_name, resource.table) for resource in resources]
        digests = read_digests(session, config.publication, names)
        since = oldest_running(session)
        tables = bound_tables(session, resources, config.publication)
    bound, seen = [], []
    for index, (binding, resource, table) in enumerate(zip(bindings, resources, tables, strict=True)):
        unfit = undecodable(session, config, resource, table)
        seen.append(digests.get((resource.schema_name, resource.table)) if unfit is None else None)
        made = PostgresBinding(
            index,
            binding.state_key,
            resource,
            table if table is not None and unfit is None else absent(resource),
            emit_truncate=config.truncation is Truncation.EMIT,
            salt=config.hash_salt.get_secret_value().encode(),
            on_bad_value=config.on_bad_value,
            unfit=unfit,
            identified=config.identifies_columns,
            rereads_gone=config.on_partition_gone == "reread",
        )
        if unfit is None:
            made.noted = noted_of(made, since)
        bound.append(made)
    check_any_fit(bound)
    return bound, seen


def undecodable(
    session: psycopg.Connection, config: EndpointConfig, resource: ResourceConfig, table: Table | None
) -> SourceError | None:
    """Why a table's changes could not be decoded if they were published; None if they could. Raises SourceError."""
    with asking(f"reading the definition of {resource.name}"):
        return next(log_failures(session, config, resource, table), None)
