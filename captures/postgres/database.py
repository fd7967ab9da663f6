"""PostgreSQL as a connector: what it is, which tables there are, what must hold, what must be made."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

import psycopg
from pydantic import BaseModel

from captures.postgres.bindings import bound_tables, captured_columns
from captures.postgres.catalog import read_tables
from captures.postgres.columns import Table
from captures.postgres.config import EndpointConfig, ResourceConfig, parse_endpoint, parse_resource
from captures.postgres.document_schema import document_schema
from captures.postgres.names import with_names
from captures.postgres.ownership import NOBODY, Owner
from captures.postgres.prerequisites import unmet
from captures.postgres.session import asking, connect
from captures.postgres.source import PostgresSource
from captures.postgres.standing import standing_failures
from protocol.errors import SourceError, codes_of
from protocol.logs import log_failure, log_left_out
from protocol.messages import CHECK, LOG_ID, Binding, DiscoveredBinding, JsonObject

logger = logging.getLogger(__name__)

FALLBACK_KEY = "/_meta/source/loc"
"""The key of a collection whose table has none."""


class PostgresDatabase:
    """See ``captures.interface.Database``."""

    def __init__(self) -> None:
        self.documentation_url = "docs/postgres.md"
        self.resource_path_pointers = ["/schema", "/table"]
        self.endpoint_config: type[BaseModel] = EndpointConfig
        self.resource_config: type[BaseModel] = ResourceConfig

        self._owner = NOBODY
        self._state: JsonObject = {}

    def with_names(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        self._owner, self._state = Owner(capture, os.environ.get(LOG_ID, "")), state
        return with_names(config, capture, state)

    def discover(self, config: JsonObject) -> list[DiscoveredBinding]:
        endpoint = parse_endpoint(config)
        with _session(endpoint, "discovering tables") as session:
            tables = read_tables(session)
        found = [_discovered(table, truncates=endpoint.truncate == "emit") for table in tables]
        why = "it has no primary key, and without REPLICA IDENTITY FULL the log does not tell its rows apart"
        for binding in found:
            if binding.disable:
                log_left_out(logger, binding.recommended_name, why)
        return found

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        endpoint = parse_endpoint(config)
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        with _session(endpoint, "checking prerequisites") as session:
            failures = unmet(session, endpoint, resources, bound_tables(session, resources))
            if check := os.environ.get(CHECK):
                said = {str(failure) for failure in failures}
                found = standing_failures(session, endpoint, self._owner, self._state, running=check == "running")
                failures += [failure for failure in found if str(failure) not in said]
        if len(failures) == 1:
            raise failures[0]
        if failures:
            for failure in failures:
                log_failure(logger, failure)
            raise SourceError("TM-PG-010", f"{len(failures)} prerequisites are not met: {codes_of(failures)}")
        return [resource.path for resource in resources]

    def apply(self, config: JsonObject, bindings: Sequence[Binding]) -> str:
        """Nothing: only when the capture opens is it known where it stands, and so whether this is its server."""
        return ""

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> PostgresSource:
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        endpoint = parse_endpoint(config)
        if only_reads:
            endpoint = endpoint.model_copy(update={"read_only": True})
        return PostgresSource(endpoint, bindings, resources, self._owner)


@contextlib.contextmanager
def _session(endpoint: EndpointConfig, what: str) -> Iterator[psycopg.Connection]:
    with connect(endpoint) as session, asking(what):
        yield session


def _discovered(table: Table, *, truncates: bool) -> DiscoveredBinding:
    columns = captured_columns(table, ())
    key = [f"/{name.replace('~', '~0').replace('/', '~1')}" for name in table.key]
    return DiscoveredBinding(
        recommended_name=f"{table.schema}/{table.name}",
        resource_config={"schema": table.schema, "table": table.name},
        document_schema=document_schema(table, columns, table.key, truncates=truncates),
        key=key or [FALLBACK_KEY],
        resource_path=[table.schema, table.name],
        # Once it is published, the server would refuse to update a table whose log cannot tell rows apart.
        disable=not key and table.replica_identity != "f",
        is_fallback_key=not key or table.key_is_fallback,
    )
