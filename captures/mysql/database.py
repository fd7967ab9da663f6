"""MySQL and MariaDB as a connector: what it is, which tables there are, what must hold, what must be made."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from captures.contract.errors import LostPosition
from captures.mysql.config import EndpointConfig, ResourceConfig, parse_endpoint, parse_resource, replica_id_of
from captures.mysql.log.position import parse_position
from captures.mysql.log.resumption import continued
from captures.mysql.server.prerequisites import unmet
from captures.mysql.server.session import Session, asking, connect
from captures.mysql.source import MysqlSource
from captures.mysql.tables.bindings import bound_tables, captured_columns
from captures.mysql.tables.catalog import read_tables
from captures.mysql.tables.columns import Table
from captures.mysql.tables.document_schema import document_schema
from captures.mysql.values.types import form
from captures.tables.bad_values import Policies, quarantine_failures
from captures.tables.collection import discovered
from captures.tables.truncation import Truncation
from protocol.errors import SourceError
from protocol.logs import log_left_out
from protocol.messages import CHECK, Binding, DiscoveredBinding, JsonObject

logger = logging.getLogger(__name__)

FALLBACK_KEY = ["/_meta/source/cursor"]
"""The key of a collection whose table has none."""


class MysqlDatabase:
    """See ``captures.contract.database.Database``."""

    def __init__(self) -> None:
        self.documentation_url = "docs/mysql.md"
        self.resource_path_pointers = ["/schema", "/table"]
        self.fallback_key = FALLBACK_KEY
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
                    logger, binding.recommended_name, "it has no primary key: its entry must have a key or a scan"
                )
        return found

    def validate(self, config: JsonObject, bindings: Sequence[Binding]) -> list[list[str]]:
        endpoint = parse_endpoint(config)
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        with _session(endpoint, "checking prerequisites") as session:
            found = unmet(session, endpoint, resources, bound_tables(session, resources))
            if os.environ.get(CHECK) and (lost := self._lost_position(session, endpoint)):
                found = found.with_source(lost)
        found.enforce("TM-MY-010")
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

    def open(self, config: JsonObject, bindings: Sequence[Binding], *, only_reads: bool = False) -> MysqlSource:
        resources = [parse_resource(binding.resource_config) for binding in bindings]
        endpoint = parse_endpoint(config)
        policies = [(".".join(resource.path), resource.on_bad_value) for resource in resources]
        for failure in quarantine_failures("TM-MY-023", endpoint.on_bad_value, policies):
            raise failure
        stored = self._state.get("bindings")
        states = stored if isinstance(stored, dict) else {}
        layouts = {
            key: state["layout"] for key, state in states.items() if isinstance(state, dict) and "layout" in state
        }
        return MysqlSource(endpoint, bindings, resources, only_reads=only_reads, layouts=layouts)


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
