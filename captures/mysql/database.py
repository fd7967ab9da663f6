"""MySQL and MariaDB as a connector: what it is, which tables there are, what must hold, what must be made."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from captures.mysql.bindings import bound_tables, captured_columns
from captures.mysql.catalog import read_tables
from captures.mysql.columns import Table
from captures.mysql.config import EndpointConfig, ResourceConfig, parse_endpoint, parse_resource, replica_id_of
from captures.mysql.document_schema import document_schema
from captures.mysql.prerequisites import unmet
from captures.mysql.session import Session, asking, connect
from captures.mysql.source import MysqlSource
from captures.mysql.types import form
from protocol.errors import SourceError
from protocol.logs import log_failure
from protocol.messages import Binding, DiscoveredBinding, JsonObject

logger = logging.getLogger(__name__)

FALLBACK_KEY = "/_meta/source/cursor"
"""The key of a collection whose table has none."""


class MysqlDatabase:
    """See ``captures.interface.Database``."""

    def __init__(self) -> None:
        self.documentation_url = "docs/mysql.md"
        self.resource_path_pointers = ["/schema", "/table"]
        self.endpoint_config: type[BaseModel] = EndpointConfig
        self.resource_config: type[BaseModel] = ResourceConfig

    def with_names(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        return {**config, "server_id": config.get("server_id") or replica_id_of(config, capture)} if capture else config

    def discover(self, config: JsonObject) -> list[DiscoveredBinding]:
        endpoint = parse_endpoint(config)
        with _session(endpoint, "discovering tables") as session:
            tables = read_tables(session)
        return [_discovered(table, endpoint) for table in tables if table.path != endpoint.watermark_path]

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        endpoint = parse_endpoint(config)
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        with _session(endpoint, "checking prerequisites") as session:
            failures = unmet(session, endpoint, resources, bound_tables(session, resources))
        if len(failures) == 1:
            raise failures[0]
        if failures:
            for failure in failures:
                log_failure(logger, failure)
            listed = "; ".join(str(failure) for failure in failures)
            raise SourceError("TM-MY-010", f"{len(failures)} prerequisites are not met: {listed}")
        return [resource.path for resource in resources]

    def apply(self, config: JsonObject, bindings: Sequence[Binding]) -> str:
        """Nothing: only when the capture opens is it known where it stands, and so whether this is its server."""
        return ""

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> MysqlSource:
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        return MysqlSource(parse_endpoint(config), bindings, resources, only_reads=only_reads)


@contextlib.contextmanager
def _session(endpoint: EndpointConfig, what: str) -> Iterator[Session]:
    with contextlib.closing(connect(endpoint)) as session, asking(what):
        yield session


def _discovered(table: Table, endpoint: EndpointConfig) -> DiscoveredBinding:
    # A column of a type that is not known has no schema; validating the table asks to exclude it.
    columns = [column for column in captured_columns(table.columns, ()) if form(column) is not None]
    key = [f"/{name.replace('~', '~0').replace('/', '~1')}" for name in table.key]
    return DiscoveredBinding(
        recommended_name=f"{table.schema}/{table.name}",
        resource_config={"schema": table.schema, "table": table.name},
        document_schema=document_schema(
            table,
            columns,
            table.key,
            truncates=endpoint.truncate == "emit",
            tinyint1_as_bool=endpoint.tinyint1_as_bool,
        ),
        key=key or [FALLBACK_KEY],
        # Without a key there is no scan by key: such a table is found, and left out until someone chooses how.
        disable=not key,
        resource_path=[table.schema, table.name],
        is_fallback_key=not key or table.key_is_fallback,
    )
