"""MySQL and MariaDB as a connector: what it is, which tables there are, what must hold, what must be made."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from captures.interface import LostPosition
from captures.mysql.bindings import bound_tables, captured_columns
from captures.mysql.catalog import read_tables
from captures.mysql.columns import Table
from captures.mysql.config import EndpointConfig, ResourceConfig, parse_endpoint, parse_resource, replica_id_of
from captures.mysql.document_schema import document_schema
from captures.mysql.history import continued
from captures.mysql.position import parse_position
from captures.mysql.prerequisites import unmet
from captures.mysql.session import Session, asking, connect
from captures.mysql.source import MysqlSource
from captures.mysql.types import form
from protocol.errors import SourceError, codes_of
from protocol.logs import log_failure, log_left_out
from protocol.messages import CHECK, Binding, DiscoveredBinding, JsonObject

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
        self._state: JsonObject = {}

    def with_names(self, config: JsonObject, capture: str, state: JsonObject) -> JsonObject:
        self._state = state
        return {**config, "server_id": config.get("server_id") or replica_id_of(config, capture)} if capture else config

    def discover(self, config: JsonObject) -> list[DiscoveredBinding]:
        endpoint = parse_endpoint(config)
        with _session(endpoint, "discovering tables") as session:
            tables = read_tables(session)
        found = [_discovered(table, endpoint) for table in tables if table.path != endpoint.watermark_path]
        for binding in found:
            if binding.disable:
                log_left_out(
                    logger, binding.recommended_name, "it has no primary key: its entry must give a key or a scan"
                )
        return found

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        endpoint = parse_endpoint(config)
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        with _session(endpoint, "checking prerequisites") as session:
            failures = unmet(session, endpoint, resources, bound_tables(session, resources))
            if os.environ.get(CHECK) and (lost := self._lost_position(session, endpoint)):
                failures.append(lost)
        if len(failures) == 1:
            raise failures[0]
        if failures:
            for failure in failures:
                log_failure(logger, failure)
            raise SourceError("TM-MY-010", f"{len(failures)} prerequisites are not met: {codes_of(failures)}")
        return [resource.path for resource in resources]

    def _lost_position(self, session: Session, endpoint: EndpointConfig) -> SourceError | None:
        """Why the capture cannot go on from where it stands; None where it can, or has not begun."""
        cursor, identity = self._state.get("cursor"), self._state.get("source")
        if not cursor:
            return None
        try:
            continued(session, endpoint, parse_position(str(cursor)), identity if isinstance(identity, dict) else {})
        except LostPosition as lost:
            if endpoint.on_lost_position == "fail":
                return lost
            logger.warning("%s; all tables will be read again", lost.message, extra={"code": lost.code})
        except SourceError as error:
            return error
        return None

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
