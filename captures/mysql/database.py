"""MySQL and MariaDB as a connector: what it is, which tables there are, what must hold, what must be made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from captures.bad_values import Policies, quarantine_failures
from captures.collection import discovered
from captures.mysql.bindings import bound_tables, captured_columns
from captures.mysql.catalog import read_tables
from captures.mysql.columns import Table
from captures.mysql.config import EndpointConfig, ResourceConfig, parse_endpoint, parse_resource
from captures.mysql.document_schema import document_schema
from captures.mysql.prerequisites import unmet
from captures.mysql.session import Session, asking, connect
from captures.mysql.source import MysqlSource
from captures.mysql.types import form
from captures.truncation import Truncation
from protocol.messages import Binding, DiscoveredBinding, JsonObject

FALLBACK_KEY = ["/_meta/source/cursor"]
"""The key of a collection whose table has none."""


class MysqlDatabase:
    """See ``captures.interface.Database``."""

    def __init__(self) -> None:
        self.documentation_url = "docs/mysql.md"
        self.resource_path_pointers = ["/schema", "/table"]
        self.fallback_key = FALLBACK_KEY
        self.endpoint_config: type[BaseModel] = EndpointConfig
        self.resource_config: type[BaseModel] = ResourceConfig

    def discover(self, config: JsonObject) -> list[DiscoveredBinding]:
        endpoint = parse_endpoint(config)
        with _session(endpoint, "discovering tables") as session:
            tables = read_tables(session)
        return [_discovered(table, endpoint) for table in tables if table.path != endpoint.watermark_path]

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        endpoint = parse_endpoint(config)
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        with _session(endpoint, "checking prerequisites") as session:
            found = unmet(session, endpoint, resources, bound_tables(session, resources))
        found.enforce("TM-MY-010")
        return [resource.path for resource in resources]

    def apply(self, config: JsonObject, bindings: Sequence[Binding]) -> str:
        """Nothing: only when the capture opens is it known where it stands, and so whether this is its server."""
        return ""

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> MysqlSource:
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        endpoint = parse_endpoint(config)
        policies = [(".".join(resource.path), resource.on_bad_value) for resource in resources]
        for failure in quarantine_failures("TM-MY-023", endpoint.on_bad_value, policies):
            raise failure
        return MysqlSource(endpoint, bindings, resources, only_reads=only_reads)


@contextlib.contextmanager
def _session(endpoint: EndpointConfig, what: str) -> Iterator[Session]:
    with contextlib.closing(connect(endpoint)) as session, asking(what):
        yield session


def _discovered(table: Table, endpoint: EndpointConfig) -> DiscoveredBinding:
    # A column of a type that is not known has no schema; validating the table asks to exclude it.
    captured = captured_columns(table.columns, (), policies=Policies(endpoint.on_bad_value), key=table.key)
    columns = [column for column in captured if form(column) is not None]
    return discovered(
        path=table.path,
        closed_schema=document_schema(
            table,
            columns,
            table.key,
            truncates=endpoint.truncation is Truncation.EMIT,
            tinyint1_as_bool=endpoint.tinyint1_as_bool,
        ),
        key=table.key,
        fallback=FALLBACK_KEY,
        key_is_fallback=table.key_is_fallback,
        # Without a key there is no scan by key: such a table is found, and left out until someone chooses how.
        disable=not table.key,
    )
