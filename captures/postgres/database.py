"""PostgreSQL as a connector: what it is, which tables there are, what must hold, what must be made."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

import psycopg
from pydantic import BaseModel

from captures.postgres.config import EndpointConfig, ResourceConfig, parse_endpoint, parse_resource
from captures.postgres.log.event_location import LOC_PARTS
from captures.postgres.server.open_preview import standing_failures
from captures.postgres.server.session import asking, connect
from captures.postgres.server.slot_names import with_names
from captures.postgres.server.slot_ownership import NOBODY, Owner
from captures.postgres.source import PostgresSource
from captures.postgres.tables.bindings import bound_tables, captured_columns
from captures.postgres.tables.catalog import read_tables
from captures.postgres.tables.columns import Table
from captures.postgres.tables.document_schema import document_schema
from captures.postgres.tables.prerequisites import unmet
from captures.tables.bad_values import Policies, quarantine_failures
from captures.tables.collection import discovered
from captures.tables.truncation import Truncation
from protocol.logs import log_left_out
from protocol.messages import CHECK, LOG_ID, Binding, DiscoveredBinding, JsonObject

logger = logging.getLogger(__name__)

FALLBACK_KEY = [f"/_meta/source/loc/{part}" for part in range(LOC_PARTS)]
"""The key of a collection whose table has none."""


class PostgresDatabase:
    """See ``captures.contract.database.Database``."""

    def __init__(self) -> None:
        self.documentation_url = "docs/postgres.md"
        self.resource_path_pointers = ["/schema", "/table"]
        self.fallback_key = FALLBACK_KEY
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
        found = [_discovered(table, endpoint) for table in tables]
        why = "it has no primary key, and without REPLICA IDENTITY FULL the log does not identify its rows"
        for binding in found:
            if binding.disable:
                log_left_out(logger, binding.recommended_name, why)
        return found

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        endpoint = parse_endpoint(config)
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        with _session(endpoint, "checking prerequisites") as session:
            found = unmet(session, endpoint, resources, bound_tables(session, resources, endpoint.publication))
            if check := os.environ.get(CHECK):
                said = {str(failure) for failure in found.all}
                more = standing_failures(session, endpoint, self._owner, self._state, running=check == "running")
                found = found.with_source(*(failure for failure in more if str(failure) not in said))
        found.enforce("TM-PG-010")
        return [resource.path for resource in resources]

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> PostgresSource:
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        endpoint = parse_endpoint(config)
        policies = [(".".join(resource.path), resource.on_bad_value) for resource in resources]
        for failure in quarantine_failures("TM-PG-023", endpoint.on_bad_value, policies):
            raise failure
        if only_reads:
            endpoint = endpoint.model_copy(update={"read_only": True})
        return PostgresSource(endpoint, bindings, resources, self._owner)


@contextlib.contextmanager
def _session(endpoint: EndpointConfig, what: str) -> Iterator[psycopg.Connection]:
    with connect(endpoint) as session, asking(what):
        yield session


def _discovered(table: Table, endpoint: EndpointConfig) -> DiscoveredBinding:
    columns = captured_columns(table, policies=Policies(endpoint.on_bad_value), key=table.key)
    truncates = endpoint.truncation is Truncation.EMIT
    return discovered(
        path=table.path,
        closed_schema=document_schema(table, columns, table.key, truncates=truncates),
        key=table.key,
        fallback=FALLBACK_KEY,
        key_is_fallback=table.key_is_fallback,
        # Once it is published, the server would refuse to update a table whose log cannot tell rows apart.
        disable=not table.key and table.replica_identity != "f",
    )
